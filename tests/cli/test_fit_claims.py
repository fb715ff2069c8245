from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.analysis.claims import CLAIMS
from tests.simulate import SimulatedDrafter, simulate_run

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    drafters = {
        "model:drafters/A-LONG-NAME-400M": SimulatedDrafter(lambda _, t: 0.8 - 0.3 * t, 0.1),
        "ngram": SimulatedDrafter(0.7, 0.01),
    }
    folder = simulate_run(
        tmp_path_factory.mktemp("runs") / "run",
        drafters,
        gammas=(1, 4),
        tasks=("a-task-with-a-long-name", "chat"),
        temperatures=(0.0, 1.0),
        batch_sizes=(1, 2),
        cost={"weight_bytes": 1e9, "kv_bytes_per_token": 1e5},
        machine={"bandwidth_bytes_per_s": 1e11, "matmul_flops_per_s": 1e12},
        parameters=500_000_000,
    )
    return str(folder)


def test_every_claim_is_told_in_80_columns(specbench: Command, run: str) -> None:
    result = specbench("fit", run, "--claims")
    assert result.code == 0
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in result.out
    words = " ".join(result.out.split())
    for claim in CLAIMS:
        assert claim.wording in words
        assert claim.source in words
    assert "not shown: --detail" in words
    assert "not shown" not in specbench("fit", run, "--claims", "--detail").out
    heads = [line.split("  ")[0] for line in lines if line and not line.startswith((" ", "("))]
    assert set(heads[1:]) <= {"held", "not held", "not decided", "not measured"} | set(heads[:1])


def test_json_has_the_figures_on_both_sides(specbench: Command, run: str) -> None:
    document = json.loads(specbench("fit", run, "--claims", "--format", "json").out)
    found = {claim["name"]: claim for claim in document["claims"]}
    assert len(found) == len(CLAIMS)
    evidence = found["alpha-falls-with-temperature"]["evidence"]
    assert [side["label"] for side in evidence[0]["sides"]] == ["T = 0", "T = 1"]
    low, high = evidence[0]["margin_ci"]
    assert low < evidence[0]["margin"] < high


def test_csv_has_a_row_per_claim(specbench: Command, run: str) -> None:
    text = specbench("fit", run, "--claims", "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["name"] for row in rows] == [claim.name for claim in CLAIMS]
    assert all(bool(row["figures"]) or row["verdict"] == "not measured" for row in rows)


def test_two_answers_at_once_are_refused(specbench: Command, run: str) -> None:
    error = specbench("fit", run, "--claims", "--convention", "vllm").error_line
    assert "--convention and --claims" in error


def span(values: list[float], unit: float, form: str) -> str:
    """From the least to the most."""
    ends = (format(unit * end, form) for end in (min(values), max(values)))
    return " to ".join(dict.fromkeys(ends))


def test_fit_shows_the_limits(specbench: Command, run: str) -> None:
    out = specbench("fit", run, "--detail").out
    assert max(map(len, out.splitlines())) <= 80
    assert "limits: a plain decoding step\n" in out
    assert "limits: verification (v), over drafters and tasks\n" in out
    assert "entropy was not recorded" in " ".join(out.split())
    limits = json.loads(specbench("fit", run, "--format", "json").out)["limits"]
    told = " ".join(specbench("fit", run).out.split())
    times, verified = (
        [one[name] for one in limits[part]]
        for part, name in (("steps", "step_s"), ("verification", "v"))
    )
    assert f"a plain decoding step takes {span(times, 1e3, '.3g')} ms; its bytes need" in told
    assert f"v is measured at {span(verified, 1, '.2f')}; by the roofline it would be 1.00" in told
    assert "entropy was not recorded" in told
    assert len(limits["steps"]) == 2 * 2 * 2
    assert limits["verification"][0]["roofline_v"] == 1.0
    assert limits["drafting"] == []


def test_without_what_a_limit_needs_a_sentence_says_so(specbench: Command, tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01)}
    folder = simulate_run(tmp_path / "run", drafters, gammas=(2,), prompts=6)
    out = specbench("fit", str(folder)).out
    assert "limits: no peak bandwidth was measured" in out
