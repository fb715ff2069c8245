"""Which drafter and gamma to use, from a fitted run, and when the answer is "do not speculate".

The rule, for each (task, temperature, batch size):

1. Every drafter's gammas up to its largest measured one are scored by the extended model
   (:mod:`specbench.analysis.model`); of trees and adaptive drafts only measured ones.
2. A (drafter, gamma) counts only with evidence: its measured speedup's 95% interval lies above 1,
   and the speedup itself above the noise floor of the block's baselines. A gamma that was not
   measured borrows the weaker evidence of its two measured neighbours.
3. Synthetic drafters never count (they calibrate the instrument), nor do cells whose greedy output
   DIVERGED from plain decoding.
4. The highest modelled speedup among what counts, if above 1, wins; of equal ones the shorter
   draft. If nothing counts, gamma is 0.

Gammas beyond the largest measured one stay on the curve, marked as extrapolated.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from specbench.analysis.fit import DIVERGED, GammaFit, GroupFit, RunFit, Setting
from specbench.analysis.model import ModelPoint
from specbench.analysis.names import counted
from specbench.errors import SpecbenchError


@dataclass(frozen=True)
class Choice:
    """One drafter at one gamma, with the measurement that speaks for or against it.

    Attributes:
        gamma: 0 means "do not speculate".
        speedup: what the extended model expects; 1 at gamma 0.
        evidence: the measured gamma whose speedup stands for it; None at gamma 0.
        against: why it may not be recommended; empty if it may.
    """

    gamma: int
    speedup: float
    evidence: GammaFit | None
    against: str = ""


@dataclass(frozen=True)
class DrafterAnswer:
    """One drafter in one setting: its whole curve and its own best choice."""

    fit: GroupFit
    curve: tuple[ModelPoint, ...]
    best: Choice


@dataclass(frozen=True)
class Policy:
    """What to do in one setting: ``drafter`` is "none" and gamma 0 where nothing is shown to pay.

    ``decided`` is False where that is for want of an interval (a single prompt, too few steps), not
    because speculation was seen not to pay.
    """

    setting: Setting
    drafter: str
    choice: Choice
    reason: str
    decided: bool = True

    @property
    def options(self) -> str | None:
        """What to type after ``specbench run``; None where nothing is shown to pay."""
        if not self.choice.gamma:
            return None
        return f"--drafter {shlex.quote(self.drafter)} --gamma {self.choice.gamma}"


@dataclass(frozen=True)
class Answer:
    """All drafters' answers, the policy that follows, and what a reader should know about both."""

    groups: tuple[DrafterAnswer, ...]
    policy: tuple[Policy, ...]
    notes: tuple[str, ...]


def recommend(run: RunFit, max_gamma: int) -> Answer:
    """Answer for every drafter and every setting of a run.

    Args:
        run: the fitted run.
        max_gamma: the longest draft on the curves; recommendations also stop at the largest
            measured gamma.

    Raises:
        SpecbenchError: no cell of the run has a speedup, so there is nothing to answer from.
    """
    groups = tuple(_answer(group, max_gamma) for group in run.groups if group.model is not None)
    if not groups:
        raise SpecbenchError(
            f"no draft length can be recommended from {run.name}: no speculative cell has a "
            "speedup beside a finished baseline",
            run.warnings[0] if run.warnings else "",
        )
    settings = dict.fromkeys(group.fit.key.setting for group in groups)
    policy = tuple(
        _decide(setting, [group for group in groups if group.fit.key.setting == setting])
        for setting in settings
    )
    return Answer(groups, policy, tuple(run.warnings))


def _answer(group: GroupFit, max_gamma: int) -> DrafterAnswer:
    assert group.model is not None
    curve = tuple(group.model.curve(max_gamma))
    choices = [_choice(group, point) for point in curve if _in_reach(point)]
    return DrafterAnswer(group, curve, _best(choices))


def _in_reach(point: ModelPoint) -> bool:
    return point.gamma > 0 and point.source != "extrapolated"


def _best(choices: Iterable[Choice]) -> Choice:
    """The fastest choice that nothing speaks against; else plain decoding, and why."""
    ranked = sorted(choices, key=lambda choice: (-round(choice.speedup, 9), choice.gamma))
    for choice in ranked:
        if not choice.against and choice.speedup > 1.0:
            return choice
    why = "the model expects no gain"
    evidence = None
    if ranked and ranked[0].speedup > 1.0:
        why, evidence = ranked[0].against, ranked[0].evidence
    return Choice(0, 1.0, evidence, why)


def _choice(group: GroupFit, point: ModelPoint) -> Choice:
    measured = {found.gamma: found for found in group.points if found.speedup is not None}
    if point.gamma in measured:
        witnesses = [measured[point.gamma]]
    else:
        below = max((gamma for gamma in measured if gamma < point.gamma), default=None)
        above = min((gamma for gamma in measured if gamma > point.gamma), default=None)
        witnesses = [measured[gamma] for gamma in (below, above) if gamma is not None]
    if not witnesses:
        return Choice(point.gamma, point.speedup, None, "no speedup was measured near it")
    weakest = min(witnesses, key=_lower_bound)
    return Choice(point.gamma, point.speedup, weakest, _against(group, weakest))


def _lower_bound(point: GammaFit) -> float:
    return point.speedup_ci[0] if point.speedup_ci is not None else float("-inf")


def _against(group: GroupFit, point: GammaFit) -> str:
    """Why a measured point is no evidence for speculating; empty if it is."""
    assert point.speedup is not None
    if group.synthetic:
        return "synthetic drafters calibrate the instrument and are never recommended"
    if point.lossless == DIVERGED:
        return f"its output DIVERGED from plain decoding at γ = {point.gamma}: a bug"
    if point.speedup_ci is None:
        return (
            f"{point.speedup:.2f} measured at γ = {point.gamma} has no interval "
            f"({counted(group.num_prompts, 'prompt')})"
        )
    low, high = point.speedup_ci
    if low <= 1.0:
        return (
            f"{point.speedup:.2f} measured at γ = {point.gamma}, "
            f"95% interval {low:.2f}–{high:.2f}, does not clear 1"
        )
    if point.noise_floor is not None and point.speedup - 1.0 <= point.noise_floor:
        return (
            f"{point.speedup:.2f} measured at γ = {point.gamma} lies inside the noise floor "
            f"of ±{point.noise_floor:.1%}"
        )
    return ""


def _decide(setting: Setting, groups: list[DrafterAnswer]) -> Policy:
    usable = [group for group in groups if not group.fit.synthetic]
    if not usable:
        nothing = Choice(0, 1.0, None, "only synthetic drafters were measured")
        return Policy(setting, "none", nothing, nothing.against)
    winner = max(usable, key=lambda group: (group.best.gamma > 0, group.best.speedup))
    if winner.best.gamma:
        evidence = winner.best.evidence
        assert evidence is not None
        at = "" if evidence.gamma == winner.best.gamma else f" at γ = {evidence.gamma}"
        return Policy(setting, winner.fit.key.drafter, winner.best, f"measured{at}")
    closest = max(
        usable, key=lambda group: max((p.speedup or 0.0 for p in group.fit.points), default=0.0)
    )
    evidence = closest.best.evidence
    return Policy(
        setting,
        "none",
        closest.best,
        f"{closest.fit.key.drafter}: {closest.best.against}",
        decided=evidence is None or evidence.speedup_ci is not None,
    )
