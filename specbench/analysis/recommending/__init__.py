"""Which drafter and gamma to use, from a fitted run, and when the answer is "do not speculate".

    speeds_of   the speedup of every drafter at every gamma, fitted        speed, clock
    field_of    all of them as candidates, with bounds that hold together  candidates, errors
    decide      the rule, setting by setting                               choice
    schedules   one policy for a server whose load varies                  schedule, crossover
    lines       what to type into other engines                            serving

docs/choosing.md has the rule in words.

>>> answer = recommend(fit_run(load_run("results/main")))                       # doctest: +SKIP
>>> answer.decisions[0].drafter, answer.decisions[0].choice.gamma               # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from specbench.analysis.fitted import GroupFit, RunFit
from specbench.analysis.recommending.candidates import Candidate, Field, field_of
from specbench.analysis.recommending.choice import Choice, Decision, at_given_alpha, choose, decide
from specbench.analysis.recommending.engine_lines import Line, lines
from specbench.analysis.recommending.output_length import BreakEven, break_even
from specbench.analysis.recommending.run_speeds import speeds_of
from specbench.analysis.recommending.schedule import Schedule, schedules
from specbench.analysis.recommending.server_load import Load
from specbench.analysis.rounds.model import ModelPoint, Source
from specbench.errors import SpecbenchError
from specbench.theory.closed_form import DEFAULT_MAX_GAMMA

__all__ = ["Answer", "Decision", "DrafterAnswer", "Schedule", "recommend"]


@dataclass(frozen=True)
class CurvePoint:
    """What one gamma gives.

    Attributes:
        gamma: 0 is plain decoding.
        tokens_per_round: after cuts; of an extrapolated point by the closed form.
        speedup: fitted, or extrapolated.
        source: extrapolated outside the measured gammas.
        candidate: None where it can't be chosen.
    """

    gamma: int
    tokens_per_round: float
    speedup: float
    source: Source
    candidate: Candidate | None


@dataclass(frozen=True)
class DrafterAnswer:
    """One drafter in one setting.

    Attributes:
        fit: of the group.
        curve: gamma 0, 1, ...; of trees and adaptive drafts the measured ones.
        best: what the rule chooses of this drafter alone; never anything of a synthetic one.
        at_given_alpha: of a synthetic drafter the best gamma at its alpha; None of real ones.
        break_even: how long an answer must be for its best fitted gamma to pay; None where that
            was not measured.
    """

    fit: GroupFit
    curve: tuple[CurvePoint, ...]
    best: Choice
    break_even: BreakEven | None
    at_given_alpha: Choice | None = None


@dataclass(frozen=True)
class Answer:
    """All drafters' answers and what follows from them.

    Attributes:
        run, target: their names.
        groups: every drafter in every setting.
        decisions: what to do in each setting.
        schedules: what to do over batch sizes, for each task and temperature.
        serving: per schedule, lines for other engines.
        notes: what a reader should know.
    """

    run: str
    target: str
    groups: tuple[DrafterAnswer, ...]
    decisions: tuple[Decision, ...]
    schedules: tuple[Schedule, ...]
    serving: tuple[tuple[Line, ...], ...]
    notes: tuple[str, ...]

    @property
    def of_real_drafters(self) -> Answer:
        """What was decided where a drafter was measured that can be recommended."""
        settings = {group.fit.key.setting for group in self.groups if not group.fit.synthetic}
        loads = {Load.of(setting) for setting in settings}
        pairs = zip(self.schedules, self.serving, strict=True)
        kept = [(schedule, lines) for schedule, lines in pairs if schedule.load in loads]
        return replace(
            self,
            decisions=tuple(one for one in self.decisions if one.setting in settings),
            schedules=tuple(schedule for schedule, _ in kept),
            serving=tuple(lines for _, lines in kept),
        )


def recommend(run: RunFit, max_gamma: int | None = None) -> Answer:
    """Answer for every drafter and every setting of a run.

    Args:
        run: the fitted run.
        max_gamma: the longest draft to consider; recommendations also stop at the largest measured
            gamma. None: every measured one, and on the curves at least DEFAULT_MAX_GAMMA.

    Raises:
        SpecbenchError: no cell of the run has a speedup at a gamma that is considered, so there is
            nothing to answer from.
    """
    groups = [group for group in run.groups if group.model is not None]
    speeds, cells = speeds_of(groups)
    field = field_of(groups, speeds, cells, max_gamma)
    beyond = _beyond(groups, max_gamma)
    if not field.candidates:
        raise _nothing(run, beyond, max_gamma)
    found = schedules(field)
    notes = list(run.warnings)
    if beyond:
        gammas = ", ".join(map(str, beyond))
        notes.append(f"measured but left out, longer than --max-gamma {max_gamma}: γ = {gammas}")
    if speeds and not cells:
        notes.append(
            "nothing tells how much cells differ that were measured one after the other (one "
            "baseline, fewer than three gammas): intervals and bounds leave that out"
        )
    return Answer(
        run.name,
        run.target,
        tuple(_of_drafter(group, field, max_gamma) for group in groups),
        decide(field),
        found,
        tuple(_lines(schedule, run) for schedule in found),
        tuple(notes),
    )


def _lines(schedule: Schedule, run: RunFit) -> tuple[Line, ...]:
    """For other engines."""
    foreign = schedule.served is not None and schedule.served.foreign
    return lines(schedule, run.target, run.quantization, foreign)


def _beyond(groups: Sequence[GroupFit], max_gamma: int | None) -> list[int]:
    """Measured gammas that are longer than what is to be considered."""
    if max_gamma is None:
        return []
    measured = {point.gamma for group in groups for point in group.points if point.speedup}
    return sorted(gamma for gamma in measured if gamma > max_gamma)


def _nothing(run: RunFit, beyond: Sequence[int], max_gamma: int | None) -> SpecbenchError:
    what = f"no draft length can be recommended from {run.name}"
    if beyond:
        return SpecbenchError(
            f"{what}: every measured γ is longer than --max-gamma {max_gamma}",
            f"The shortest one is {beyond[0]}",
        )
    return SpecbenchError(
        f"{what}: no speculative cell has a speedup beside a finished baseline",
        run.warnings[0] if run.warnings else "",
    )


def _of_drafter(group: GroupFit, field: Field, max_gamma: int | None) -> DrafterAnswer:
    assert group.model is not None
    longest = max_gamma or max(DEFAULT_MAX_GAMMA, *(point.gamma for point in group.points))
    own = {one.gamma: one for one in field.candidates if one.group.key == group.key}
    best = choose(list(own.values())) if own else Choice(None, None, "no gamma can be told")
    paying = best.candidate or best.closest
    return DrafterAnswer(
        group,
        tuple(
            _curve_point(point, own.get(point.gamma), field) for point in group.model.curve(longest)
        ),
        best,
        break_even(paying, field) if paying is not None else None,
        at_given_alpha(list(own.values())) if group.synthetic and own else None,
    )


def _curve_point(point: ModelPoint, candidate: Candidate | None, field: Field) -> CurvePoint:
    """A point of the curve, fitted where there is a candidate."""
    if candidate is None:
        source: Source = "extrapolated" if point.gamma else "measured"
        return CurvePoint(point.gamma, point.tokens_per_round, point.speedup, source, None)
    speed = field.speed_of(candidate.group)
    tokens = point.tokens_per_round
    if speed is not None:
        tokens = float(speed.tokens.per_round([point.gamma], np.ones(speed.clusters.size))[0])
    measured = any(found.gamma == point.gamma for found in candidate.witnesses)
    source = "measured" if measured else "interpolated"
    return CurvePoint(point.gamma, tokens, candidate.speedup, source, candidate)
