"""Fits as plain data, for JSON and CSV: the names other people's scripts read.

Intervals are [low, high] in JSON and two columns in CSV; what is not known is null or empty.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from specbench.analysis.acceptance.verdict import Acceptance
from specbench.analysis.fitted import GammaFit, GroupFit, RunFit
from specbench.analysis.pooling import Setting
from specbench.analysis.shown.prediction_document import (
    costs_document,
    errors_document,
    prediction_columns,
    prediction_document,
)


def fit_document(run: RunFit) -> dict[str, Any]:
    """``specbench fit --format json``."""
    return {
        "run": run.name,
        "target": run.target,
        "groups": [_group(group) for group in run.groups],
        "failed": [
            {"cell_id": cell.cell_id, "status": cell.status, "error": cell.error}
            for cell in run.failed
        ],
        "warnings": list(run.warnings),
    }


def fit_rows(run: RunFit) -> list[dict[str, Any]]:
    """``specbench fit --format csv``: a row per group and gamma."""
    rows = []
    for group in run.groups:
        head = {
            **_setting(group.key.setting),
            "drafter": group.key.drafter,
            "draft_form": group.draft_form,
            "synthetic": group.synthetic,
            "fit_alpha": group.alpha,
            **two_columns("fit_alpha", group.alpha_ci),
            "fit_c": group.c,
            **two_columns("fit_c", group.c_ci),
            "num_prompts": group.num_prompts,
            "iid_p_value": group.acceptance.test.p_value if group.acceptance else None,
            "acceptance_model": group.acceptance.model.name if group.acceptance else None,
        }
        rows += [{**head, **_row(group, point)} for point in group.points]
    return rows


def _group(group: GroupFit) -> dict[str, Any]:
    return {
        **_setting(group.key.setting),
        "drafter": group.key.drafter,
        "draft_form": group.draft_form,
        "synthetic": group.synthetic,
        "alpha": group.alpha,
        "alpha_ci": as_list(group.alpha_ci),
        "c": group.c,
        "c_ci": as_list(group.c_ci),
        "step_s": group.step_s,
        "overhead": group.overhead,
        "noise_floor": group.noise_floor,
        "num_prompts": group.num_prompts,
        "acceptance": acceptance_document(group.acceptance),
        "costs": costs_document(group.costs),
        "errors": errors_document(group),
        "prediction": prediction_document(group),
        "points": [_point(point) for point in group.points],
        "warnings": list(group.warnings),
    }


def acceptance_document(found: Acceptance | None) -> dict[str, Any] | None:
    """The verdict on a group's acceptance; None where there is none."""
    if found is None:
        return None
    spread, choice = found.spread, found.choice
    return {
        "sentence": found.sentence,
        "iid_rejected": found.rejected,
        "iid_p_value": found.test.p_value,
        "likelihood_ratio": found.test.statistic,
        "clusters": found.test.clusters,
        "alpha_by_position": [position.alpha for position in found.positions],
        "alpha_ci_by_position": [as_list(position.alpha_ci) for position in found.positions],
        "evaluated_by_position": [position.evaluated for position in found.positions],
        "alpha_sd_between_conversations": spread.sd if spread else None,
        "alpha_sd_ci": [spread.low, spread.high] if spread else None,
        "model": found.model.name,
        "model_alpha_by_position": [
            found.model.alpha_at(place) for place in range(1, len(found.positions) + 1)
        ],
        "model_errors": dict(choice.errors) if choice else None,
        "models_judged_by": choice.judged_by if choice else None,
    }


def _point(point: GammaFit) -> dict[str, Any]:
    fields = {
        **asdict(point),
        "error_closed_form": point.error_closed_form,
        "error_extended": point.error_extended,
        "gap": dict(point.gap.terms) if point.gap else None,
    }
    return {
        name: as_list(value) if name.endswith("_ci") else value for name, value in fields.items()
    }


def _row(group: GroupFit, point: GammaFit) -> dict[str, Any]:
    fields = _point(point)
    del fields["gap"]
    return {**flat(fields), **prediction_columns(group, point)}


def _setting(setting: Setting) -> dict[str, Any]:
    return setting._asdict()


def as_list(interval: tuple[float, float] | None) -> list[float] | None:
    """An interval as JSON has it."""
    return None if interval is None else list(interval)


def flat(fields: dict[str, Any]) -> dict[str, Any]:
    """Intervals as two columns, other lists as JSON in one."""
    columns: dict[str, Any] = {}
    for name, value in fields.items():
        if name.endswith("_ci"):
            columns |= two_columns(name.removesuffix("_ci"), value)
        elif isinstance(value, list):
            columns[name] = json.dumps(value)
        else:
            columns[name] = value
    return columns


def two_columns(
    name: str, interval: tuple[float, float] | list[float] | None
) -> dict[str, float | None]:
    """An interval as tables have it: ``name_low`` and ``name_high``."""
    low, high = interval if interval is not None else (None, None)
    return {f"{name}_low": low, f"{name}_high": high}
