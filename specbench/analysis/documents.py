"""Fits and recommendations as plain data, for JSON and CSV: the names other people's scripts read.

Intervals are [low, high] in JSON and two columns in CSV; what is not known is null or empty.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from specbench.analysis.acceptance import Acceptance
from specbench.analysis.fit import GammaFit, GroupFit, RunFit, Setting
from specbench.analysis.model import ModelPoint
from specbench.analysis.optimal import Answer, Choice, DrafterAnswer

_INTERVALS = ("alpha_ci", "c_ci", "speedup_ci", "cost_ci")


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
            **_ends("fit_alpha", group.alpha_ci),
            "fit_c": group.c,
            **_ends("fit_c", group.c_ci),
            "num_prompts": group.num_prompts,
            "iid_p_value": group.acceptance.test.p_value if group.acceptance else None,
            "acceptance_model": group.acceptance.model.name if group.acceptance else None,
        }
        rows += [{**head, **_flat(_point(point))} for point in group.points]
    return rows


def optimal_document(answer: Answer) -> dict[str, Any]:
    """``specbench optimal-gamma RUN --format json``."""
    return {
        "groups": [
            {
                **_setting(group.fit.key.setting),
                "drafter": group.fit.key.drafter,
                "draft_form": group.fit.draft_form,
                "synthetic": group.fit.synthetic,
                "alpha": group.fit.alpha,
                "alpha_ci": _list(group.fit.alpha_ci),
                "cost": group.fit.c,
                "cost_ci": _list(group.fit.c_ci),
                "overhead": group.fit.overhead,
                "noise_floor": group.fit.noise_floor,
                "acceptance": _acceptance(group.fit.acceptance),
                "best": _choice(group.best),
                "curve": [_curve_point(group, point) for point in group.curve],
            }
            for group in answer.groups
        ],
        "policy": [
            {
                **_setting(policy.setting),
                "drafter": policy.drafter,
                **_choice(policy.choice),
                "options": policy.options,
                "decided": policy.decided,
                "reason": policy.reason,
            }
            for policy in answer.policy
        ],
        "warnings": list(answer.notes),
    }


def optimal_rows(answer: Answer) -> list[dict[str, Any]]:
    """``specbench optimal-gamma RUN --format csv``: every drafter's curve, a row per gamma."""
    chosen = {(p.setting, p.drafter): p.choice.gamma for p in answer.policy}
    rows = []
    for group in answer.groups:
        key = group.fit.key
        for point in group.curve:
            rows.append(
                {
                    **_setting(key.setting),
                    "drafter": key.drafter,
                    "draft_form": group.fit.draft_form,
                    "synthetic": group.fit.synthetic,
                    "alpha": group.fit.alpha,
                    "cost": group.fit.c,
                    **_flat(_curve_point(group, point)),
                    "best": point.gamma == group.best.gamma,
                    "recommended": point.gamma > 0
                    and chosen.get((key.setting, key.drafter)) == point.gamma,
                }
            )
    return rows


def _group(group: GroupFit) -> dict[str, Any]:
    return {
        **_setting(group.key.setting),
        "drafter": group.key.drafter,
        "draft_form": group.draft_form,
        "synthetic": group.synthetic,
        "alpha": group.alpha,
        "alpha_ci": _list(group.alpha_ci),
        "c": group.c,
        "c_ci": _list(group.c_ci),
        "overhead": group.overhead,
        "noise_floor": group.noise_floor,
        "num_prompts": group.num_prompts,
        "acceptance": _acceptance(group.acceptance),
        "points": [_point(point) for point in group.points],
        "warnings": list(group.warnings),
    }


def _acceptance(found: Acceptance | None) -> dict[str, Any] | None:
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
        "alpha_ci_by_position": [_list(position.alpha_ci) for position in found.positions],
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
    }
    return {name: _list(value) if name in _INTERVALS else value for name, value in fields.items()}


def _choice(choice: Choice) -> dict[str, Any]:
    evidence = choice.evidence
    return {
        "gamma": choice.gamma,
        "speedup": choice.speedup,
        "measured_gamma": evidence.gamma if evidence else None,
        "measured_speedup": evidence.speedup if evidence else None,
        "speedup_ci": _list(evidence.speedup_ci) if evidence else None,
        "against": choice.against or None,
    }


def _curve_point(group: DrafterAnswer, point: ModelPoint) -> dict[str, Any]:
    measured = next((found for found in group.fit.points if found.gamma == point.gamma), None)
    return {
        "gamma": point.gamma,
        "tokens_per_round": point.tokens_per_round,
        "speedup": point.speedup,
        "source": point.source,
        "measured_speedup": measured.speedup if measured else None,
        "speedup_ci": _list(measured.speedup_ci) if measured else None,
        "draft_length_mean": measured.draft_length_mean if measured else None,
    }


def _setting(setting: Setting) -> dict[str, Any]:
    return setting._asdict()


def _list(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _flat(fields: dict[str, Any]) -> dict[str, Any]:
    """Intervals as two columns, other lists as JSON in one."""
    flat: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _INTERVALS:
            flat |= _ends(name.removesuffix("_ci"), value)
        elif isinstance(value, list):
            flat[name] = json.dumps(value)
        else:
            flat[name] = value
    return flat


def _ends(name: str, interval: tuple[float, float] | list[float] | None) -> dict[str, Any]:
    low, high = interval if interval is not None else (None, None)
    return {f"{name}_low": low, f"{name}_high": high}
