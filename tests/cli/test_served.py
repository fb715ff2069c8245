"""Every command on a run that was measured on servers: an answer, or what is missing by name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specbench.records.store import load_run
from specbench.report.document import build
from tests.cli.conftest import Result
from tests.fake_server import FakeServer
from tests.tiny_target import write_prompts

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[FakeServer, FakeServer]]:
    fast, plain = FakeServer(), FakeServer(accepted=None)
    with fast.serving(), plain.serving():
        yield fast, plain


@pytest.fixture
def words(servers: tuple[FakeServer, FakeServer], tmp_path: Path) -> list[str]:
    """A command that measures them, into ``run``."""
    fast, plain = servers
    prompts = write_prompts(tmp_path / "mine.jsonl")
    backend = f"openai:{fast.url},baseline={plain.url}"
    words = ["run", "--backend", backend, "--drafter", "model:draft", "--task", str(prompts)]
    words += ["--prompts", "6", "--temperature", "0", "--out", str(tmp_path / "run")]
    return [*words, "--batch-size", "1,2"]


def test_dry_run_lists_the_cells_and_asks_nothing(
    specbench: Command, words: list[str], servers: tuple[FakeServer, FakeServer]
):
    before = len(servers[0].bodies)
    result = specbench(*words, "--dry-run")
    assert result.code == 0, result.err
    assert "target tiny" in result.out
    assert "model:draft  γ = 2" in result.out
    assert "no estimate of the time" in result.out
    assert len(servers[0].bodies) == before


def test_a_run_is_read_by_every_command(specbench: Command, words: list[str], tmp_path: Path):
    run, folder = specbench(*words), str(tmp_path / "run")
    assert run.code == 0, run.err
    assert "0.60" in run.out
    assert "identical" in run.out
    fit = specbench("fit", folder)
    assert fit.code == 0, fit.err
    assert "measured on a server, vllm: no times of rounds, so no c" in fit.out + fit.err
    assert "numbers that cannot be" not in fit.out + fit.err
    answer = specbench("optimal-gamma", folder, "--format", "json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["groups"][0]["drafter"] == "model:draft"
    compare = specbench("compare", folder, folder)
    assert compare.code == 0, compare.err
    assert re.search(r"^model:draft +0 +1 +2 ", compare.out, re.MULTILINE)
    both = json.loads(specbench("compare", folder, folder, "--format", "json").out)
    rates = [one["draft_acceptance_rate"] for one in both["cells"] if one["gamma"]]
    assert [(rate["a"], rate["ratio"]) for rate in rates] == [(pytest.approx(0.5), 1.0)] * 2
    figure = ["--figure", "speedup-vs-gamma", "--out", str(tmp_path), "--format", "svg"]
    plot = specbench("plot", folder, *figure)
    assert plot.code == 0, plot.err


def test_goodput_is_told_where_limits_were_given(
    specbench: Command, words: list[str], tmp_path: Path
):
    run = specbench(*words, "--goodput", "ttft:60000, tpot:60000")
    assert run.code == 0, run.err
    told = [line for line in run.out.splitlines() if "requests/s within" in line]
    assert len(told) == 2
    assert all("within ttft 60000 ms, tpot 60000 ms: plain decoding (first)" in t for t in told)
    lines = (tmp_path / "run" / "cells.jsonl").read_text().splitlines()
    for cell in map(json.loads, lines):
        assert cell["goodput_per_s"] == pytest.approx(cell["requests_per_s"])
        assert cell["server"]["goodput_limits_ms"] == {"ttft": 60000.0, "tpot": 60000.0}
    page = build(load_run(tmp_path / "run"))
    assert "in time/s: requests per second within ttft 60000 ms, tpot 60000 ms" in page
    assert "(100%)" in page


@pytest.mark.parametrize(
    ("limits", "part"),
    [("ttft", "ttft"), ("ttft:0", "ttft:0"), ("itl:5", "itl:5"), ("tpot:5,tpot:6", "tpot:6")],
)
def test_limits_that_can_not_be_are_one_line(specbench: Command, limits: str, part: str):
    line = specbench("run", "--backend", "openai:http://h", "--goodput", limits).error_line
    assert f"--goodput {limits!r} is not usable at {part!r}" in line
    assert "ttft, tpot, e2el" in line


@pytest.mark.slow
def test_a_run_is_reported_with_every_figure_that_it_has(
    specbench: Command, words: list[str], tmp_path: Path
):
    assert specbench(*words).code == 0
    page = tmp_path / "page.html"
    report = specbench("report", str(tmp_path / "run"), "--out", str(page))
    assert report.code == 0, report.err
    assert "acceptance is what the server" in page.read_text()


def test_the_help_names_servers_and_rates(specbench: Command):
    text = specbench("run", "--help").out
    assert "openai:URL" in text
    assert "--request-rate" in text


def test_a_server_that_is_not_there_is_one_line(specbench: Command, tmp_path: Path):
    words = ["run", "--backend", "openai:http://127.0.0.1:9", "--out", str(tmp_path / "run")]
    assert "does not answer" in specbench(*words).error_line
