from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.simulate import SimulatedDrafter, simulate_run

Command = Callable[..., Any]
DRAFTERS = {"ngram": SimulatedDrafter(0.7, 0.05)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("runs")
    made = {
        "a": simulate_run(folder / "a", DRAFTERS, gammas=(2, 4), prompts=8, seed=1),
        "slow": simulate_run(folder / "slow", DRAFTERS, gammas=(2, 4), prompts=8, v=1.6, seed=1),
        "other": simulate_run(
            folder / "other",
            DRAFTERS,
            gammas=(4, 8),
            tasks=("code", "chat"),
            prompts=8,
            target="another",
        ),
        "batch": simulate_run(
            folder / "batch", DRAFTERS, gammas=(2,), prompts=16, batch_sizes=(4,), seed=3
        ),
        "nothing": simulate_run(folder / "nothing", DRAFTERS, gammas=(2,), tasks=("chat",)),
    }
    return {name: str(path) for name, path in made.items()}


def test_a_run_against_itself_is_1_everywhere(specbench: Command, runs: dict[str, str]) -> None:
    result = specbench("compare", runs["a"], runs["a"], "--format", "json")
    assert result.code == 0
    assert result.err == ""
    cells = json.loads(result.out)["cells"]
    assert [(cell["drafter"], cell["gamma"]) for cell in cells] == [
        ("none", 0),
        ("ngram", 2),
        ("ngram", 4),
    ]
    for cell in cells[1:]:
        for metric in ("tok_per_s", "speedup", "alpha", "tau"):
            low, high = cell[metric]["ratio_ci"]
            assert cell[metric]["ratio"] == 1.0
            assert low <= 1.0 <= high
    assert cells[0]["speedup"] == {"a": None, "b": None, "ratio": None, "ratio_ci": None}


def test_contexts_are_compared_each_with_its_own(specbench: Command, tmp_path: Path) -> None:
    lengths = (None, 512)
    run = str(simulate_run(tmp_path / "run", DRAFTERS, gammas=(2,), context_lengths=lengths))
    cells = json.loads(specbench("compare", run, run, "--format", "json").out)["cells"]
    told = [(cell["context_length"], cell["drafter"]) for cell in cells]
    assert told == [(length, name) for length in lengths for name in ("none", "ngram")]
    out = specbench("compare", run, run).out
    assert "1@512" in out
    assert "B@N: prompts brought to N tokens" in out


def test_the_gate_names_what_became_slower(specbench: Command, runs: dict[str, str]) -> None:
    assert specbench("compare", runs["a"], runs["slow"]).code == 0
    result = specbench("compare", runs["a"], runs["slow"], "--fail-below", "0.95")
    assert result.code == 1
    (line,) = [text for text in result.err.splitlines() if not text.startswith("note: ")]
    assert "code, T = 0, batch 1, ngram γ = 2: 0." in line
    assert "ngram γ = 4" in line
    assert "plain decoding" not in line, "the baselines are as fast"
    assert specbench("compare", runs["a"], runs["slow"], "--fail-below", "0.4").code == 0
    assert specbench("compare", runs["slow"], runs["a"], "--fail-below", "0.95").code == 0
    document = json.loads(specbench("compare", runs["a"], runs["slow"], "--format", "json").out)
    speed = document["cells"][1]["tok_per_s"]
    assert speed["ratio"] == pytest.approx(1.1 / 1.7, rel=0.1)
    assert speed["ratio_ci"][0] < speed["ratio"] < speed["ratio_ci"][1] < 0.95
    assert document["cells"][1]["speedup"]["ratio"] == pytest.approx(speed["ratio"], rel=0.1)


def test_without_an_interval_the_ratio_decides_and_the_line_says_so(
    specbench: Command, runs: dict[str, str], tmp_path: Path
) -> None:
    one = [simulate_run(tmp_path / n, DRAFTERS, gammas=(2,), prompts=1, v=v) for n, v in
           (("fast", 1.0), ("slow", 2.0))]  # fmt: skip
    result = specbench("compare", str(one[0]), str(one[1]), "--fail-below", "0.9")
    assert result.code == 1
    assert "(no interval)" in result.err.splitlines()[-1]


def test_what_does_not_match_is_named(specbench: Command, runs: dict[str, str]) -> None:
    result = specbench("compare", runs["a"], runs["other"])
    assert result.code == 0
    assert (
        f"note: another target: simulated in {runs['a']}, another in {runs['other']}" in result.err
    )
    assert f"only in {runs['a']}: code, T = 0, batch 1, ngram γ = 2" in result.err
    assert "chat, T = 0, batch 1, plain decoding" in result.err
    assert max(map(len, result.out.splitlines()[:4])) <= 80


def test_batches_have_intervals_over_time(specbench: Command, runs: dict[str, str]) -> None:
    out = specbench("compare", runs["batch"], runs["batch"], "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(out)))
    for row in rows:  # that of plain decoding and that of a drafter, which emits more per step
        assert float(row["tok_per_s_ratio_low"]) < 1 < float(row["tok_per_s_ratio_high"])


def test_what_cells_differ_by_is_in_the_intervals_of_speeds(
    specbench: Command, runs: dict[str, str], tmp_path: Path
) -> None:
    """Baselines that lie apart say that any two cells may; they say nothing of acceptance."""
    options: dict[str, Any] = {"gammas": (2, 4), "prompts": 8, "seed": 1}
    unsteady = simulate_run(tmp_path / "unsteady", DRAFTERS, drift=0.1, **options)
    widths = []
    for other in (runs["a"], str(unsteady)):
        out = specbench("compare", runs["a"], other, "--format", "json").out
        ends = [json.loads(out)["cells"][1][name]["ratio_ci"] for name in ("tok_per_s", "alpha")]
        widths.append([high - low for low, high in ends])
    (speed, alpha), (speed_apart, alpha_apart) = widths
    assert speed_apart > speed + 0.1
    assert alpha_apart == alpha


def test_versions_of_two_runs_are_compared(
    specbench: Command, runs: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(runs["a"], folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["packages"], manifest["target"]["dtype"] = {"torch": "2.13.0"}, "float16"
    manifest["device"] = {"device": "cuda", "gpu": {"name": "H200"}}
    weights = {"sha256": "ab" * 32}
    manifest["drafters"] = {"ngram": weights, "eagle": weights}  # which neither run measured
    (folder / "manifest.json").write_text(json.dumps(manifest))
    err = specbench("compare", runs["a"], str(folder)).err
    for words in ("another dtype: not known", "another version of torch", "another machine"):
        assert words in err
    assert f"another sha256 of ngram: not known in {runs['a']}, {'ab' * 32} in" in err
    assert "eagle" not in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["a", "missing"], "no run 'missing'"),
        (["a", "a", "--fail-below", "much"], "--fail-below 'much' is no ratio"),
        (["a", "a", "--fail-below", "-1"], "--fail-below '-1' is no ratio"),
        (["a", "a", "--format", "xml"], "unknown output format 'xml'"),
        (["a", "nothing"], "no finished cell"),
    ],
)
def test_bad_input_ends_with_2(
    specbench: Command, runs: dict[str, str], words: list[str], says: str
) -> None:
    assert says in specbench("compare", *(runs.get(word, word) for word in words)).error_line
