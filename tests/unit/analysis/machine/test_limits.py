from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.machine.limits import Limits, limits_of
from specbench.errors import SpecbenchError
from specbench.records.store import load_run
from specbench.records.traces import TraceRecord
from tests.simulate import STEP_S, SimulatedDrafter, simulate_run

NGRAM = {"ngram": SimulatedDrafter(0.7, 0.02)}
MEASURED: dict[str, Any] = {
    "cost": {"weight_bytes": 1e9, "kv_bytes_per_token": 1e5},
    "machine": {"bandwidth_bytes_per_s": 1e11, "matmul_flops_per_s": 1e12},
    "parameters": 500_000_000,
    "noise": 0.0,
}


def limits(folder: Path) -> Limits:
    run = load_run(folder)
    return limits_of(run, fit_run(run))


def uncertain(folder: Path, **changes: Any) -> None:
    entry = {"task": "code", "temperature": 1.0, "positions": 100, "entropy": 1.0}
    entry |= {"second_moment": 2.0, "max_p": 0.6, **changes}
    (folder / "diagnostics").mkdir(exist_ok=True)
    (folder / "diagnostics" / "uncertainty.json").write_text(json.dumps([entry]))


def test_a_step_beside_what_its_bytes_and_operations_need(tmp_path: Path) -> None:
    (step,) = limits(simulate_run(tmp_path / "run", NGRAM, tokens=41, **MEASURED)).steps
    # Contexts are 101 to 140 tokens long, 120.5 in the mean.
    assert step.forward.bytes == pytest.approx(1e9 + 1e5 * 120.5)
    assert step.step_s == pytest.approx(STEP_S)
    assert step.moving_s == pytest.approx(1.01205e-2)
    assert step.bandwidth_share == pytest.approx(1.01205e-2 / STEP_S)
    assert step.computing_s == pytest.approx(2 * 5e8 / 1e12)
    assert step.compute_share == pytest.approx(0.05)
    assert step.compute_bound_from == pytest.approx(10.1205)


def test_v_beside_its_roofline(tmp_path: Path) -> None:
    options = {**MEASURED, "gammas": (4, 15), "batch_sizes": (1, 2), "v": 1.5}
    found = limits(simulate_run(tmp_path / "run", NGRAM, **options)).verification
    by_place = {(one.key.setting.batch_size, one.gamma): one for one in found}
    assert by_place[1, 4].roofline == 1.0
    assert by_place[1, 4].tokens == 5.0
    assert by_place[1, 4].v == pytest.approx(1.5)
    assert by_place[1, 4].verify_s == pytest.approx(1.5 * STEP_S)
    assert by_place[1, 15].roofline == pytest.approx(1.6, abs=0.05)  # 16 tokens, bound from 10
    assert by_place[2, 15].roofline == pytest.approx(3.1, abs=0.1)


def test_acceptance_beside_what_entropy_sets(tmp_path: Path) -> None:
    options = {"gammas": (1, 4), "temperatures": (0.0, 1.0)}
    folder = simulate_run(tmp_path / "run", NGRAM, **options)
    assert limits(folder).drafting == ()
    assert any("entropy was not recorded" in text for text in limits(folder).lacking)
    uncertain(folder)
    found = limits(folder).drafting
    assert [one.gamma for one in found] == [1, 4]  # above temperature 0 only
    assert found[1].verified == 5.0
    assert found[1].reference == pytest.approx(3 * math.log(5))
    assert found[1].most_one_hot is None  # nothing was traced
    assert not any("entropy" in text for text in limits(folder).lacking)
    uncertain(folder, task="chat")
    assert limits(folder).drafting == ()
    assert any("entropy was not recorded above T = 0 (code)" in t for t in limits(folder).lacking)


def test_one_hot_drafts_are_bounded_where_they_are_evaluated(tmp_path: Path) -> None:
    """By a trace of the same drafter, gamma and setting: drafted positions are the easy ones."""
    options = {"gammas": (2, 4), "temperatures": (1.0,)}
    folder = simulate_run(tmp_path / "run", NGRAM, **options)
    uncertain(folder)
    cell = next(cell for cell in load_run(folder).cells if cell.drafter == "ngram")
    traced = [{"gamma": 1, "max_p": 0.9}, {"gamma": 2, "max_p": 0.8}]
    traces = folder / "diagnostics" / "traces.jsonl"
    for changes, expected in (
        ({}, [0.8, None]),
        ({"drafter": "ngram,max=9"}, [None, None]),
        ({"temperature": 0.5}, [None, None]),
        ({"top_p": 0.9}, [None, None]),
    ):
        line = TraceRecord.of(cell.cell, "text", by_gamma=traced).model_copy(update=changes)
        traces.write_text(line.model_dump_json() + "\n")
        assert [one.most_one_hot for one in limits(folder).drafting] == expected


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ({"machine": None}, "no peak bandwidth"),
        ({"machine": {"bandwidth_bytes_per_s": 1e11}}, "no matmul rate"),
        ({"parameters": None}, "parameters are not recorded"),
        ({"cost": None}, "no baseline tells the bytes"),
        ({"baseline": False}, "no baseline tells the bytes"),
    ],
)
def test_what_was_not_recorded_is_said_and_never_guessed(
    tmp_path: Path, missing: dict[str, Any], says: str
) -> None:
    found = limits(simulate_run(tmp_path / "run", NGRAM, gammas=(2,), **(MEASURED | missing)))
    assert any(says in text for text in found.lacking)
    assert all(one.roofline is None for one in found.verification)


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    folder = simulate_run(tmp_path / "run", NGRAM, gammas=(2,), temperatures=(1.0,))
    uncertain(folder, entropy=-1.0)
    with pytest.raises(SpecbenchError, match=r"uncertainty\.json"):
        limits(folder)
