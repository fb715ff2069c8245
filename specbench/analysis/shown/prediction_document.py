"""Costs and predictions of a group as plain data: the names other people's scripts read.

Used by :mod:`specbench.analysis.shown.documents`. What is not known is None.
"""

from __future__ import annotations

import math
from typing import Any

from specbench.analysis.fitted import GammaFit, GroupFit
from specbench.analysis.prediction.held_out import HeldOut
from specbench.analysis.rounds.gap import TERMS, gap_sentence
from specbench.theory.cost_model import CostFit

_COSTS = ("d0", "c", "v0", "v_slope", "o", "fixed", "per_token")


def costs_document(fit: CostFit | None) -> dict[str, Any] | None:
    """In units of T1, per round or per drafted token; intervals are [low, high]."""
    if fit is None:
        return None
    fields: dict[str, Any] = {}
    for name in _COSTS:
        estimate = getattr(fit, name)
        fields[name] = estimate.value if estimate else None
        fields[f"{name}_ci"] = list(estimate.ci) if estimate and estimate.ci else None
    return {**fields, "idle_round": fit.idle, "scatter": fit.scatter}


def prediction_document(group: GroupFit) -> dict[str, Any] | None:
    """Each gamma as the others predict it, and how far off both models are."""
    if group.prediction is None:
        return None
    gaps = [point.gap for point in group.points if point.gap]
    return {
        "held_out": [_held_out(cell) for cell in group.prediction.cells],
        "errors": group.prediction.errors._asdict(),
        "errors_closed_form": group.prediction.errors_closed_form._asdict(),
        "sentence": gap_sentence(gaps) if gaps else None,
    }


def errors_document(group: GroupFit) -> dict[str, Any]:
    """How far off both models are where they know the measurement: median and worst over gammas."""
    closed, extended = group.errors_closed_form, group.errors_extended
    return {
        "closed_form": closed._asdict() if closed else None,
        "extended": extended._asdict() if extended else None,
    }


def prediction_columns(group: GroupFit, point: GammaFit) -> dict[str, Any]:
    """The same of one gamma, with its gap a column per term."""
    gap = point.gap.terms if point.gap else {}
    cell = group.prediction.at(point.gamma) if group.prediction else None
    told = _held_out(cell) if cell else {}
    low, high = told.get("speedup_ci") or (None, None)
    return {
        **{f"gap_{name}": gap.get(name) for name in TERMS},
        "held_out": told.get("speedup"),
        "held_out_low": low,
        "held_out_high": high,
        "held_out_error": told.get("error"),
        "held_out_inside": told.get("inside"),
        "held_out_extrapolated": told.get("extrapolated"),
        "held_out_closed_form": told.get("closed_form"),
        "held_out_error_closed_form": told.get("error_closed_form"),
    }


def _held_out(cell: HeldOut) -> dict[str, Any]:
    return {
        "gamma": cell.gamma,
        "measured": cell.measured,
        "speedup": cell.speedup,
        "speedup_ci": list(cell.ci) if cell.ci else None,
        "error": cell.error,
        "tokens_error": None if math.isnan(cell.tokens_error) else cell.tokens_error,
        "inside": cell.inside,
        "wide": cell.wide,
        "extrapolated": cell.extrapolated,
        "acceptance_model": cell.acceptance,
        "closed_form": cell.closed_form,
        "error_closed_form": cell.error_closed_form,
    }
