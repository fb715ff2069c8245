"""Hugging Face's loop beside the native engine in one run, as a user sees it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers.utils import logging as transformers_logging

from tests.cli.conftest import Result
from tests.tiny_target import write_prompts, write_target

Command = Callable[..., Result]


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    """A command that measures a drafter that varies and one that does not, into ``run``."""
    target = write_target(tmp_path / "tiny")
    words = ["run", "--target", str(target), "--task", str(write_prompts(tmp_path / "mine.jsonl"))]
    words += ["--drafter", "ngram,match=first", "--drafter", "early-exit:1", "--gamma", "3"]
    words += ["--temperature", "0", "--prompts", "6", "--max-new-tokens", "12", "--threads", "1"]
    return [*words, "--device", "cpu", "--out", str(tmp_path / "run")]


def cells(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Cells with a drafter, by backend and drafter."""
    lines = (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return {(cell["backend"], cell["drafter"]): cell for cell in found if cell["gamma"]}


def test_one_run_holds_both_engines_and_their_acceptance_is_the_same(
    specbench: Command, words: list[str], tmp_path: Path
):
    result = specbench(*words, "--backend", "native", "--backend", "hf-assisted")
    assert result.code == 0, result.err
    by_name = cells(tmp_path / "run")
    assert len(by_name) == 4
    for (backend, drafter), cell in by_name.items():
        assert cell["status"] == "ok", cell["error"]
        assert cell["lossless"] == "identical"
        for field in ("alpha", "tau", "survival_by_position", "draft_acceptance_rate"):
            assert cell[field] == by_name["native", drafter][field], (backend, drafter, field)
        assert cell["speedup"] > 0
    fit = specbench("fit", str(tmp_path / "run"))
    assert fit.code == 0, fit.err
    assert "numbers that cannot be" not in fit.out + fit.err
    chosen = specbench("optimal-gamma", str(tmp_path / "run")).out
    compared = specbench("compare", str(tmp_path / "run"), str(tmp_path / "run")).out.splitlines()
    for engine in ("native", "hf-assisted"):
        assert f"mine, {engine}: fitted, over all γ" in fit.out
        assert f"What to use, {engine}" in chosen
        assert f"mine, {engine}" in compared
        assert f"mine, T = 0, batch 1, {engine}" in result.out
    assert "another target" not in result.err  # the same one was loaded twice


def test_the_librarys_own_settings_are_told_by_every_cell_that_they_bias(
    specbench: Command, words: list[str], tmp_path: Path
):
    result = specbench(*words, "--backend", "hf-assisted,defaults")
    assert result.code == 0, result.err
    by_name = cells(tmp_path / "run")
    varied = by_name["hf-assisted,defaults", "early-exit:1"]
    held = by_name["hf-assisted,defaults", "ngram,match=first"]
    assert varied["draft_length_mean"] < 3
    assert any("alpha is of easier tokens" in warning for warning in varied["warnings"])
    assert not any("easier tokens" in warning for warning in held["warnings"])
    fitted = json.loads(specbench("fit", str(tmp_path / "run"), "--format", "json").out)
    forms = {group["drafter"]: group["draft_form"] for group in fitted["groups"]}
    assert forms == {"early-exit:1": "adaptive", "ngram,match=first": "chain"}


def test_the_librarys_advice_to_its_own_code_is_not_shown(specbench: Command, words: list[str]):
    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    ear = Ear()
    transformers_logging.get_logger("transformers").warning_once.cache_clear()
    transformers_logging.add_handler(ear)
    try:
        assert specbench(*words, "--backend", "hf-assisted").code == 0
    finally:
        transformers_logging.remove_handler(ear)
    assert heard == []


def test_what_the_loop_cannot_run_is_dropped_by_name(specbench: Command, words: list[str]):
    result = specbench(
        *words, "--backend", "hf-assisted", "--batch-size", "1,2", "--drafter", "ngram", "--dry-run"
    )
    assert result.code == 0, result.err
    assert "takes one prompt at a time" in result.out
    assert "write ngram,match=first" in result.out


@pytest.mark.parametrize(
    ("backend", "answer"),
    [
        ("hf-assisted,default", "has no option 'default'"),
        ("hf-assisted:x", "takes no value"),
        ("hf-assisted,defaults=yes", "takes no value"),
        ("native,defaults", "nothing may follow"),
    ],
)
def test_a_backend_that_is_spelt_wrong_is_refused(
    specbench: Command, words: list[str], backend: str, answer: str
):
    assert answer in specbench(*words, "--backend", backend).error_line
