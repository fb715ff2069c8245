"""Criteria: held, not held at the other side of the bar, and not measured with the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gpu import criteria
from tests.gpu.criteria import Criterion, all_criteria
from tests.gpu.records import Records
from tests.unit.gpu.worlds import cell, plain, write_fit, write_run


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path)


def test_without_results_nothing_is_claimed(records: Records):
    found = all_criteria(records)
    assert len(found) == 5
    assert {one.verdict for one in found} == {"not measured"}
    assert all(one.reason and not one.figures for one in found)


def shares(first: float | None, last: float | None) -> list[dict[str, Any]]:
    return [
        plain(baseline="first", read_bandwidth_utilization=first),
        plain(baseline="last", read_bandwidth_utilization=last),
    ]


@pytest.mark.parametrize(("last", "verdict"), [(0.82, "held"), (0.80, "not held")])
def test_the_compiled_baseline_is_held_to_the_peak_read(
    records: Records, last: float, verdict: str
):
    write_run(records.out, "8b-compile", *shares(0.79, last))
    write_run(records.out, "8b", *shares(0.7, 0.7), plain(8, read_bandwidth_utilization=0.1))
    found = criteria.near_the_peak(records)
    assert found.verdict == verdict
    assert found.figures == {
        "compiled": pytest.approx((0.79 + last) / 2),
        "captured": pytest.approx(0.7),
    }


def test_a_record_without_the_peak_read_gives_no_verdict(records: Records):
    write_run(records.out, "8b-compile", *shares(None, None))
    found = criteria.near_the_peak(records)
    assert found.verdict == "not measured"
    assert found.reason == "the cells of 8b-compile have no read_bandwidth_utilization"


def rounds(other_s: float, **more: Any) -> dict[str, float]:
    return {"draft_s": 0.25, "verify_s": 0.75 - other_s, "other_s": other_s, **more}


@pytest.mark.parametrize(("worst", "verdict"), [(0.0299, "held"), (0.0301, "not held")])
def test_the_worst_cells_loop_decides(records: Records, worst: float, verdict: str):
    write_run(records.out, "synthetic-model", plain(**rounds(0.9)), cell("a", 2, **rounds(0.01)))
    write_run(records.out, "synthetic-eagle", cell("b", 2, **rounds(worst)))
    found = criteria.small_loop(records)
    assert found.verdict == verdict
    assert found.figures["worst"] == pytest.approx(worst)
    assert found.figures["cells"] == 2


@pytest.mark.parametrize(("captured", "verdict"), [(200.0, "held"), (199.0, "not held")])
def test_captured_is_held_against_eager(records: Records, captured: float, verdict: str):
    write_run(
        records.out, "smollm2", plain(tok_per_s=captured), captured={"captured": {"SmolLM2": 12}}
    )
    write_run(records.out, "smollm2-eager", plain(tok_per_s=100.0))
    found = criteria.capture_pays(records)
    assert found.verdict == verdict
    assert found.figures["ratio"] == pytest.approx(captured / 100)


@pytest.mark.parametrize("captured", [None, {"captured": {}, "eager": {"SmolLM2": "no"}}])
def test_two_eager_runs_are_not_compared_as_if_one_were_captured(
    records: Records, captured: dict[str, Any] | None
):
    write_run(records.out, "smollm2", plain(tok_per_s=300.0), captured=captured)
    write_run(records.out, "smollm2-eager", plain(tok_per_s=100.0))
    found = criteria.capture_pays(records)
    assert found.verdict == "not measured"
    assert "no step of the run smollm2 was captured" in str(found.reason)


def test_one_missing_side_is_named(records: Records):
    write_run(
        records.out, "smollm2", plain(tok_per_s=300.0), captured={"captured": {"SmolLM2": 12}}
    )
    found = criteria.capture_pays(records)
    assert found.reason == "no cell was measured in smollm2-eager"


@pytest.mark.parametrize(("middle", "verdict"), [(-0.05, "held"), (-0.051, "not held")])
def test_the_median_error_over_both_drafters_decides(records: Records, middle: float, verdict: str):
    write_fit(records.out, "synthetic-model", "a", {2: 0.5, 4: middle})
    write_fit(records.out, "synthetic-eagle", "b", {2: 0.01})
    found = criteria.predictions_hold(records)
    assert found.verdict == verdict
    assert found.figures["median"] == pytest.approx(-middle)
    assert found.figures["median_with_its_own_costs"] == pytest.approx(-middle / 2)
    assert found.figures["worst"] == 0.5


def counted(bytes_per_s: float | None) -> dict[str, Any]:
    counters = {"dram_bytes_per_s": bytes_per_s, "seconds": 2.0}
    return {"traffic": {"total_bytes": 4e12}, "counters": counters}


@pytest.mark.parametrize(("rate", "verdict"), [(1.82e12, "held"), (1.81e12, "not held")])
def test_the_counter_is_held_against_the_bytes(records: Records, rate: float, verdict: str):
    write_run(records.out, "8b", plain(**counted(2e12)), cell("a", 4, **counted(None)))
    write_run(records.out, "synthetic-model", cell("a", 4, **counted(rate)))
    found = criteria.bytes_agree(records)
    assert found.verdict == verdict
    assert found.figures["cells"] == 2
    assert found.figures["worst"] == pytest.approx(2e12 / rate - 1)


def test_failed_cells_and_half_lines_do_not_count(records: Records):
    write_run(
        records.out, "smollm2", plain(tok_per_s=300.0), captured={"captured": {"SmolLM2": 12}}
    )
    failed = {**plain(tok_per_s=1.0), "status": "failed"}
    write_run(records.out, "smollm2-eager", plain(tok_per_s=5.0, baseline="first"), failed)
    with (records.out / "smollm2-eager" / "cells.jsonl").open("a") as file:
        file.write('{"cell_id": "half", "stat')
    assert criteria.capture_pays(records).figures["eager_tok_per_s"] == 5.0


def test_the_last_line_of_a_cell_counts(records: Records):
    write_run(records.out, "8b", plain(tok_per_s=1.0), plain(tok_per_s=2.0))
    assert [one["tok_per_s"] for one in records.plain("8b")] == [2.0]


def test_every_promise_fits_its_line():
    found = [check(Records(Path("nowhere"))) for check in criteria.CRITERIA]
    assert max(len(f"{'not measured':<14}{one.promise}") for one in found) <= 80
    assert all(isinstance(one, Criterion) for one in found)
