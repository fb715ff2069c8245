"""How much cells differ that were measured one after the other, and how sure a ratio then is.

Machines get warm and share their memory with others, all rounds of a cell alike, which no
resampling of a cell's rounds shows. So the log time of a cell is taken to have a deviation of its
own, normal, with a variance that baselines, and gammas beside their lines, tell with some degrees
of freedom.

>>> Scatter(0.01**2, 3).plus(Scatter(0.01**2, 3))
Scatter(variance=0.0002, freedom=6.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from specbench.theory import quantiles
from specbench.theory.clusters import Numbers


class Scatter(NamedTuple):
    """Variance of the log time of a cell, and the degrees of freedom it was estimated with."""

    variance: float
    freedom: float

    def reach(self, own: float, freedom: float, cells: float) -> float:
        """Half the width of a 95% interval of Student's t: Welch 1947.

        At least that of either source alone: where cells are told by one degree of freedom and
        differ more than clusters do, Welch's own covers 88% only, and would become narrower the
        more clusters differ.

        Args:
            own: variance by clusters.
            freedom: its degrees of freedom.
            cells: how often the variance of a cell adds to it.
        """
        added = cells * self.variance
        reaches = [_reach(own, freedom)]
        if added > 0.0:
            total = own + added
            degrees = total**2 / (own**2 / freedom + added**2 / self.freedom)
            reaches += [_reach(added, self.freedom), _reach(total, degrees)]
        return max(reaches)

    def times(self, share: float) -> Scatter:
        """Of what moves with such a deviation, whose variance counts so many times."""
        return self._replace(variance=share * self.variance)

    def less(self, variance: float) -> Scatter:
        """Without what is known to have another reason; never below 0."""
        return self._replace(variance=max(self.variance - variance, 0.0))

    def plus(self, other: Scatter) -> Scatter:
        """Of the sum of two such deviations, which are independent: Welch 1947."""
        total = self.variance + other.variance
        told = self.variance**2 / self.freedom + other.variance**2 / other.freedom
        return Scatter(total, total**2 / told if told else self.freedom + other.freedom)

    def widened(
        self, estimate: float, ends: tuple[float, float], clusters: int, cells: float
    ) -> tuple[float, float]:
        """The 95% interval of a ratio of times, which knows how clusters differ, with cells in it.

        Args:
            clusters: that the interval rests on.
            cells: how often the variance of a cell adds to that of the log.
        """
        if not min(estimate, *ends) > 0.0:
            return ends
        low, high = (math.log(end / estimate) for end in ends)
        own_freedom = max(clusters - 1, 1)
        own_t = float(quantiles.student_t(0.975, own_freedom))
        own = ((high - low) / 2.0 / own_t) ** 2
        reach = self.reach(own, own_freedom, cells)
        stretch = reach / (own_t * math.sqrt(own)) if own > 1e-24 else 0.0
        low, high = (stretch * low, stretch * high) if stretch else (-reach, reach)
        return estimate * math.exp(low), estimate * math.exp(high)


def _reach(variance: float, freedom: float) -> float:
    return float(quantiles.student_t(0.975, freedom)) * math.sqrt(variance)


def scatter_of(misfit: Numbers, plain_cells: Numbers | None) -> Scatter | None:
    """What tells it: how far gammas lie off their line, and the baselines from each other.

    Lines that are curved in truth count here too.

    Args:
        misfit: [gammas] log distances from a line.
        plain_cells: [baselines] mean time of a step of each.

    Returns:
        None where nothing tells it: two gammas, one baseline.
    """
    plain = np.log(plain_cells) if plain_cells is not None and plain_cells.size else np.zeros(1)
    freedom = misfit.size - 2 + plain.size - 1
    if freedom < 1 or not np.isfinite(misfit).all():
        return None
    squares = float((misfit**2).sum() + ((plain - plain.mean()) ** 2).sum())
    return Scatter(squares / freedom, freedom)


def pooled(told: Iterable[Scatter | None]) -> Scatter | None:
    """One variance of all; None where nothing tells it."""
    known = [one for one in told if one is not None]
    freedom = sum(one.freedom for one in known)
    squares = sum(one.variance * one.freedom for one in known)
    return Scatter(squares / freedom, freedom) if freedom > 0 else None
