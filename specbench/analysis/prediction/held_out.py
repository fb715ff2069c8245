"""Speedups predicted for a gamma that was left out, and how far off that is.

Each gamma in turn is taken to be unmeasured. Acceptance and costs are fitted to the other gammas,
the speedup at the one left out is predicted, and held against what was measured there:

    speedup = tokens per round x (1 - cut) / round time in units of T1

- Tokens per round come from the acceptance model of the other gammas, tested and chosen without the
  one left out. Drafts are as long as those of the gammas next to it, cut to its length. Where the
  drafter was traced on the text, rounds replayed on the trace take the models' place if they tell
  the tokens of all gammas better on average (:mod:`specbench.analysis.acceptance.replayed`).
- Measured speed counts output tokens; rounds commit more, and what lies behind the end of an output
  is cut. An output ends somewhere in a round of K tokens, and long rounds hold more places to end
  in, so E[K (K - 1)] / 2 E[K] tokens are cut on average, once per output, whose length is the
  baseline's. (The mean residual life of renewal theory, Cox 1962, Renewal Theory, ch. 5: exact for
  outputs much longer than a round.)
- The round time is on the lines of :mod:`specbench.theory.round_lines`; rounds that draft nothing
  have their own. Outside the other gammas all is extrapolated, and the answer says so.

The 95% prediction interval is for the measured speedup, on the log scale; T1 is on both sides and
cancels. Its variance has three parts. Sampling, of what was predicted and of what was measured
together: a jackknife over conversations, in which all gammas lose the same ones (above batch size
1 times are left out by time block, apart from conversations). What differs between cells measured
one after the other, of the cell left out and of those that the lines rest on. And how far the
acceptance model's tokens are off at the other gammas, beyond chance. Student's t, with the degrees
of freedom of Welch 1947.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple, Self

from specbench.analysis.acceptance.replayed import NAME, ReplayedTokens
from specbench.analysis.acceptance.verdict import model_for
from specbench.analysis.prediction.left_out import LeftOut
from specbench.analysis.rounds.evidence import Evidence
from specbench.analysis.shown.names import counted
from specbench.theory import closed_form, quantiles
from specbench.theory.acceptance import Iid
from specbench.theory.cost_model import MIN_GAMMAS
from specbench.theory.round_lines import RoundLines

WIDE = 10.0
"""An interval whose ends differ by this factor says nothing."""


@dataclass(frozen=True)
class HeldOut:
    """One gamma, predicted from the others.

    Attributes:
        measured: its speedup.
        speedup: predicted by the extended model.
        ci: the 95% prediction interval of what is measured; None with too few clusters, or where
            nothing tells how much cells differ.
        closed_form: predicted from alpha and c of the other gammas.
        extrapolated: whether it lies outside the other gammas.
        acceptance: name of the acceptance model, or "replay".
        tokens_error: predicted / measured - 1 of the tokens of a round.
    """

    gamma: int
    measured: float
    speedup: float
    ci: tuple[float, float] | None
    closed_form: float
    extrapolated: bool
    acceptance: str
    tokens_error: float = math.nan

    @property
    def error(self) -> float:
        """Predicted / measured - 1."""
        return self.speedup / self.measured - 1.0

    @property
    def error_closed_form(self) -> float:
        """The same of the closed form."""
        return self.closed_form / self.measured - 1.0

    @property
    def inside(self) -> bool | None:
        """Whether the measured speedup lies inside the interval."""
        return None if self.ci is None else self.ci[0] <= self.measured <= self.ci[1]

    @property
    def wide(self) -> bool:
        """Whether the interval is too wide to say anything, so that being inside is no merit."""
        return self.ci is not None and self.ci[1] > WIDE * self.ci[0]


class Errors(NamedTuple):
    """Absolute relative errors over some gammas."""

    median: float
    worst: float

    @classmethod
    def of(cls, errors: Iterable[float]) -> Self:
        """Of at least one signed error."""
        sizes = [abs(error) for error in errors]
        return cls(median(sizes), max(sizes))


class Hits(NamedTuple):
    """Measurements inside prediction intervals.

    Attributes:
        inside: of the intervals that say something.
        told: those intervals.
        wide: the intervals that say nothing, which count neither way.
    """

    inside: int
    told: int
    wide: int

    @classmethod
    def of(cls, cells: Iterable[HeldOut]) -> Self:
        """Of cells with an interval."""
        known = [cell for cell in cells if cell.ci is not None]
        told = [cell for cell in known if not cell.wide]
        return cls(sum(cell.inside is True for cell in told), len(told), len(known) - len(told))


@dataclass(frozen=True)
class Prediction:
    """The gammas of a group, each predicted from the others; ascending, at least one."""

    cells: tuple[HeldOut, ...]

    @property
    def replayed(self) -> bool:
        """Whether tokens come from a trace of the text."""
        return any(cell.acceptance == NAME for cell in self.cells)

    @property
    def errors(self) -> Errors:
        """Of the extended model."""
        return Errors.of(cell.error for cell in self.cells)

    @property
    def errors_closed_form(self) -> Errors:
        """Of the closed form."""
        return Errors.of(cell.error_closed_form for cell in self.cells)

    def at(self, gamma: int) -> HeldOut | None:
        """The prediction of one gamma."""
        return next((cell for cell in self.cells if cell.gamma == gamma), None)

    @property
    def hits(self) -> Hits:
        """How many measurements lie where they were expected."""
        return Hits.of(self.cells)


def predict(
    evidence: Evidence, speedups: Mapping[int, float], replayed: ReplayedTokens | None = None
) -> Prediction | None:
    """Leave each gamma out in turn and predict it.

    Args:
        evidence: the sums of a group of chains.
        speedups: gamma -> its measured speedup.
        replayed: rounds of all these gammas on a trace of the same text; None where there is none.

    Returns:
        None with fewer than three gammas that drafted and have a speedup, or where no gamma can be
        predicted from the others, whose drafts all have one length.
    """
    known = sorted(evidence.sample.keys() & speedups.keys())
    if len(known) < MIN_GAMMAS:
        return None
    candidates = [
        [held_out(evidence, gamma, speedups[gamma], tokens) for gamma in known]
        for tokens in ((None,) if replayed is None else (replayed, None))
    ]
    told = [[cell for cell in cells if cell is not None] for cells in candidates]
    best = min(told, key=_tokens_off)
    return Prediction(tuple(best)) if best else None


def accuracy(predictions: Iterable[Prediction]) -> str:
    """How far off both models are over all gammas that were left out, in words.

    Args:
        predictions: at least one.
    """
    cells = [cell for prediction in predictions for cell in prediction.cells]
    closed = median(abs(cell.error_closed_form) for cell in cells)
    extended = median(abs(cell.error) for cell in cells)
    traced = sum(cell.acceptance == NAME for cell in cells)
    replays = f" ({traced} with tokens replayed on a trace)" if traced else ""
    said = (
        f"Of a γ left out and predicted from the others, the closed form is {closed:.0%} off in "
        f"the median over {counted(len(cells), 'cell')}{replays}, the extended model "
        f"{extended:.0%}."
    )
    hits = Hits.of(cells)
    if hits.told:
        said += (
            f" {hits.inside} of {hits.told} measurements lie inside the extended model's 95% "
            "prediction interval"
        )
        bare = sum(cell.ci is None for cell in cells)
        others = [f"{counted(hits.wide, 'interval')} too wide to tell anything"] * bool(hits.wide)
        others += [f"{counted(bare, 'cell')} without an interval"] * bool(bare)
        said += f" (left out: {' and '.join(others)})." if others else "."
    elif hits.wide:
        said += " All of its 95% prediction intervals are too wide to tell anything."
    return said


def held_out(
    evidence: Evidence, gamma: int, measured: float, replayed: ReplayedTokens | None = None
) -> HeldOut | None:
    """Predict one gamma from the others, its tokens from a trace if there is one.

    Returns:
        None where they can't tell.
    """
    others = evidence.without(gamma)
    model, one = model_for(others.sample), Iid.fit(others.sample)
    lines = RoundLines.of(others.times, evidence.plain)
    if model is None or one is None or lines is None:
        return None
    left_out = LeftOut(gamma, evidence, others, model, lines, replayed)
    tokens, seconds = left_out.predicted_tokens(), left_out.predicted_seconds()
    if not (seconds > 0.0 and tokens > 0.0):  # not NaN, nor a line led far below its points
        return None
    step_s, times = evidence.plain.step_s, others.times.values()
    drafter_steps = sum(float(part.drafted.sum()) for part in times)
    c = sum(float(part.draft_s.sum()) for part in times) / drafter_steps / step_s
    predicted = tokens / seconds * step_s
    return HeldOut(
        gamma=gamma,
        measured=measured,
        speedup=predicted,
        ci=_interval(left_out, predicted) if evidence.enough else None,
        closed_form=closed_form.speedup(one.alpha, gamma, c),
        extrapolated=not min(others.times) < gamma < max(others.times),
        acceptance=model.name if replayed is None else NAME,
        tokens_error=math.expm1(-left_out.log_tokens()),
    )


def _tokens_off(cells: Sequence[HeldOut]) -> float:
    """How far off tokens of a round are on average; infinite where nothing is told."""
    off = fmean(abs(cell.tokens_error) for cell in cells) if cells else math.nan
    return math.inf if math.isnan(off) else off


def _interval(left_out: LeftOut, predicted: float) -> tuple[float, float] | None:
    parts = list(left_out.variances())
    variance = sum(part for part, _ in parts)
    if not math.isfinite(variance):
        return None
    freedom = 1.0
    if variance > 0.0:
        freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    reach = float(quantiles.student_t(0.975, freedom)) * math.sqrt(variance)
    return predicted * math.exp(-reach), predicted * math.exp(reach)
