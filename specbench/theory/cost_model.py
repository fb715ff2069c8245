"""What a round costs at any draft length, from the rounds of all gammas.

In units of T1, the baseline's whole decode time per step, a round that drafts L tokens takes

    d0 + c L          drafting: a fixed cost, and one drafter step per token
    v0 + w L          verifying n = L + 1 tokens: v(n) = v0 + w (n - 1)
    o                 the rest: sampling, bookkeeping

A line's intercept v(1) = v0 is not forced to 1. T1 holds the baseline's sampling and loop, which
here are in o, so that v(1) would be below 1; and the forward of several tokens runs other kernels
than that of one, so that the line through the former may miss the latter on either side. Rounds
that drafted nothing do verify one token: they have a time of their own and are on no line.

The lines are robust (:mod:`specbench.theory.robust_line`), through the means of each cluster's
rounds of each gamma, relative to its own baseline step (:mod:`specbench.theory.round_lines`).
Intervals resample clusters, all gammas of a cluster together, and with them the baseline's steps:
BCa bootstrap from 24 clusters, below a jackknife with Student's t (Efron & Tibshirani 1993, An
Introduction to the Bootstrap, ch. 11).

Cells that are measured one after the other differ, which resampling clusters can't show. Each
gamma's log time, and that of each baseline, has a deviation of its own, whose variance is told by
how far gammas lie off the lines and baselines from each other, beyond what rounds do by chance
(:func:`specbench.theory.round_lines.between_cells`). It moves the costs through the lines and
through T1, linearly, and widens their intervals, with the degrees of freedom of Welch 1947.

Where only the total time of a round is known, only the sums are: d0 + v0 + o and c + w.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from specbench.theory import quantiles
from specbench.theory.bootstrap import bca_ends, resample_weights
from specbench.theory.clusters import Numbers
from specbench.theory.intervals import BOOTSTRAP_FROM
from specbench.theory.round_lines import RoundLines, RoundTimes, StepTimes, between_cells
from specbench.theory.scatter import Scatter, scatter_of

_SEED = 0  # of the bootstrap
MIN_GAMMAS = 3
"""Two gammas always lie on a line."""

# d0, c, v0, w, o, and what a round costs before its first token and for each one
_PARTS = np.column_stack([np.eye(5), [1, 0, 1, 0, 1], [0, 1, 0, 1, 0]]).astype(np.float64)
_LAST_TWO = np.eye(7)[-2:]


class Estimate(NamedTuple):
    """A number in units of T1 with its 95% interval, None where there is too little for one."""

    value: float
    ci: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class Cells:
    """How far costs are off for what differs between cells.

    Attributes:
        pulls: [cells, 7] how far a deviation of a cell's log time moves each of the costs.
        scatter: how large such deviations are.
    """

    pulls: Numbers
    scatter: Scatter

    def reach(self, own: float, freedom: int, costs: Numbers) -> float:
        """Half the width of the interval of a sum of costs, each taken so many times: [7].

        Args:
            own: its variance by clusters.
            freedom: of that.
        """
        return self.scatter.reach(own, freedom, float(((self.pulls @ costs) ** 2).sum()))


@dataclass(frozen=True, eq=False)
class CostFit:
    """The fitted costs of a round.

    Attributes:
        d0, c: of drafting; these and the next three are None where only totals are known.
        v0, v_slope: of verifying.
        o: the rest.
        fixed: d0 + v0 + o.
        per_token: c + v_slope.
        idle: mean time of a round that drafted nothing; None where there was none.
        scatter: standard deviation of a gamma's log round time about the line, and of baselines of
            each other: what differs between cells measured one after the other. None where nothing
            tells it.
        freedom: degrees of freedom of the intervals by clusters, clusters - 1; 0 where there are
            none.
        covariance: [2, 2] of fixed and per_token by clusters; None where there is no interval.
        cells: what differs between cells adds to it; None where nothing tells it.
    """

    d0: Estimate | None
    c: Estimate | None
    v0: Estimate | None
    v_slope: Estimate | None
    o: Estimate | None
    fixed: Estimate
    per_token: Estimate
    idle: float | None
    scatter: float | None
    freedom: int
    covariance: Numbers | None
    cells: Cells | None = None

    def draft(self, gamma: float) -> float | None:
        """d0 + c gamma; None where only totals are known."""
        return None if self.d0 is None or self.c is None else self.d0.value + self.c.value * gamma

    def verify(self, gamma: float) -> float | None:
        """v(gamma + 1); None where only totals are known."""
        if self.v0 is None or self.v_slope is None:
            return None
        return self.v0.value + self.v_slope.value * gamma

    def round_time(self, gamma: float) -> Estimate:
        """A round that drafts gamma tokens."""
        value = self.fixed.value + self.per_token.value * gamma
        if self.covariance is None:
            return Estimate(value, None)
        at = np.array([1.0, gamma])
        variance = max(float(at @ self.covariance @ at), 0.0)
        reach = _reach(variance, self.freedom)
        if self.cells is not None:
            reach = self.cells.reach(variance, self.freedom, at @ _LAST_TWO)
        return Estimate(value, (value - reach, value + reach))


def fit_costs(
    times: Mapping[int, RoundTimes],
    plain: StepTimes,
    plain_cells: Numbers | None = None,
    intervals: bool = True,
) -> CostFit | None:
    """Fit d0, c, v and o.

    Args:
        times: gamma -> its rounds.
        plain: the steps of the baselines.
        plain_cells: [baselines] mean seconds of a step of each, for the scatter.
        intervals: False where the clusters are too few to be resampled.

    Returns:
        None with fewer than MIN_GAMMAS gammas that drafted, drafts all of one length, or no
        baseline.
    """
    lines = RoundLines.of(times, plain) if plain.steps.sum() else None
    if lines is None or lines.length.size < MIN_GAMMAS:
        return None
    names = np.union1d(lines.names, plain.names)
    own, base = np.searchsorted(names, lines.names), np.searchsorted(names, plain.names)

    def costs(weights: Numbers) -> Numbers:
        with np.errstate(divide="ignore", invalid="ignore"):
            unit = weights[..., base] @ plain.seconds / (weights[..., base] @ plain.steps)
            return np.asarray(lines.at(weights[..., own]) @ _PARTS / unit[..., None])

    freedom = names.size - 1 if intervals else 0
    cells = _cells_of(lines, plain, plain_cells)
    (d0, c, v0, v_slope, o, fixed, per_token), covariance = _resampled(
        costs, names.size, freedom, cells
    )
    idle, scatter = lines.idle(np.ones(own.size)), scatter_of(lines.misfit, plain_cells)
    return CostFit(
        d0,
        c,
        v0,
        v_slope,
        o,
        fixed,
        per_token,
        idle=None if idle is None else idle / plain.step_s,
        scatter=math.sqrt(scatter.variance) if scatter else None,
        freedom=freedom,
        covariance=covariance,
        cells=cells,
    )


def _cells_of(lines: RoundLines, plain: StepTimes, plain_cells: Numbers | None) -> Cells | None:
    """What differs between cells: each gamma moves its points of the lines, the baselines T1."""
    told = between_cells(lines, plain_cells)
    if told is None:
        return None
    baselines = 1 if plain_cells is None or not plain_cells.size else plain_cells.size
    weights = np.ones(lines.names.size)
    steps = float(lines.mean_step(lines.rounds, weights)) / plain.step_s  # in units of T1
    costs = lines.at(weights) / plain.step_s
    pulls = np.vstack([lines.cell_pulls().T * steps, np.tile(-costs / baselines, (baselines, 1))])
    return Cells(pulls @ _PARTS, told)


def fit_totals(round_times: Mapping[int, float]) -> CostFit | None:
    """Fit what total round times tell: fixed and per_token. Each gamma is one observation.

    Args:
        round_times: gamma -> time of a round in units of T1, tokens per round / speedup.

    Returns:
        None with fewer than MIN_GAMMAS gammas.
    """
    nothing = np.zeros(1)
    times = {
        gamma: RoundTimes(
            names=np.array([f"gamma {gamma}"]),
            lengths=np.eye(gamma + 1)[-1:],  # all rounds drafted gamma tokens
            draft_s=nothing,
            verify_s=np.array([time]),
            other_s=nothing,
            idle_s=nothing,
        )
        for gamma, time in round_times.items()
    }
    lines = RoundLines.of(times)
    if lines is None or len(times) < MIN_GAMMAS:
        return None

    def costs(weights: Numbers) -> Numbers:
        return np.asarray(lines.at(weights) @ _PARTS[:, 5:])

    freedom = len(times) - 2
    (fixed, per_token), covariance = _resampled(costs, len(times), freedom)
    scatter = scatter_of(lines.misfit, None)
    return CostFit(
        d0=None,
        c=None,
        v0=None,
        v_slope=None,
        o=None,
        fixed=fixed,
        per_token=per_token,
        idle=None,
        scatter=math.sqrt(scatter.variance) if scatter else None,
        freedom=freedom,
        covariance=covariance,
    )


def _resampled(
    statistic: Callable[[Numbers], Numbers],
    count: int,
    freedom: int,
    cells: Cells | None = None,
) -> tuple[list[Estimate], Numbers | None]:
    """Estimates with intervals, and the covariance [2, 2] of the last two.

    Args:
        statistic: weights of the clusters [..., clusters] -> costs [..., k].
        count: of clusters.
        freedom: degrees of freedom of Student's t; below 1 there is no interval.
        cells: what differs between cells, which widens both sides of an interval alike.
    """
    values, left_out = statistic(np.ones(count)), statistic(1.0 - np.eye(count))
    if freedom < 1 or not np.isfinite(left_out).all():
        return [Estimate(float(value), None) for value in values], None
    influence = left_out.mean(axis=0) - left_out
    covariance = (count - 1) / count * influence.T @ influence
    resampled = None
    if count >= BOOTSTRAP_FROM:
        resampled = statistic(resample_weights(count, _SEED))
        resampled = resampled[np.isfinite(resampled).all(axis=1)]
    found = []
    for place, value in enumerate(values.tolist()):
        variance = float(covariance[place, place])
        own = reach = _reach(variance, freedom)
        if cells is not None:
            reach = cells.reach(variance, freedom, np.eye(len(values))[place])
        least, ends = 1e-12 * max(abs(value), 1e-12), None
        if reach > least:  # a drafter may take no time at all
            ends = (value - reach, value + reach)
            if resampled is not None and own > least:
                low, high = bca_ends(resampled[:, place], value, influence[:, place], 0.95)
                ends = (value + (low - value) * reach / own, value + (high - value) * reach / own)
        found.append(Estimate(value, ends))
    return found, covariance[-2:, -2:]


def _reach(variance: float, freedom: int) -> float:
    return float(quantiles.student_t(0.975, freedom)) * math.sqrt(variance)
