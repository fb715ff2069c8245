"""``specbench alpha`` on a tiny model on disk: a text of its own, a run's text, wrong input."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from specbench.sweep import runner
from tests.tiny_target import write_prompts, write_target

SIZE = ("--task", "mine.jsonl", "--prompts", "7", "--max-new-tokens", "10", "--threads", "1")
OPTIONS = ("--target", "tiny", *SIZE, "--device", "cpu", "--temperature", "0,1")
DRAFTERS = ("--drafter", "ngram", "--drafter", "early-exit:1")


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_target(folder / "tiny", chat=True)
    write_prompts(folder / "mine.jsonl", chats=1)
    write_stranger(folder / "stranger")
    return folder


def write_stranger(folder: Path) -> None:
    """A model whose tokenizer has two ids swapped."""
    file = write_target(folder) / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    ids = tokenizer["model"]["vocab"]
    ids["a"], ids["b"] = ids["b"], ids["a"]
    file.write_text(json.dumps(tokenizer))


def copied(old: str, new: str) -> Path:
    """A copy of a run, to be damaged."""
    return Path(shutil.copytree(old, new))


@pytest.fixture(autouse=True)
def at_home(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(runner, "copy_bandwidth", lambda device: 1e10)
    monkeypatch.setattr(runner, "read_bandwidth", lambda device: 2e10)
    monkeypatch.setattr(runner, "matmul_rate", lambda device, dtype: 1e11)
    monkeypatch.chdir(home)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def traced(specbench, home: Path) -> str:
    """A text at two temperatures with a drafter traced on it, made once; copies are damaged."""
    if not (home / "whole").exists():
        made = specbench("alpha", *OPTIONS, "--drafter", "ngram", "--gamma", "1", "--out", "whole")
        assert made.code == 0, made.err
    return "whole"


def test_a_text_is_made_once_and_drafters_are_added_to_it(specbench, home: Path):
    first = specbench("alpha", *OPTIONS, "--drafter", "ngram", "--gamma", "1,2,4", "--out", "a")
    assert first.code == 0, first.err
    assert "plain decoding (first)" in first.err
    lines = first.out.splitlines()
    assert lines[0].startswith("mine, T = 0: ")
    assert lines[1].split() == ["drafter", "α", "(95%)", "plain", "γ=1", "γ=2", "γ=4"]
    assert lines[2].split()[0] == "ngram"
    assert max(map(len, lines)) <= 80

    table = (home / "a" / "cells.jsonl").read_bytes()
    second = specbench("alpha", *OPTIONS, *DRAFTERS, "--gamma", "1,2,4", "--out", "a")
    assert second.code == 0, second.err
    assert "plain decoding" not in second.err
    assert "tracing early-exit:1" in second.err
    assert "tracing ngram" not in second.err
    assert (home / "a" / "cells.jsonl").read_bytes() == table
    traces = [
        json.loads(line) for line in (home / "a/diagnostics/traces.jsonl").read_text().splitlines()
    ]
    assert [(t["drafter"], t["temperature"]) for t in traces] == [
        ("ngram", 0.0),
        ("ngram", 1.0),
        ("early-exit:1", 0.0),
        ("early-exit:1", 1.0),
    ]
    assert all((home / "a/diagnostics" / f"{t['cell_id']}.parquet").exists() for t in traces)


def test_a_run_s_own_rounds_come_out_at_temperature_0(specbench, home: Path):
    ran = specbench("run", *OPTIONS, *DRAFTERS, "--gamma", "1,3", "--out", "run")
    assert ran.code == 0, ran.err
    result = specbench("alpha", "run", *DRAFTERS, "--gamma", "1,3", "--format", "json")
    assert result.code == 0, result.err
    traces = json.loads(result.out)["traces"]
    assert len(traces) == 4
    cells = [json.loads(line) for line in (home / "run" / "cells.jsonl").read_text().splitlines()]
    for trace in traces:
        for traced in trace["by_gamma"]:
            (cell,) = (
                cell
                for cell in cells
                if (cell["drafter"], cell["gamma"], cell["temperature"])
                == (trace["drafter"], traced["gamma"], trace["temperature"])
            )
            if trace["temperature"] == 0:
                assert traced["tau"] == pytest.approx(cell["tau"])
                assert traced["alpha"] == pytest.approx(cell["alpha"])
                assert traced["num_rounds"] == cell["num_rounds"]
            else:
                assert abs(traced["tau"] - cell["tau"]) < 0.7
    again = specbench("alpha", "run")
    assert again.code == 0
    assert again.out.count("early-exit:1") == 2
    rows = specbench("alpha", "run", "--format", "csv").out.splitlines()
    assert rows[0].startswith("task,temperature,drafter,gamma,alpha,alpha_low,alpha_high,tau,")
    assert len(rows) == 1 + 4 * 2
    fit = specbench("fit", "run", "--format", "json")
    assert fit.code == 0, fit.err
    limits = json.loads(fit.out)["limits"]
    assert not any("entropy" in text for text in limits["lacking"])
    bounds = {(one["drafter"], one["gamma"]): one for one in limits["drafting"]}
    assert len(bounds) == 4
    assert all(one["accepted_reference"] > 0 for one in bounds.values())
    assert bounds["early-exit:1", 1]["mean_max_p"] is None
    (ngram,) = (t for t in traces if t["drafter"] == "ngram" and t["temperature"] > 0)
    for traced in ngram["by_gamma"]:
        assert bounds["ngram", traced["gamma"]]["mean_max_p"] == traced["max_p"]
        assert 0 < traced["alpha"] <= traced["max_p"] < 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--drafter", "model:x,tree=8"), "drafts trees"),
        (("--drafter", "model:x,gamma=auto"), "chooses its draft length as it goes"),
        (("--drafter", "synthetic:0.8"), "has no guess of its own"),
        (("--drafter", "ngramm"), "unknown drafter 'ngramm'"),
        (("--drafter", "ngram", "--gamma", "0"), "--gamma '0' is not usable"),
        (("--drafter", "early-exit:9"), "early-exit:9 needs a number of layers"),
        (("--drafter", "model:nowhere/to-be-found.gguf"), "nowhere"),
        (("--drafter", "model:stranger"), "another vocabulary than target"),
        (("--drafter", "ngram", "--task", "gone.jsonl"), "no prompt file 'gone.jsonl'"),
        (("--drafter", "ngram", "--max-new-tokens", "600"), "beyond the target's context"),
        (("--format", "xml", "--drafter", "ngram"), "unknown output format 'xml'"),
        (("nothing",), "no run 'nothing'"),
        (("nothing", "--drafter", "ngram"), "no run 'nothing'"),
        (("nothing", "--gamma", "2"), "--gamma with RUN 'nothing' needs a drafter"),
        (("nothing", "--drafter", "ngram", "--task", "x"), "--task is decided by the run"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(specbench, home: Path, words, says):
    own = () if words[0] == "nothing" else ("--target", "tiny", *SIZE, "--out", "wrong")
    assert says in specbench("alpha", *own, *words).error_line
    assert not (home / "wrong").exists()


def test_a_run_without_traces_or_with_other_prompts(specbench, home: Path):
    made = specbench("run", *OPTIONS, "--drafter", "ngram", "--gamma", "1", "--out", "bare")
    assert made.code == 0, made.err
    assert "no drafter was traced in bare" in specbench("alpha", "bare").error_line
    prompts = (home / "mine.jsonl").read_text()
    (home / "mine.jsonl").write_text(prompts.replace("abc abc", "abd abd"))
    line = specbench("alpha", "bare", "--drafter", "ngram").error_line
    assert "other prompts of mine" in line
    (home / "mine.jsonl").write_text(prompts)


def test_a_run_whose_text_is_gone(specbench, traced: str):
    folder = copied(traced, "textless")
    cells = (folder / "cells.jsonl").read_text().splitlines(keepends=True)
    (folder / "cells.jsonl").write_text("")
    line = specbench("alpha", "textless", "--drafter", "early-exit:1").error_line
    assert "textless holds no plain decoding to trace drafters on" in line

    (folder / "cells.jsonl").write_text(cells[1])  # of temperature 1
    half = specbench("alpha", "textless", "--drafter", "early-exit:1")
    assert half.code == 0, half.err
    assert "warning: there is no plain decoding of mine at T = 0: it is left out" in half.err
    assert half.out.count("early-exit:1") == 1

    folder = copied(traced, "tableless")
    for table in (folder / "requests").iterdir():
        table.unlink()
    line = specbench("alpha", "tableless", "--drafter", "early-exit:1").error_line
    assert line.startswith("error: tableless/requests/mine-t0")
    assert "is missing" in line


def test_a_damaged_trace_is_named(specbench, traced: str):
    file = copied(traced, "torn") / "diagnostics" / "traces.jsonl"
    file.write_text(file.read_text().replace('"alpha":', '"alpha":"x","y":', 1))
    line = specbench("alpha", "torn").error_line
    assert "traces.jsonl line 1: alpha" in line


def test_random_weights_have_no_alpha(specbench) -> None:
    result = specbench("alpha", "--target", "shape:llama-3.2-1b", "--drafter", "ngram")
    assert result.code == 2
    assert "has random weights: no drafter's alpha can be told of them" in result.err
