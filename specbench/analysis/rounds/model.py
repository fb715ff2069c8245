"""The extended model of one group: what a draft length would give, at any gamma.

The closed form assumes that every round drafts gamma tokens, that verifying them costs one target
step and that nothing else costs anything. Here all three are taken from the run: the shares of
rounds that drafted 0, 1, ... tokens, and the mean time of a round's draft, verify and remaining
work in units of T1. Only acceptance is still a model (:class:`RoundModel`): one alpha for all
gammas, or where that is rejected one of :mod:`specbench.theory.acceptance`.

Between measured gammas times and tokens are interpolated, below the smallest they are led towards a
round that drafts nothing (no draft time, v = 1), and beyond the largest nothing measured is left:
there the costs of the closed form stand in, and the point says so.

Trees and adaptive drafts have no such alpha. :class:`MeasuredRounds` answers for them, at the
gammas that were measured and at no other.

>>> model = RoundModel(0.8, 0.02, {4: RoundShape((0.0, 0.0, 0.0, 0.0, 1.0), 0.08, 1.0, 0.0)})
>>> round(model.at(4).speedup, 3), model.at(4).source
(3.113, 'measured')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from specbench.errors import SpecbenchError
from specbench.records.schema import DraftForm
from specbench.theory import by_depth, closed_form
from specbench.theory.acceptance import AcceptanceModel

Source = Literal["measured", "interpolated", "extrapolated"]
"""Where a point's round times come from; an extrapolated point has the closed form's."""


@dataclass(frozen=True)
class RoundShape:
    """What rounds of one measured gamma were like.

    Attributes:
        draft_lengths: [gamma + 1] share of rounds that drafted 0, 1, ..., gamma tokens.
        draft: mean draft time of a round, in units of T1.
        verify: mean time of its target forward, in units of T1.
        other: mean of its remaining time, in units of T1.
    """

    draft_lengths: tuple[float, ...]
    draft: float
    verify: float
    other: float

    def capped(self, gamma: int) -> tuple[float, ...]:
        """The shares had no round been allowed more than ``gamma`` tokens."""
        return capped(self.draft_lengths, gamma)


def capped(draft_lengths: Sequence[float], gamma: int) -> tuple[float, ...]:
    """Shares of draft lengths 0, 1, ... had no round been allowed more than ``gamma`` tokens.

    Where that is longer than what was measured, rounds that used their whole allowance are taken
    to use the longer one too.
    """
    measured = len(draft_lengths) - 1
    if gamma <= measured:
        return (*draft_lengths[:gamma], sum(draft_lengths[gamma:]))
    unused = (0.0,) * (gamma - measured)
    return (*draft_lengths[:-1], *unused, draft_lengths[-1])


@dataclass(frozen=True)
class ModelPoint:
    """The model's answer at one gamma; gamma 0 is plain decoding."""

    gamma: int
    tokens_per_round: float
    speedup: float
    source: Source


PLAIN = ModelPoint(0, 1.0, 1.0, "measured")


def _point(gamma: int, tokens: float, shape: RoundShape, source: Source) -> ModelPoint:
    speedup = closed_form.extended_speedup(
        max(tokens, 1.0), 0, 0.0, v=shape.verify, overhead=shape.other, d0=shape.draft
    )
    return ModelPoint(gamma, tokens, speedup, source)


@dataclass(frozen=True)
class MeasuredRounds:
    """Speedup of what has no single alpha, from the tokens and times of each measured gamma.

    The tokens are those that survived of the drafts as they were, adaptive ones of all lengths and
    trees whose accepted paths ended at leaves: no draft is taken to have gone on.

    Attributes:
        tokens: measured gamma -> tokens per round, by the survival of each depth.
        shapes: measured gamma -> what its rounds were like; the same gammas.
    """

    tokens: Mapping[int, float]
    shapes: Mapping[int, RoundShape]

    def at(self, gamma: int) -> ModelPoint | None:
        """The answer at gamma 0, which is plain decoding, or a measured one; None elsewhere."""
        if gamma == 0:
            return PLAIN
        if gamma not in self.shapes:
            return None
        return _point(gamma, self.tokens[gamma], self.shapes[gamma], "measured")

    def curve(self, max_gamma: int) -> list[ModelPoint]:
        """Gamma 0 and the measured ones up to ``max_gamma``."""
        found = (self.at(gamma) for gamma in (0, *sorted(self.shapes)) if gamma <= max_gamma)
        return [point for point in found if point is not None]


@dataclass(frozen=True)
class RoundModel:
    """Tokens per round and speedup at any gamma, for one drafter, task, temperature and batch size.

    Attributes:
        alpha: chance that an evaluated token is accepted, pooled over gammas.
        c: time of one drafter step in units of T1, pooled; used beyond the largest measured gamma.
        shapes: measured gamma -> what its rounds were like; at least one.
        acceptance: gives the tokens per round; None: one alpha.
    """

    alpha: float
    c: float
    shapes: Mapping[int, RoundShape]
    acceptance: AcceptanceModel | None = None

    def at(self, gamma: int) -> ModelPoint:
        """The model at one gamma.

        Raises:
            SpecbenchError: gamma is negative.
        """
        if gamma < 0:
            raise SpecbenchError(f"gamma {gamma} is out of range", "Give 0 or more")
        if gamma == 0:
            return PLAIN
        if gamma in self.shapes:
            shape = self.shapes[gamma]
            return _point(gamma, self.tokens(shape.draft_lengths), shape, "measured")
        above = min((known for known in self.shapes if known > gamma), default=None)
        if above is None:
            tokens = self._full_draft(gamma)
            speedup = closed_form.extended_speedup(tokens, gamma, self.c)
            return ModelPoint(gamma, tokens, speedup, "extrapolated")
        below = max((known for known in self.shapes if known < gamma), default=0)
        high = self.shapes[above]
        low = self.shapes[below] if below else RoundShape((), 0.0, 1.0, high.other)
        share = (gamma - below) / (above - below)

        def between(left: float, right: float) -> float:
            return left + share * (right - left)

        tokens = self.tokens(high.capped(gamma))
        if below:
            tokens = between(self.tokens(low.capped(gamma)), tokens)
        shape = RoundShape(
            high.capped(gamma),
            between(low.draft, high.draft),
            between(low.verify, high.verify),
            between(low.other, high.other),
        )
        return _point(gamma, tokens, shape, "interpolated")

    def curve(self, max_gamma: int) -> list[ModelPoint]:
        """The model at gamma 0, 1, ..., max_gamma."""
        return [self.at(gamma) for gamma in range(max_gamma + 1)]

    def tokens(self, draft_lengths: tuple[float, ...]) -> float:
        """E[tokens per round], averaged over the lengths really drafted."""
        return sum(
            share * self._full_draft(length) for length, share in enumerate(draft_lengths) if share
        )

    def _full_draft(self, gamma: int) -> float:
        """Tokens of a draft of gamma; positions that a model can't tell of give none."""
        if self.acceptance is None:
            return closed_form.expected_tokens(self.alpha, gamma)
        alphas = (self.acceptance.alpha_at(position) for position in range(1, gamma + 1))
        return by_depth.expected_tokens(alphas)


def expected_tokens(form: DraftForm, summary: Mapping[str, Any]) -> float | None:
    """Tokens per round by theory, of a drafter that has no single alpha; None for a chain.

    Args:
        form: what gamma means for the drafter.
        summary: the acceptance fields of a cell's record.
    """
    alphas, survival = summary["alpha_by_position"], summary["survival_by_position"]
    if form == "tree" and alphas is not None:
        return by_depth.expected_tokens(alphas)
    if form == "adaptive" and survival is not None:
        return by_depth.surviving_tokens(survival)
    return None


def model_of(
    form: DraftForm,
    alpha: float,
    c: float,
    survival: Mapping[int, Sequence[float]],
    shapes: Mapping[int, RoundShape],
    acceptance: AcceptanceModel | None = None,
) -> RoundModel | MeasuredRounds:
    """The model that fits a form: of acceptance for a chain, else what was measured.

    Args:
        alpha: pooled over gammas.
        c: pooled over gammas.
        survival: gamma -> rounds that accepted 1, 2, ... tokens / all rounds.
        shapes: gamma -> what its rounds were like.
        acceptance: of a chain that one alpha does not describe.
    """
    if form == "chain":
        return RoundModel(alpha, c, shapes, acceptance)
    tokens = {gamma: by_depth.surviving_tokens(survival[gamma]) for gamma in shapes}
    return MeasuredRounds(tokens, shapes)
