"""The rule: which drafter and gamma, or not to speculate.

1. A candidate counts if nothing speaks against it: it is no synthetic drafter (they calibrate the
   instrument), its output did not diverge from plain decoding, its lower bound, which holds for all
   candidates of the run together, lies above 1, and its speedup above the noise floor of the
   block's two baselines.
2. Of those that count the highest fitted speedup wins; of those within CLOSE of it, in 39 of 40
   resamples too, the one with the smallest gamma.
3. If none counts, gamma is 0: do not speculate. That is undecided, and told with a question mark,
   where the data don't speak against a gain: of the candidate closest to one there is no
   interval, or one from few conversations that reaches above 1; or in most resamples something is
   faster than plain decoding by more than CLOSE, and what is lost by plain decoding is not LITTLE.

How sure a choice is comes from the resamples: the share in which nothing in its setting is faster,
plain decoding included, or faster by more than CLOSE, and the mean of best / chosen - 1, what one
stands to lose.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from specbench.analysis.fitted import GroupFit
from specbench.analysis.pooling import Setting
from specbench.analysis.recommending.candidates import Candidate, Field, comparable, diverged
from specbench.analysis.recommending.output_length import BreakEven, break_even
from specbench.analysis.rounds.model import RoundModel
from specbench.analysis.shown.formats import noise
from specbench.analysis.shown.names import counted, with_gamma
from specbench.records.conversations import FEW_PROMPTS
from specbench.records.spec_text import set_alpha
from specbench.records.speedup import within_noise
from specbench.theory.clusters import Numbers

_CALIBRATING = "synthetic drafters, which calibrate the instrument and are never recommended"

CLOSE = 0.01
"""Speedups within this of the best are as good; then the shorter draft is preferred."""

LITTLE = 0.03
"""A gain of this, on average over the resamples, is not worth measuring more for."""

PLAINLY = "do not speculate"
UNDECIDED = f"{PLAINLY}?"
UNDECIDED_NOTE = f"{UNDECIDED}: undecided, a gain is neither shown nor ruled out"
"""What gamma 0 is called, and what the question mark means."""

_SURE = 0.975
_LIKELY = 0.5
_FEW_CELLS = 2  # degrees of freedom that tell how much cells differ; a gamma more adds one


@dataclass(frozen=True)
class Sureness:
    """How sure a choice is, over the resamples.

    Attributes:
        best: share in which nothing else is faster.
        near_best: share in which nothing else is faster by more than CLOSE.
        loss: mean of best / chosen - 1.
    """

    best: float
    near_best: float
    loss: float


@dataclass(frozen=True)
class Choice:
    """One candidate, or plain decoding where none counts.

    Attributes:
        candidate: None for plain decoding.
        closest: the best candidate that does not count, where none does; None if there is none.
        against: what speaks against it; empty where a candidate is chosen.
        wanting: what to measure more of where that is for want of data; else empty.
    """

    candidate: Candidate | None
    closest: Candidate | None = None
    against: str = ""
    wanting: str = ""

    @property
    def decided(self) -> bool:
        """False where too little was measured to say whether to speculate."""
        return not self.wanting

    @property
    def plainly(self) -> str:
        """What gamma 0 is called here."""
        return PLAINLY if self.decided else UNDECIDED

    @property
    def gamma(self) -> int:
        """0 means "do not speculate"."""
        return self.candidate.gamma if self.candidate else 0

    @property
    def speedup(self) -> float:
        """Fitted; 1 for plain decoding."""
        return self.candidate.speedup if self.candidate else 1.0

    @property
    def group(self) -> GroupFit | None:
        """Of the drafter; None for plain decoding."""
        return self.candidate.group if self.candidate else None


@dataclass(frozen=True)
class Decision:
    """What to do in one setting.

    Attributes:
        sureness: of the choice; None where the resamples can't tell.
        break_even: how long an answer must be for it to pay; None for plain decoding, and where
            first tokens were not timed.
    """

    setting: Setting
    choice: Choice
    sureness: Sureness | None
    break_even: BreakEven | None

    @property
    def drafter(self) -> str:
        """The SPEC, or "none"."""
        return self.choice.group.key.drafter if self.choice.group else "none"

    @property
    def provisional(self) -> bool:
        """Whether what is chosen was measured beside one baseline: no noise floor speaks for it."""
        candidate = self.choice.candidate
        if candidate is None or candidate.group.imported_from is not None:
            return False
        return candidate.noise_floor is None

    @property
    def options(self) -> str | None:
        """What to type after ``specbench run``; None where nothing is shown to pay."""
        if not self.choice.gamma:
            return None
        return f"--drafter {shlex.quote(self.drafter)} --gamma {self.choice.gamma}"


def decide(field: Field) -> tuple[Decision, ...]:
    """The choice in every setting."""
    decisions = []
    for setting, candidates in field.by_setting.items():
        choice = choose(candidates)
        length = break_even(choice.candidate, field) if choice.candidate else None
        decisions.append(Decision(setting, choice, sureness(choice.candidate, candidates), length))
    return tuple(decisions)


def choose(candidates: Sequence[Candidate]) -> Choice:
    """The rule, applied to candidates of one setting."""
    counting = [candidate for candidate in candidates if not against(candidate)]
    if counting:
        return Choice(preferred(counting))
    real = [candidate for candidate in candidates if not candidate.group.synthetic]
    if not real:
        return Choice(None, None, f"only {_CALIBRATING}")
    usable = [candidate for candidate in real if comparable(candidate)] or real
    closest = max(usable, key=lambda candidate: (candidate.speedup, -candidate.gamma))
    name = with_gamma(closest.group.key.drafter, closest.group.draft_form, closest.gamma)
    wanting = what_is_wanting(closest, sureness(None, candidates))
    return Choice(None, closest, f"{name}: {against(closest)}", wanting)


def at_given_alpha(candidates: Sequence[Candidate]) -> Choice:
    """The best gamma of a synthetic drafter, if its alpha were that of a real one.

    A few rounds of a coin don't have its chance, so speedups are those of the alpha that was set.
    """
    best = preferred([_as_set(candidate) for candidate in candidates])
    return Choice(best) if best.speedup > 1.0 else Choice(None, best, "no gain at any gamma")


def _as_set(candidate: Candidate) -> Candidate:
    """A synthetic candidate with the tokens of the alpha that was set, at the measured costs."""
    model = candidate.group.model
    if not isinstance(model, RoundModel):
        return candidate
    given = replace(model, alpha=set_alpha(candidate.group.key.drafter), acceptance=None)
    factor = given.at(candidate.gamma).speedup / model.at(candidate.gamma).speedup
    ends = candidate.ci and (candidate.ci[0] * factor, candidate.ci[1] * factor)
    drawn = partial(np.add, candidate.logs, math.log(factor))
    return replace(candidate, speedup=candidate.speedup * factor, ci=ends, drawn=drawn)


def preferred(candidates: Sequence[Candidate]) -> Candidate:
    """The fastest, or the shortest draft of those that are as good."""
    best = max(candidates, key=lambda candidate: (candidate.speedup, -candidate.gamma))
    close = [candidate for candidate in candidates if _as_good(candidate, best)]
    return min(close, key=lambda candidate: (candidate.gamma, -candidate.speedup))


def _as_good(candidate: Candidate, best: Candidate) -> bool:
    """Whether what is lost against the best is within CLOSE, and does not merely seem so."""
    if candidate.speedup < best.speedup * (1.0 - CLOSE):
        return False
    behind = best.logs - candidate.logs
    known = behind[np.isfinite(behind)]
    return not known.size or float((known <= -math.log1p(-CLOSE)).mean()) >= _SURE


def against(candidate: Candidate) -> str:
    """What speaks against a candidate; empty if nothing does."""
    if candidate.group.synthetic:
        return _CALIBRATING
    if diverged(candidate):
        return "its output DIVERGED from plain decoding: a bug"
    speedup, bound, floor = candidate.speedup, candidate.bound, candidate.noise_floor
    if bound is None or candidate.ci is None:
        count = candidate.group.num_prompts
        rests_on = f" ({counted(count, 'prompt')})" if count else ""
        return f"a speedup of {speedup:.2f} has no interval{rests_on}"
    low, high = candidate.ci
    fitted = f"{speedup:.2f} fitted, 95% interval {low:.2f}–{high:.2f}"
    if speedup <= 1.0:
        return f"{fitted}, no gain"
    if floor is not None and within_noise(speedup, floor):
        return f"{speedup:.2f} fitted lies inside the noise floor of {noise(floor)}"
    if bound <= 1.0:
        return f"{fitted}, lower bound for all that was compared {bound:.2f}, does not clear 1"
    return ""


def sureness(chosen: Candidate | None, candidates: Sequence[Candidate]) -> Sureness | None:
    """How sure it is to choose one, or plain decoding, from candidates of one setting.

    None where the resamples can't tell: where one conversation is all there is to draw from, too.
    """
    if any(one.group.num_prompts == 1 for one in candidates):
        return None
    usable = [one for one in candidates if comparable(one) and np.isfinite(one.logs).any()]
    if not usable:
        return None
    logs = np.column_stack([np.zeros_like(candidates[0].logs), *(one.logs for one in usable)])
    own = chosen.logs if chosen is not None else logs[:, 0]
    known = np.isfinite(own) & np.isfinite(logs).all(axis=1)
    if not known.any():
        return None
    behind: Numbers = logs[known].max(axis=1) - own[known]
    return Sureness(
        best=float((behind <= 0.0).mean()),
        near_best=float((behind <= -math.log1p(-CLOSE)).mean()),
        loss=float(np.expm1(behind).mean()),
    )


def what_is_wanting(closest: Candidate, plain: Sureness | None) -> str:
    """What would show or rule out a gain; empty where data speak against it.

    Args:
        closest: the candidate closest to a gain.
        plain: how sure it is not to speculate; None where the resamples can't tell.
    """
    if diverged(closest) or (closest.ci is not None and closest.ci[1] <= 1.0 + CLOSE):
        return ""
    if closest.bound is None and closest.group.imported_from is not None:
        return "its source has no more than means, which don't tell how sure they are"
    if closest.bound is None or closest.group.num_prompts < FEW_PROMPTS:
        return "too few prompts to tell (more --prompts)"
    if plain is not None and (plain.near_best >= _LIKELY or plain.loss <= LITTLE):
        return ""
    cells = closest.group.scatter
    few_cells = cells is not None and cells.freedom <= _FEW_CELLS
    more = "values of --gamma, or --repeats" if few_cells else "--prompts, or --repeats"
    return f"a gain is neither shown nor ruled out (more {more})"
