"""A recommendation as plain data, for JSON and CSV: the names other people's scripts read.

Speedups are fitted unless a name says that they were measured. Intervals are [low, high] in JSON
and two columns in CSV; what is not known, or lies beyond what was measured, is null or empty.
"""

from __future__ import annotations

import math
from typing import Any

from specbench.analysis.recommending import Answer, CurvePoint, Decision, DrafterAnswer
from specbench.analysis.recommending.candidates import Candidate, diverged
from specbench.analysis.recommending.choice import Choice
from specbench.analysis.recommending.crossover import Crossover
from specbench.analysis.recommending.engine_lines import Line, typed
from specbench.analysis.recommending.output_length import BreakEven
from specbench.analysis.recommending.schedule import Schedule
from specbench.analysis.shown.documents import acceptance_document, as_list, flat


def optimal_document(answer: Answer) -> dict[str, Any]:
    """``specbench optimal-gamma RUN --format json``."""
    pairs = zip(answer.schedules, answer.serving, strict=True)
    return {
        "groups": [_group(group) for group in answer.groups],
        "policy": [_decision(decision) for decision in answer.decisions],
        "schedules": [schedule_document(schedule, serving) for schedule, serving in pairs],
        "warnings": list(answer.notes),
    }


def optimal_rows(answer: Answer) -> list[dict[str, Any]]:
    """``specbench optimal-gamma RUN --format csv``: every drafter's curve, a row per gamma."""
    chosen = {(d.setting, d.drafter): d.choice.gamma for d in answer.decisions}
    decided = {d.setting: d.choice.decided for d in answer.decisions}
    rows = []
    for group in answer.groups:
        key = group.fit.key
        for point in group.curve:
            gamma = point.gamma
            rows.append(
                {
                    **key.setting._asdict(),
                    "drafter": key.drafter,
                    "draft_form": group.fit.draft_form,
                    "synthetic": group.fit.synthetic,
                    "alpha": group.fit.alpha,
                    "cost": group.fit.c,
                    **flat(_curve_point(group, point)),
                    "best": gamma == group.best.gamma,
                    "recommended": gamma > 0 and chosen.get((key.setting, key.drafter)) == gamma,
                    "decided": decided.get(key.setting),
                }
            )
    return rows


def schedule_document(schedule: Schedule, serving: tuple[Line, ...]) -> dict[str, Any]:
    """One schedule, with the lines for other engines."""
    parts = []
    for part in schedule.ranges:
        choice = schedule.choice(part)
        candidate = choice.candidate if choice is not None else None
        told = {**part._asdict(), **_numbers(candidate), "decided": not schedule.undecided(part)}
        parts.append(told)
    return {
        **schedule.load._asdict(),
        "drafter": schedule.drafter,
        "ranges": parts,
        "num_speculative_tokens_per_batch_size": [list(part) for part in schedule.ranges],
        "crossover": _crossover(schedule.crossover),
        "serving": [
            {"engine": line.engine, "line": line.text or None, "notes": list(line.notes)}
            for line in serving
        ],
    }


def _group(group: DrafterAnswer) -> dict[str, Any]:
    fit = group.fit
    return {
        **fit.key.setting._asdict(),
        "drafter": fit.key.drafter,
        "draft_form": fit.draft_form,
        "synthetic": fit.synthetic,
        "alpha": fit.alpha,
        "alpha_ci": as_list(fit.alpha_ci),
        "cost": fit.c,
        "cost_ci": as_list(fit.c_ci),
        "overhead": fit.overhead,
        "noise_floor": fit.noise_floor,
        "acceptance": acceptance_document(fit.acceptance),
        "best": _choice(group.best),
        "at_given_alpha": _choice(group.at_given_alpha) if group.at_given_alpha else None,
        "break_even": _break_even(group.break_even),
        "memory": _memory(group),
        "curve": [_curve_point(group, point) for point in group.curve],
    }


def _decision(decision: Decision) -> dict[str, Any]:
    sure = decision.sureness
    return {
        **decision.setting._asdict(),
        "drafter": decision.drafter,
        **_choice(decision.choice),
        "chance_best": sure.best if sure else None,
        "chance_near_best": sure.near_best if sure else None,
        "expected_loss": sure.loss if sure else None,
        "break_even": _break_even(decision.break_even),
        "options": typed(decision),
        "decided": decision.choice.decided,
        "provisional": decision.provisional,
        "reason": decision.choice.against or None,
    }


def _choice(choice: Choice) -> dict[str, Any]:
    shown = choice.candidate or choice.closest
    witness = max(shown.witnesses, key=lambda point: point.gamma) if shown else None
    return {
        "gamma": choice.gamma,
        **_numbers(choice.candidate),
        "measured_gamma": witness.gamma if witness else None,
        "measured_speedup": witness.speedup if witness else None,
        "measured_speedup_ci": as_list(witness.speedup_ci) if witness else None,
        "against": choice.against or None,
    }


def _numbers(candidate: Candidate | None) -> dict[str, Any]:
    return {
        "speedup": candidate.speedup if candidate else 1.0,
        "speedup_ci": as_list(candidate.ci) if candidate else None,
        "lower_bound": candidate.bound if candidate else None,
    }


def _curve_point(group: DrafterAnswer, point: CurvePoint) -> dict[str, Any]:
    measured = next((found for found in group.fit.points if found.gamma == point.gamma), None)
    return {
        "gamma": point.gamma,
        "tokens_per_round": point.tokens_per_round,
        **_numbers(point.candidate),
        "speedup": point.speedup,
        "source": point.source,
        "diverged": diverged(point.candidate) if point.candidate else None,
        "measured_speedup": measured.speedup if measured else None,
        "measured_speedup_ci": as_list(measured.speedup_ci) if measured else None,
        "draft_length_mean": measured.draft_length_mean if measured else None,
    }


def _crossover(found: Crossover | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "batch_size": _finite(found.batch_size),
        "batch_size_ci": [_finite(end) for end in found.ci] if found.ci else None,
        "smallest_measured": found.first,
        "largest_measured": found.last,
        "sentence": found.sentence,
    }


def _break_even(found: BreakEven | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "extra_first_token_s": found.extra_s,
        "saved_s_per_token": found.saved_s,
        "tokens": _finite(found.tokens),
        "tokens_ci": [_finite(end) for end in found.ci] if found.ci else None,
    }


def _memory(group: DrafterAnswer) -> dict[str, Any] | None:
    memory = group.fit.memory
    if memory is None:
        return None
    return {
        "context_tokens": memory.context,
        "sequences_without_drafter": memory.sequences_without,
        "sequences_with_drafter": memory.sequences_with,
        "missing": list(memory.missing),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
