"""What specbench promises of itself on a GPU, held against what the script measured.

Each criterion is a function with its bar; it answers held, not held, or not measured and why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from tests.gpu.records import Cell, Records, mean_of

Verdict = Literal["held", "not held", "not measured"]

LEAST_OF_PEAK_READ = 0.80
MOST_OTHER = 0.03
LEAST_CAPTURED_OVER_EAGER = 2.0
MOST_PREDICTION_ERROR = 0.05
MOST_COUNTER_GAP = 0.10

_SYNTHETIC = ("synthetic-model", "synthetic-eagle")


@dataclass(frozen=True)
class Criterion:
    """A promise, its verdict, and the figures it rests on.

    Attributes:
        promise: with its bar.
        figures: name -> value; shares and ratios as plain numbers.
        reason: what is lacking where it was not measured.
    """

    promise: str
    verdict: Verdict
    figures: dict[str, float] = field(default_factory=dict)
    reason: str | None = None


def all_criteria(records: Records) -> list[Criterion]:
    """Every criterion, held against a script's results."""
    return [check(records) for check in CRITERIA]


def near_the_peak(records: Records) -> Criterion:
    """Plain decoding of the 8B shape at batch 1: bytes of a step over its time and the peak."""
    promise = f"8B shape, batch 1, compiled: at least {LEAST_OF_PEAK_READ:.0%} of the peak read"
    shares = {
        name: mean_of(records.plain(run), "read_bandwidth_utilization")
        for name, run in {"compiled": "8b-compile", "captured": "8b", "eager": "8b-eager"}.items()
    }
    figures = {name: share for name, share in shares.items() if share is not None}
    if shares["compiled"] is None:
        lacking = _lacking(records.plain("8b-compile"), "8b-compile", "read_bandwidth_utilization")
        return Criterion(promise, "not measured", figures, lacking)
    return Criterion(promise, _held(shares["compiled"] >= LEAST_OF_PEAK_READ), figures)


def small_loop(records: Records) -> Criterion:
    """What a round takes outside draft and verify, in the worst of the captured synthetic cells."""
    promise = f"loop outside draft and verify, batch 1: at most {MOST_OTHER:.0%} of a round"
    cells = [cell for run in _SYNTHETIC for cell in records.drafted(run)]
    shares = [
        cell["other_s"] / (cell["draft_s"] + cell["verify_s"] + cell["other_s"])
        for cell in cells
        if cell.get("other_s") is not None
    ]
    if not shares:
        return Criterion(promise, "not measured", reason=_lacking(cells, *_SYNTHETIC, "other_s"))
    figures = {"median": median(shares), "worst": max(shares), "cells": float(len(shares))}
    return Criterion(promise, _held(max(shares) <= MOST_OTHER), figures)


def capture_pays(records: Records) -> Criterion:
    """Plain decoding of SmolLM2 at batch 1, captured over eager."""
    promise = f"SmolLM2, batch 1: captured at least {LEAST_CAPTURED_OVER_EAGER:g} times eager"
    speeds = {
        name: mean_of(records.plain(run), "tok_per_s")
        for name, run in {"captured": "smollm2", "eager": "smollm2-eager"}.items()
    }
    figures = {f"{name}_tok_per_s": speed for name, speed in speeds.items() if speed is not None}
    captured, eager = speeds["captured"], speeds["eager"]
    if captured is None or eager is None:
        missing = "smollm2" if captured is None else "smollm2-eager"
        lacking = _lacking(records.plain(missing), missing, "tok_per_s")
        return Criterion(promise, "not measured", figures, lacking)
    if not _captured(records.manifest("smollm2")):
        reason = "no step of the run smollm2 was captured: both ran eagerly"
        return Criterion(promise, "not measured", figures, reason)
    figures["ratio"] = captured / eager
    return Criterion(promise, _held(captured >= LEAST_CAPTURED_OVER_EAGER * eager), figures)


def predictions_hold(records: Records) -> Criterion:
    """Every synthetic cell as the extended model predicts it from the other γ of its drafter."""
    promise = f"extended model, synthetic cells: median error at most {MOST_PREDICTION_ERROR:.0%}"
    groups = [group for run in _SYNTHETIC for group in records.fit(run).get("groups", [])]
    left_out = [
        abs(cell["error"])
        for group in groups
        for cell in (group.get("prediction") or {}).get("held_out", [])
        if cell.get("error") is not None
    ]
    known = [
        abs(point["error_extended"])
        for group in groups
        for point in group.get("points", [])
        if point.get("error_extended") is not None
    ]
    if not left_out:
        reason = "no fit of the synthetic runs predicts a γ from the others"
        return Criterion(promise, "not measured", reason=reason)
    figures = {"median": median(left_out), "worst": max(left_out), "cells": float(len(left_out))}
    if known:
        figures["median_with_its_own_costs"] = median(known)
    return Criterion(promise, _held(median(left_out) <= MOST_PREDICTION_ERROR), figures)


def bytes_agree(records: Records) -> Criterion:
    """Bytes that must move beside those that the GPU's counter saw, cell by cell."""
    promise = f"bytes of the model within {MOST_COUNTER_GAP:.0%} of the GPU's counter"
    cells = [cell for run in ("8b", *_SYNTHETIC) for cell in records.cells(run)]
    gaps = [gap for cell in cells if (gap := _counter_gap(cell)) is not None]
    if not gaps:
        reason = "no cell has both the counter of bytes and those that must move"
        return Criterion(promise, "not measured", reason=reason)
    figures = {"median": median(gaps), "worst": max(gaps), "cells": float(len(gaps))}
    return Criterion(promise, _held(max(gaps) <= MOST_COUNTER_GAP), figures)


CRITERIA: tuple[Callable[[Records], Criterion], ...] = (
    near_the_peak,
    small_loop,
    capture_pays,
    predictions_hold,
    bytes_agree,
)


def _counter_gap(cell: Cell) -> float | None:
    """Both over the seconds that the counters saw."""
    counters, traffic = cell.get("counters") or {}, cell.get("traffic") or {}
    counted, seconds = counters.get("dram_bytes_per_s"), counters.get("seconds")
    moved = traffic.get("total_bytes")
    return abs(moved / seconds / counted - 1) if moved and seconds and counted else None


def _captured(manifest: dict[str, Any]) -> bool:
    """Whether any step of a run was captured."""
    return bool((manifest.get("captured") or {}).get("captured"))


def _held(holds: bool) -> Verdict:
    return "held" if holds else "not held"


def _lacking(cells: list[Cell], *names: str) -> str:
    """Why a figure is not there: no cells, or cells without the field, which is named last."""
    *runs, field_name = names
    if not cells:
        return f"no cell was measured in {' and '.join(runs)}"
    return f"the cells of {' and '.join(runs)} have no {field_name}"
