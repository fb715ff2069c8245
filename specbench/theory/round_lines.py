"""Times of rounds added up by cluster, and the straight lines over the draft length through them.

A round's draft and verify times are lines, its remaining time is a constant: what they mean stands
in :mod:`specbench.theory.cost_model`.

Conversations differ in speed by several percent, with their context and with what the machine did
at the time, and a slow one is slow in plain decoding too. So times are taken relative to their own
cluster's baseline step before a line is laid through them, each point weighted with its rounds
times that step, which is exactly the ratio of sums where no point is an outlier. Laid through
seconds, the line would clip slow conversations that T1, a plain mean, counts in full: the two would
no longer move together, and their ratio would be far less sure than it is.

What comes out is in seconds again, and can be had for any weights of the clusters, which is what
resampling needs. A round's step is the mean over the rounds in question: slow conversations that
accept less have a larger share of the rounds at long gammas than at short ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from specbench.theory.clusters import Numbers
from specbench.theory.robust_line import Line, robust_line
from specbench.theory.scatter import Scatter, scatter_of

_REWEIGHTED = 5  # times that relative deviations are taken from the line of the time before


@dataclass(frozen=True, eq=False)
class StepTimes:
    """The baseline's steps, added up by cluster.

    Attributes:
        names: [clusters] all different; equal names are the same cluster as among the rounds.
        seconds: [clusters].
        steps: [clusters].
    """

    names: NDArray[np.str_]
    seconds: Numbers
    steps: Numbers

    @property
    def step_s(self) -> float:
        """T1."""
        return float(self.seconds.sum() / self.steps.sum())

    def own_step_s(self, names: NDArray[np.str_]) -> Numbers:
        """[names] the mean step of each cluster; T1 for one that has none."""
        found = np.full(names.size, self.step_s)
        timed = (self.seconds > 0.0) & (self.steps > 0.0)
        _, there, here = np.intersect1d(names, self.names[timed], True, return_indices=True)
        found[there] = (self.seconds[timed] / self.steps[timed])[here]
        return found


@dataclass(frozen=True, eq=False)
class RoundTimes:
    """Rounds of one gamma, added up by cluster.

    Attributes:
        names: [clusters] all different; equal names of two gammas are the same cluster.
        lengths: [clusters, gamma + 1] rounds that drafted 0, 1, ..., gamma tokens.
        draft_s, verify_s, other_s: [clusters] seconds of the rounds that drafted something.
        idle_s: [clusters] seconds of those that drafted nothing.
    """

    names: NDArray[np.str_]
    lengths: Numbers
    draft_s: Numbers
    verify_s: Numbers
    other_s: Numbers
    idle_s: Numbers

    @property
    def rounds(self) -> Numbers:
        """[clusters] rounds that drafted something."""
        return np.asarray(self.lengths[:, 1:].sum(axis=1))

    @property
    def drafted(self) -> Numbers:
        """[clusters] tokens drafted."""
        return np.asarray(self.lengths @ np.arange(self.lengths.shape[1], dtype=np.float64))

    @property
    def seconds(self) -> Numbers:
        """[clusters] of all rounds."""
        return self.draft_s + self.verify_s + self.other_s + self.idle_s


@dataclass(frozen=True, eq=False)
class RoundLines:
    """Draft, verify and remaining time of a round over the tokens it drafts.

    Attributes:
        names: [clusters] sorted, of all gammas.
        draft, verify, other: the lines, relative to each cluster's own step; other is a constant.
        steps: [clusters] that step, which makes it seconds.
        rounds: [clusters] of all gammas.
        idle_sums: [clusters, 2] seconds and number of rounds that drafted nothing.
        sums: [5, clusters, gammas] rounds that drafted something and tokens that they drafted, each
            times the cluster's step; seconds of drafting, verifying, the rest. Gammas without any
            are not here.
    """

    names: NDArray[np.str_]
    draft: Line
    verify: Line
    other: Line
    steps: Numbers
    rounds: Numbers
    idle_sums: Numbers
    sums: Numbers

    @classmethod
    def of(cls, times: Mapping[int, RoundTimes], plain: StepTimes | None = None) -> Self | None:
        """Fit the lines.

        Args:
            times: gamma -> its rounds.
            plain: the baseline's steps, which tell how slow a cluster is in all; None: all alike.

        Returns:
            None where fewer than two mean lengths were drafted.
        """
        drafting = [part for part in times.values() if part.rounds.any()]
        if not drafting:
            return None
        names = np.unique(np.concatenate([part.names for part in times.values()]))
        step_s = plain.own_step_s(names) if plain is not None else np.ones(names.size)
        tables = np.zeros((5, names.size, len(drafting)))
        for place, part in enumerate(drafting):
            sums = (part.rounds, part.drafted, part.draft_s, part.verify_s, part.other_s)
            tables[:, np.searchsorted(names, part.names), place] = sums
        tables[:2] *= step_s[:, None]
        size = tables[0]
        length, draft, verify, other = np.divide(
            tables[1:], size, out=np.zeros_like(tables[1:]), where=size > 0.0
        )
        total = tables.sum(axis=1)
        mean_length = total[1] / total[0]
        if np.ptp(mean_length) <= 1e-6 * mean_length.max():
            return None
        rounds, idle_sums = np.zeros(names.size), np.zeros((names.size, 2))
        for part in times.values():
            where = np.searchsorted(names, part.names)
            rounds[where] += part.lengths.sum(axis=1)
            idle_sums[where] += np.column_stack([part.idle_s, part.lengths[:, 0]])
        return cls(
            names,
            robust_line(length, draft, size),
            robust_line(length, verify, size),
            robust_line(length, other, size, sloped=False),
            step_s,
            rounds,
            idle_sums,
            tables,
        )

    @property
    def size(self) -> Numbers:
        """[gammas] rounds that drafted something, times their steps."""
        return np.asarray(self.sums[0].sum(axis=0))

    @property
    def length(self) -> Numbers:
        """[gammas] tokens that these drafted on average."""
        return np.asarray(self.sums[1].sum(axis=0) / self.size)

    @property
    def parts(self) -> Numbers:
        """[3, gammas] what they took on average to draft, verify and for the rest, in steps."""
        return np.asarray(self.sums[2:].sum(axis=1) / self.size)

    @property
    def time(self) -> Numbers:
        """[gammas] what they took on average, relative to their steps."""
        return np.asarray(self.parts.sum(axis=0))

    def at(self, weights: Numbers) -> Numbers:
        """d0, c, v0, v's slope and o in seconds, at the mean step of all rounds.

        Args:
            weights: of the clusters, [..., clusters].

        Returns:
            [..., 5].
        """
        return self.relative(weights) * self.mean_step(self.rounds, weights)[..., None]

    def relative(self, weights: Numbers) -> Numbers:
        """The same in units of the step: [..., clusters] -> [..., 5]."""
        draft, verify, other = (part.at(weights) for part in (self.draft, self.verify, self.other))
        return np.stack([*draft, *verify, other[0]], axis=-1)

    def mean_step(self, rounds: Numbers, weights: Numbers) -> Numbers:
        """Mean step in seconds of so many rounds [clusters] of each cluster: weights [...]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(weights @ (rounds * self.steps) / (weights @ rounds))

    def idle(self, weights: Numbers) -> float | None:
        """Mean seconds of a round that drafted nothing; None where there was none."""
        seconds, rounds = weights @ self.idle_sums
        return float(seconds / rounds) if rounds else None

    def round_time(self, length: float, rounds: Numbers, weights: Numbers) -> float:
        """Seconds of a round that drafts so many tokens on average.

        Args:
            rounds: [clusters] how many of such rounds each has, up to a common factor.
            weights: of the clusters.
        """
        d0, c, v0, slope, o = self.relative(weights)
        return float((d0 + v0 + o + (c + slope) * length) * self.mean_step(rounds, weights))

    @property
    def misfit(self) -> Numbers:
        """[gammas] log of measured time over the line."""
        return self.misfits(np.ones(self.names.size))

    @property
    def bend(self) -> Numbers:
        """[gammas] log of measured time over the line of least relative squares through them.

        Unlike :attr:`misfit` it is blind to what takes all gammas off their robust line alike, as
        slow moments do, which are outliers to the line and count in full in a mean. NaN where a
        time is none.
        """
        fitted = time = self.time
        if not (np.isfinite(time) & (time > 0.0)).all():
            return np.full(time.size, np.nan)
        line = np.column_stack([np.ones_like(time), self.length])
        for _ in range(_REWEIGHTED):
            fitted = line @ np.linalg.lstsq(line / fitted[:, None], time / fitted)[0]
            if not (fitted > 0.0).all():
                return np.full(time.size, np.nan)
        return np.asarray(np.log(time / fitted))

    def misfits(self, weights: Numbers) -> Numbers:
        """The same had the clusters these weights: [..., clusters] -> [..., gammas]."""
        d0, c, v0, slope, o = np.moveaxis(self.relative(weights)[..., None], -2, 0)
        size, drafted = (weights @ part for part in self.sums[:2])
        with np.errstate(divide="ignore", invalid="ignore"):
            time = weights @ self.sums[2:].sum(axis=0) / size
            return np.asarray(np.log(time / (d0 + v0 + o + (c + slope) * drafted / size)))

    def by_chance(self) -> float:
        """Sum of the squares that gammas lie off their line by chance of their rounds.

        By jackknife over clusters (Efron & Tibshirani 1993, ch. 11); 0 where it can't be told.
        """
        count = self.names.size
        left_out = self.misfits(1.0 - np.eye(count))
        chance = float(((left_out - left_out.mean(axis=0)) ** 2).sum()) * (count - 1) / count
        return chance if np.isfinite(chance) else 0.0  # one cluster, or no line without one

    def cell_pulls(self) -> Numbers:
        """[5, gammas] how far a deviation of a gamma's log time moves d0, c, v0, v's slope and o.

        Relative to the steps; the line is least squares, and a cell slows all parts alike.
        """
        share, off = self.size / self.size.sum(), self.length - self._middle
        slope = share * off / float(share @ off**2)
        intercept = share - self._middle * slope
        draft, verify, other = self.parts
        return np.stack(
            [intercept * draft, slope * draft, intercept * verify, slope * verify, share * other]
        )

    def leverage(self, length: float) -> float:
        """Variance of the log of the line at a length, if each gamma's log time has variance 1."""
        share, off = self.size / self.size.sum(), self.length - self._middle
        pull = share * (1.0 + (length - self._middle) * off / float(share @ off**2))
        return float(((pull * self.time / float(pull @ self.time)) ** 2).sum())

    @property
    def _middle(self) -> float:
        return float(self.size @ self.length / self.size.sum())


def between_cells(lines: RoundLines | None, plain_cells: Numbers | None) -> Scatter | None:
    """:func:`scatter_of` lines, or of baselines alone, and what is left without rounds' own chance.

    That is spread over the degrees of freedom as the misfit is.

    Returns:
        None where nothing tells it.
    """
    scatter = scatter_of(np.zeros(2) if lines is None else lines.misfit, plain_cells)
    if scatter is None or lines is None:
        return scatter
    return scatter.less(lines.by_chance() / scatter.freedom)
