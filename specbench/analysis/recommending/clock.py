"""What a round takes at any gamma, had the clusters other weights.

Two clocks tell it, in seconds:

- :class:`LineClock`: the lines of :mod:`specbench.theory.round_lines` through the rounds of all
  gammas. One gamma's luck with its cell, or with the machine's mood, is averaged with the others'.
- :class:`MeasuredClock`: each gamma's own rounds, and between measured gammas the straight line
  from one to the next. For trees and adaptive drafts, for a single gamma, and for drafters whose
  times the lines miss by more than cells differ (an F test at 5% for the whole run against the
  differences between baselines).

Where a verify step jumps at some width (:mod:`specbench.theory.step`), the measured clock's times
are smoothed by a line with that step, and gammas between the two next to it are unknown. Where the
drafters of a load lie off their lines alike (:mod:`specbench.theory.shared_misfit`), times are
smoothed by a line that is bent in this way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.pooling import GroupKey
from specbench.analysis.recommending.clusters import Clusters, blocks, conversations
from specbench.analysis.rounds.evidence import Evidence
from specbench.theory import quantiles
from specbench.theory.clusters import Numbers, ratio
from specbench.theory.round_lines import RoundLines, RoundTimes
from specbench.theory.scatter import Scatter, scatter_of
from specbench.theory.smoothing import Smoothing

_SIGNIFICANT = 0.05


class Clock(Protocol):
    """Seconds of a round."""

    def seconds(self, gammas: Sequence[int], weights: Numbers) -> Numbers:
        """Of rounds at some gammas: weights [..., clusters] -> [..., gammas]; NaN where unknown."""
        ...

    def pulls(self, gamma: int) -> dict[int, float]:
        """Measured gamma -> how far a deviation of its log time moves the log of the answer."""
        ...

    @property
    def scatter(self) -> Scatter | None:
        """How far measured gammas lie off what they are smoothed by; None where nothing tells."""
        ...


@dataclass(frozen=True, eq=False)
class _Sums:
    """Rounds of one gamma, aligned with all clusters of the group."""

    lengths: Numbers  # [clusters, gamma + 1]
    seconds: Numbers  # [clusters]


def sums_of(key: GroupKey, evidence: Evidence, clusters: Clusters) -> dict[int, _Sums]:
    """gamma -> its times."""

    def of(gamma: int, part: RoundTimes) -> _Sums:
        where = conversations(key.setting.task) if evidence.paired else blocks(key, gamma)
        return _Sums(
            clusters.aligned(where, part.names, part.lengths),
            clusters.aligned(where, part.names, part.seconds),
        )

    return {gamma: of(gamma, part) for gamma, part in evidence.times.items()}


@dataclass(frozen=True, eq=False)
class MeasuredClock:
    """Each gamma's own rounds.

    Attributes:
        sums: measured gamma -> its times.
        smoothing: by a line with a step, or a bent one; None leaves them as they are.
        about: how far they lie off a bent line where they are left as they are.
    """

    sums: Mapping[int, _Sums]
    smoothing: Smoothing | None = None
    about: Scatter | None = None

    def seconds(self, gammas: Sequence[int], weights: Numbers) -> Numbers:
        """Mean of a gamma's rounds, or between its two measured neighbours."""
        own = {
            gamma: ratio(weights @ part.seconds, weights @ part.lengths.sum(axis=1))
            for gamma, part in self.sums.items()
        }
        if self.smoothing is not None:
            smooth = np.stack(list(own.values()), axis=-1) @ self.smoothing.smoother.T
            own = dict(zip(own, np.moveaxis(smooth, -1, 0), strict=True))
        found = np.stack([_shared(gamma, own) for gamma in gammas], axis=-1)
        return np.where([self._in_step(gamma) for gamma in gammas], np.nan, found)

    def _in_step(self, gamma: int) -> bool:
        """Whether a step lies between the neighbours of a gamma: it may be on either side."""
        if self.smoothing is None:
            return False
        above = dict(zip(self.sums, self.smoothing.above.tolist(), strict=True))
        return len({above[near] for near in neighbours(gamma, self.sums)}) > 1

    def pulls(self, gamma: int) -> dict[int, float]:
        """Its own, or its neighbours' shares; smoothed, also of those that are smoothed with it."""
        near = neighbours(gamma, self.sums)
        if self.smoothing is None:
            return near
        weights = np.array([near.get(known, 0.0) for known in self.sums])
        pull = weights @ self.smoothing.moves * self.smoothing.time
        return dict(zip(self.sums, (pull / pull.sum()).tolist(), strict=True))

    @property
    def scatter(self) -> Scatter | None:
        """About the step or bend."""
        return self.smoothing.scatter if self.smoothing is not None else self.about


@dataclass(frozen=True, eq=False)
class LineClock:
    """The lines through all gammas.

    Attributes:
        lines: of the group's round times.
        places: [names of the lines] which clusters these are.
        steps: [clusters] mean step of each in plain decoding.
        sums: measured gamma -> its times, for the lengths of drafts.
    """

    lines: RoundLines
    places: NDArray[np.int64]
    steps: Numbers
    sums: Mapping[int, _Sums]

    def seconds(self, gammas: Sequence[int], weights: Numbers) -> Numbers:
        """On the lines, for the mean draft of each gamma; idle rounds have a time of their own."""
        own = weights[..., self.places]
        with np.errstate(divide="ignore", invalid="ignore"):  # weights may leave nothing
            d0, c, v0, slope, o = np.moveaxis(self.lines.relative(own), -1, 0)
        idle_s, idle_rounds = np.moveaxis(own @ self.lines.idle_sums, -1, 0)
        found = []
        for gamma in gammas:
            shares = shares_at(
                gamma, {known: part.lengths for known, part in self.sums.items()}, weights
            )
            idle, drafting = shares[..., 0], 1.0 - shares[..., 0]
            step_s, length = self._drafts(gamma, weights)
            round_s = (d0 + v0 + o + (c + slope) * length) * step_s
            total = np.where(drafting > 0.0, drafting * round_s, 0.0)
            total += np.where(idle > 0.0, idle * ratio(idle_s, idle_rounds), 0.0)
            found.append(np.where(total > 0.0, total, np.nan))
        return np.stack(found, axis=-1)

    def _drafts(self, gamma: int, weights: Numbers) -> tuple[Numbers, Numbers]:
        """Mean step of the conversations that draft at a gamma, and mean length of the drafts.

        Each draft's length counts with its step. Between measured gammas the drafts of the two
        neighbours, cut to its length, stand in.
        """
        drafts, steps, tokens = np.zeros((3, *weights.shape[:-1]))
        for known, share in neighbours(gamma, self.sums).items():
            lengths = cut(self.sums[known].lengths, gamma)[:, 1:]
            slow = lengths * self.steps[:, None]
            drafts = drafts + share * (weights @ lengths.sum(axis=1))
            steps = steps + share * (weights @ slow.sum(axis=1))
            tokens = tokens + share * (weights @ (slow @ np.arange(1.0, gamma + 1.0)))
        return ratio(steps, drafts), ratio(tokens, steps)

    def pulls(self, gamma: int) -> dict[int, float]:
        """As least squares weights the gammas' mean times, on the log scale."""
        ones = np.ones(len(next(iter(self.sums.values())).seconds))
        shares = shares_at(gamma, {known: own.lengths for known, own in self.sums.items()}, ones)
        drafting = 1.0 - float(shares[0])
        if not drafting:  # idle rounds are on no line
            return neighbours(gamma, self.sums)
        length = float(shares @ np.arange(gamma + 1.0)) / drafting
        lines = self.lines
        weight = lines.size / lines.size.sum()
        off = lines.length - float(weight @ lines.length)
        at = length - float(weight @ lines.length)
        pull = weight * (1.0 + at * off / float(weight @ off**2)) * lines.time
        drafted = (known for known, own in self.sums.items() if own.lengths[:, 1:].any())
        return dict(zip(drafted, (pull / pull.sum()).tolist(), strict=True))

    @property
    def scatter(self) -> Scatter | None:
        """About the lines."""
        return scatter_of(self.lines.misfit, None)


def line_clock(
    key: GroupKey, evidence: Evidence, clusters: Clusters, sums: Mapping[int, _Sums]
) -> LineClock | None:
    """The lines of a group; None where all drafts have one length."""
    lines = evidence.lines
    if lines is None:
        return None
    places = np.zeros(lines.names.size, dtype=np.int64)
    for gamma, part in evidence.times.items():
        where = conversations(key.setting.task) if evidence.paired else blocks(key, gamma)
        start = clusters.slices()[where].start
        own = start + np.searchsorted(clusters.sets[where], part.names)
        places[np.searchsorted(lines.names, part.names)] = own
    steps = np.ones(clusters.size)
    steps[places] = lines.steps
    return LineClock(lines, places, steps, sums)


def fits(misfit: Numbers, plain: Scatter | None, among: int = 1) -> bool:
    """Whether gammas lie off their line by no more than cells differ, as far as can be told.

    Args:
        misfit: [gammas] of a group.
        plain: how much the baselines of a block differ.
        among: drafters and settings that are asked; all of them are told at 5% together.
    """
    freedom = misfit.size - 2
    if freedom < 1 or plain is None or not np.isfinite(misfit).all():
        return bool(np.isfinite(misfit).all())
    off = float((misfit**2).sum()) / freedom
    limit = float(quantiles.fisher_f(1.0 - _SIGNIFICANT / among, freedom, plain.freedom))
    return off <= limit * plain.variance


def neighbours(gamma: int, measured: Iterable[int]) -> dict[int, float]:
    """Measured gammas next to one -> their shares in it; itself alone where it was measured.

    >>> neighbours(4, [4, 8]), neighbours(5, [4, 8])
    ({4: 1.0}, {4: 0.75, 8: 0.25})
    """
    known = sorted(measured)
    if gamma in known:
        return {gamma: 1.0}
    below = max(other for other in known if other < gamma)
    above = min(other for other in known if other > gamma)
    share = (gamma - below) / (above - below)
    return {below: 1.0 - share, above: share}


def shares_at(gamma: int, lengths: Mapping[int, Numbers], weights: Numbers) -> Numbers:
    """Shares of rounds that draft 0, 1, ..., gamma tokens.

    Between measured gammas those of the two neighbours, cut to its length.

    Args:
        lengths: measured gamma -> [clusters, gamma + 1] rounds by draft length.
        weights: [..., clusters].

    Returns:
        [..., gamma + 1].
    """
    total = np.zeros((*weights.shape[:-1], gamma + 1))
    for known, share in neighbours(gamma, lengths).items():
        rounds = weights @ cut(lengths[known], gamma)
        total = total + share * ratio(rounds, rounds.sum(axis=-1, keepdims=True))
    return total


def cut(lengths: Numbers, gamma: int) -> Numbers:
    """:func:`specbench.analysis.rounds.model.capped` of many clusters: [clusters, gamma + 1]."""
    measured = lengths.shape[1] - 1
    if gamma <= measured:
        return np.column_stack([lengths[:, :gamma], lengths[:, gamma:].sum(axis=1)])
    unused = np.zeros((len(lengths), gamma - measured))
    return np.column_stack([lengths[:, :-1], unused, lengths[:, -1]])


def _shared(gamma: int, known: Mapping[int, Numbers]) -> Numbers:
    """Between two measured gammas the straight line from one to the other."""
    parts = [share * known[other] for other, share in neighbours(gamma, known).items()]
    return np.asarray(sum(parts))
