"""Names from a run's files never reach a terminal as they are: escapes are spelt out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.analysis.shown.names import printable
from tests.simulate import SimulatedDrafter, simulate_run

Command = Callable[..., Any]
HOSTILE = "\x1b[31mred\x07\x9b2J\u202ertl\r"
UNSAFE = set("\x1b\x07\x9b\u202e\r")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("runs") / "run"
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02)}
    simulate_run(folder, drafters, gammas=(1, 2, 4), prompts=4, tokens=32, repeats=1)
    cells = folder / "cells.jsonl"
    lines = [json.loads(line) for line in cells.read_text().splitlines()]
    for line in lines:
        line["task"] += HOSTILE
        line["target"] += HOSTILE
        line["lossless"] = "DIVERGED" if line["gamma"] == 2 else line["lossless"]
        if line["drafter"] != "none":
            line["drafter"] += HOSTILE
    cells.write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest |= {"name": HOSTILE, "target": {"name": HOSTILE}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return str(folder)


@pytest.mark.parametrize(
    "words",
    [
        ("fit",),
        ("fit", "--detail"),
        ("fit", "--claims"),
        ("fit", "--format", "json"),
        ("fit", "--format", "csv"),
        ("fit", "--convention", "vllm"),
        ("optimal-gamma",),
        ("optimal-gamma", "--format", "json"),
    ],
)
def test_no_command_prints_a_control_character(
    specbench: Command, run: str, words: tuple[str, ...]
) -> None:
    result = specbench(words[0], run, *words[1:])
    assert result.code == 0
    assert not UNSAFE & set(result.out + result.err)


def test_compare_and_errors_spell_them_out(specbench: Command, run: str) -> None:
    result = specbench("compare", run, run, "--fail-below", "0.95")
    assert result.code == 1
    assert not UNSAFE & set(result.out + result.err)
    assert r"\u001b[31mred\u0007\u009b2J\u202ertl\u000d" in result.err
    line = specbench("fit", f"no{HOSTILE}where").error_line
    assert not UNSAFE & set(line)


def test_data_says_which_characters_they_were(specbench: Command, run: str) -> None:
    document = json.loads(specbench("compare", run, run, "--format", "json").out)
    assert document["cells"][0]["task"] == f"code{HOSTILE}"
    rows = csv.DictReader(io.StringIO(specbench("compare", run, run, "--format", "csv").out))
    assert next(rows)["task"] == "code" + printable(HOSTILE)


def test_long_names_are_cut_in_tables(specbench: Command, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02)}
    simulate_run(folder, drafters, gammas=(1, 2, 4), prompts=6, tokens=32)
    cells = folder / "cells.jsonl"
    text = cells.read_text()
    for name in ("code", "ngram"):
        text = text.replace(f'"{name}"', f'"{name * 60}"')
    cells.write_text(text)
    for words in (("fit",), ("fit", "--detail"), ("fit", "--claims"), ("optimal-gamma",)):
        result = specbench(words[0], str(folder), *words[1:])
        assert result.code == 0
        lines = [x for x in result.out.splitlines() if not x.startswith("  --drafter")]  # to type
        assert max(map(len, lines)) <= 100, words
    compared = specbench("compare", str(folder), str(folder))
    assert max(map(len, compared.out.splitlines()[:-2])) <= 100


def test_figures_of_hostile_names_say_nothing_of_their_own(
    specbench: Command, run: str, tmp_path: Path
) -> None:
    words = ("--figure", "speedup-vs-gamma", "--format", "svg", "--out", str(tmp_path))
    result = specbench("plot", run, *words)
    assert result.code == 0
    assert all(line.startswith("note: ") for line in result.err.splitlines())
    assert not UNSAFE & set((tmp_path / "speedup-vs-gamma.svg").read_text())


@pytest.mark.parametrize("text", ["翻訳タスク", "α ≤ 4 · τ…", "模型🚀", "a\u00a0b", r"C:\new"])
def test_letters_of_any_script_stay(text: str) -> None:
    assert printable(text) == text
