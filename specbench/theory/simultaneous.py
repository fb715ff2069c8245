"""Lower bounds that hold together, for all of many estimates that are looked at.

Who looks at hundreds of speedups and takes the best will find one above 1 by chance: of 24 that are
truly 1, half of all times at least one has a 95% interval that clears it. So the intervals here
hold all at once: their lower ends are estimate - q x standard error, where q is a quantile of the
largest t of all estimates.

Estimates move for two reasons:

- clusters differ: each adds its influence. Were the influences normal, estimates and their
  standard errors would be those of means of normal data with the same covariance, which are drawn
  here: all estimates at once, so that it is kept how they hang together, and each with a standard
  error of its own, so that quantiles are Student's where clusters are few (Hothorn, Bretz &
  Westfall 2008, "Simultaneous Inference in General Parametric Models", sect. 3.1);
- cells differ that were measured one after the other, by a normal amount whose variance was itself
  estimated.

>>> sums = Influence(np.array([0]), np.array([[-1.0], [0.5], [0.5], [-0.5], [0.25], [0.25]]))
>>> Errors([sums], np.zeros((0, 1))).standard.tolist()
[1.5]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specbench.theory import quantiles
from specbench.theory.clusters import Numbers

RESAMPLES = 2000
_MANY = 60
_PIECES = 10  # that resamples are taken in, which keeps memory small


class Influence(NamedTuple):
    """What a set of independent clusters adds to some of the estimates.

    Attributes:
        columns: [m] the estimates that depend on it.
        values: [clusters, m] what each of them gains from a cluster; their sums are 0.
    """

    columns: NDArray[np.int64]
    values: Numbers

    def variance(self) -> Numbers:
        """[m] of the estimates; NaN from a single cluster."""
        count = len(self.values)
        if count < 2:
            return np.full(self.columns.size, np.nan)
        return np.asarray(count / (count - 1) * (self.values**2).sum(axis=0))

    def draw(self, generator: np.random.Generator) -> tuple[Numbers, Numbers]:
        """Deviations of the estimates, and what their variances are then taken to be.

        Returns:
            two arrays [RESAMPLES, m].
        """
        count, known = len(self.values), np.isfinite(self.variance())
        moved, variance = np.full((2, RESAMPLES, self.columns.size), np.nan)
        if not known.any():
            return moved, variance
        _, size, axes = np.linalg.svd(self.values[:, known], full_matrices=False)
        factor = (size[:, None] * axes)[size > 1e-12 * size.max()]  # [rank, known]
        factor *= math.sqrt(count / (count - 1))
        moved[:, known] = generator.normal(size=(RESAMPLES, len(factor))) @ factor
        if count > _MANY:  # then all standard errors are nearly sure
            scale = generator.chisquare(count - 1, (RESAMPLES, 1)) / (count - 1)
            variance[:, known] = scale * (factor**2).sum(axis=0)
        else:
            roots = np.array_split(_wishart_roots(len(factor), count - 1, generator), _PIECES)
            squares = [((root @ factor) ** 2).sum(axis=1) for root in roots]
            variance[:, known] = np.concatenate(squares) / (count - 1)
        return moved, variance


def _wishart_roots(rank: int, freedom: int, generator: np.random.Generator) -> Numbers:
    """Upper triangles R with R'R of a Wishart distribution of unit scale: [RESAMPLES, rank, rank].

    Bartlett 1933; the degrees of freedom are at least the rank.
    """
    roots = np.triu(generator.normal(size=(RESAMPLES, rank, rank)), 1)
    place = np.arange(rank)
    roots[:, place, place] = np.sqrt(generator.chisquare(freedom - place, (RESAMPLES, rank)))
    return np.asarray(roots)


@dataclass(frozen=True, eq=False)
class Errors:
    """What may move each of k estimates away from the truth.

    Attributes:
        influences: one per set of clusters.
        pulls: [cells, k] how far a cell's own deviation moves an estimate.
        cell_variance: of a cell's deviation.
        cell_freedom: degrees of freedom that it was estimated with.
    """

    influences: Sequence[Influence]
    pulls: Numbers
    cell_variance: float = 0.0
    cell_freedom: int = 1

    @property
    def standard(self) -> Numbers:
        """[k] standard errors; NaN where a set has a single cluster."""
        variance, _ = self._variance_and_welch()
        return np.asarray(np.sqrt(variance))

    @property
    def freedom(self) -> Numbers:
        """[k] degrees of freedom of Student's t for one estimate alone: Welch 1947."""
        variance, welch = self._variance_and_welch()
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(welch > 0.0, variance**2 / welch, 1.0))

    def only(self, wanted: NDArray[np.bool_]) -> Errors:
        """Those of some of the estimates: a mask [k]."""
        place = np.cumsum(wanted) - 1
        kept = [(part, wanted[part.columns]) for part in self.influences]
        return replace(
            self,
            influences=[
                Influence(place[part.columns[mask]], part.values[:, mask]) for part, mask in kept
            ],
            pulls=self.pulls[:, wanted],
        )

    def _variance_and_welch(self) -> tuple[Numbers, Numbers]:
        """Variances, and their squares over their degrees of freedom: [k] each."""
        variance = self.cell_variance * (self.pulls**2).sum(axis=0)
        welch = variance**2 / self.cell_freedom
        for part in self.influences:
            own = part.variance()
            variance[part.columns] += own
            welch[part.columns] += own**2 / max(len(part.values) - 1, 1)
        return variance, welch

    def largest_t(self, level: float, seed: int) -> float:
        """Quantile of the largest t of all estimates that can vary, were none of them off.

        0 where there is nothing to look at.
        """
        usable = self.standard > 0.0
        if not usable.any():
            return 0.0
        generator = np.random.default_rng(seed)
        cells = self.cell_variance * (self.pulls**2).sum(axis=0)
        deviations = generator.normal(
            0.0, math.sqrt(self.cell_variance), (RESAMPLES, len(self.pulls))
        )
        moved = deviations @ self.pulls
        scale = generator.chisquare(self.cell_freedom, (RESAMPLES, 1)) / self.cell_freedom
        variance = scale * cells
        for part in self.influences:
            deviations, own = part.draw(generator)
            moved[:, part.columns] += deviations
            variance[:, part.columns] += own
        with np.errstate(divide="ignore", invalid="ignore"):
            t = moved[:, usable] / np.sqrt(np.maximum(variance[:, usable], 0.0))
        largest = np.nan_to_num(t, nan=-np.inf, posinf=np.inf, neginf=-np.inf).max(axis=1)
        return float(np.quantile(largest, level, method="higher"))


def lower_bounds(estimates: Numbers, errors: Errors, level: float = 0.95, seed: int = 0) -> Numbers:
    """[k] lower ends of intervals that all hold together, with the given confidence.

    So all bounds lie below the truth in 1 - (1 - level) / 2 of all cases. NaN where an estimate has
    no standard error.
    """
    return np.asarray(estimates - errors.largest_t(0.5 + level / 2, seed) * errors.standard)


def interval(estimates: Numbers, errors: Errors, level: float = 0.95) -> tuple[Numbers, Numbers]:
    """Ends [k], [k] of Student's t for each estimate by itself."""
    reach = quantiles.student_t(0.5 + level / 2, errors.freedom) * errors.standard
    return np.asarray(estimates - reach), np.asarray(estimates + reach)
