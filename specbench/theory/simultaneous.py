"""Lower bounds that hold together, for all of many estimates that are looked at.

Who looks at hundreds of speedups and takes the best will find one above 1 by chance: of 24 that are
truly 1, half of all times at least one has a 95% interval that clears it. So the intervals here
hold all at once, and each of them is as sure as every other (Beran 1988, "Balanced Simultaneous
Confidence Sets"): an estimate whose error is told by many degrees of freedom does not pay for those
told by few.

Estimates move for two reasons, in parts that are independent of each other:

- clusters differ: each adds its influence. Were the influences normal, estimates and their
  standard errors would be those of means of normal data with the same covariance, which are drawn
  here: all estimates at once, so that it is kept how they hang together, and each with a standard
  error of its own, so that quantiles are Student's where clusters are few (Hothorn, Bretz &
  Westfall 2008, "Simultaneous Inference in General Parametric Models", sect. 3.1);
- deviations that no cluster shows: of cells that were measured one after the other, and of what a
  model does not know. They are normal, with a variance that was itself estimated.

A part's standard error s of f degrees of freedom reaches t(p, f) s at a tail of p, and parts reach
the root of the sum of squares (Zou & Donner 2008). Which p makes all hold is found by drawing: each
part's error is what was estimated times a Student's t (Behrens 1929; Fisher 1935), which does not
believe a small standard error that is told by few degrees of freedom; p is a quantile of the
smallest tail of all estimates.

>>> sums = Influence(np.array([0]), np.array([[-1.0], [0.5], [0.5], [-0.5], [0.25], [0.25]]))
>>> Errors(1, [sums]).standard.tolist()
[1.5]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specbench.theory import quantiles
from specbench.theory.clusters import Numbers

RESAMPLES = 2000
_UPPER = 0.975
_MANY = 60
_PIECES = 10  # that resamples are taken in, which keeps memory small
_TAILS = 0.5 * 10.0 ** -np.linspace(0.0, 9.0, 181)


class Influence(NamedTuple):
    """What a set of independent clusters adds to some of the estimates.

    Attributes:
        columns: [m] the estimates that depend on it.
        values: [clusters, m] what each of them gains from a cluster; their sums are 0.
        lent: degrees of freedom that its variances have from other sets, beyond its clusters' own.
    """

    columns: NDArray[np.int64]
    values: Numbers
    lent: float = 0.0

    @property
    def freedom(self) -> float:
        """Degrees of freedom of its variances."""
        return max(len(self.values) - 1, 1) + self.lent

    def variance(self) -> Numbers:
        """[m] of the estimates; NaN from a single cluster."""
        count = len(self.values)
        if count < 2:
            return np.full(self.columns.size, np.nan)
        return np.asarray(count / (count - 1) * (self.values**2).sum(axis=0))

    def draw(self, generator: np.random.Generator) -> Numbers:
        """Student's t of the estimates: [RESAMPLES, m]; 0 where there is no variance."""
        count, variance = len(self.values), self.variance()
        known, found = variance > 0.0, np.zeros((RESAMPLES, self.columns.size))
        if not known.any():
            return found
        _, size, axes = np.linalg.svd(self.values[:, known], full_matrices=False)
        factor = (size[:, None] * axes)[size > 1e-12 * size.max()]  # [rank, known]
        factor *= math.sqrt(count / (count - 1))
        moved = generator.normal(size=(RESAMPLES, len(factor))) @ factor
        truth = (factor**2).sum(axis=0)
        if count > _MANY:  # then all standard errors are nearly sure
            scale = generator.chisquare(count - 1, (RESAMPLES, 1)) / (count - 1)
            told = scale * truth
        else:
            roots = np.array_split(_wishart_roots(len(factor), count - 1, generator), _PIECES)
            squares = [((root @ factor) ** 2).sum(axis=1) for root in roots]
            told = np.concatenate(squares) / (count - 1)
        told = (self.lent * truth + (count - 1) * told) / (self.lent + count - 1)
        found[:, known] = _t(moved, told)
        return found

    def only(self, wanted: NDArray[np.bool_]) -> Influence:
        """Its part in some of the estimates, a mask of them all, numbered anew."""
        mask = wanted[self.columns]
        columns = (np.cumsum(wanted) - 1)[self.columns[mask]]
        return self._replace(columns=columns, values=self.values[:, mask])


class Deviations(NamedTuple):
    """Independent amounts of one variance that move some of the estimates.

    Attributes:
        columns: [m] the estimates that depend on them.
        pulls: [deviations, m] how far each moves an estimate.
        size: variance of each.
        freedom: degrees of freedom that it was estimated with.
    """

    columns: NDArray[np.int64]
    pulls: Numbers
    size: float
    freedom: float

    def variance(self) -> Numbers:
        """[m] of the estimates."""
        return np.asarray(self.size * (self.pulls**2).sum(axis=0))

    def moves(self, generator: np.random.Generator, count: int) -> Numbers:
        """Of the estimates: [count, m]."""
        amounts = generator.normal(0.0, math.sqrt(self.size), (count, len(self.pulls)))
        return np.asarray(amounts @ self.pulls)

    def draw(self, generator: np.random.Generator) -> Numbers:
        """As :meth:`Influence.draw`."""
        scale = generator.chisquare(self.freedom, (RESAMPLES, 1)) / self.freedom
        return _t(self.moves(generator, RESAMPLES), np.asarray(scale * self.variance()))

    def only(self, wanted: NDArray[np.bool_]) -> Deviations:
        """As :meth:`Influence.only`."""
        mask = wanted[self.columns]
        columns = (np.cumsum(wanted) - 1)[self.columns[mask]]
        return self._replace(columns=columns, pulls=self.pulls[:, mask])


def _t(moved: Numbers, variance: Numbers) -> Numbers:
    """Moves over what is taken for their standard errors; 0 where these are 0."""
    return np.divide(moved, np.sqrt(variance), out=np.zeros_like(moved), where=variance > 0.0)


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
        count: k.
        parts: independent of each other.
    """

    count: int
    parts: Sequence[Influence | Deviations]

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
        return Errors(int(wanted.sum()), [part.only(wanted) for part in self.parts])

    def _variance_and_welch(self) -> tuple[Numbers, Numbers]:
        """Variances, and their squares over their degrees of freedom: [k] each."""
        variance, welch = np.zeros((2, self.count))
        for part in self.parts:
            own = part.variance()
            variance[part.columns] += own
            welch[part.columns] += own**2 / part.freedom
        return variance, welch

    def widths(self, level: float, seed: int) -> Numbers:
        """[k] standard errors from each estimate to its bound, for all bounds to hold together.

        0 for what can't vary.
        """
        standard = self.standard
        usable, drawn = np.flatnonzero(standard > 0.0), np.zeros((RESAMPLES, self.count))
        reach = np.zeros((_TAILS.size, self.count))
        generator = np.random.default_rng(seed)
        for part in self.parts:
            own = np.nan_to_num(part.variance())
            drawn[:, part.columns] += part.draw(generator) * np.sqrt(own)
            reach[:, part.columns] += quantiles.student_t(_TAILS, part.freedom)[:, None] ** 2 * own
        reach = np.sqrt(reach)
        smallest = np.full(RESAMPLES, math.log(_TAILS[0]))
        for column in usable:
            logs = np.interp(drawn[:, column], reach[:, column], np.log(_TAILS))
            smallest = np.minimum(smallest, logs)
        tail = np.quantile(smallest, 1.0 - level, method="lower")
        found = np.zeros(self.count)
        for column in usable:
            found[column] = np.interp(-tail, -np.log(_TAILS), reach[:, column]) / standard[column]
        return found


def lower_bounds(estimates: Numbers, errors: Errors, level: float = 0.95, seed: int = 0) -> Numbers:
    """[k] lower ends of intervals that all hold together, with the given confidence.

    So all bounds lie below the truth in 1 - (1 - level) / 2 of all cases. NaN where an estimate has
    no standard error.
    """
    return np.asarray(estimates - errors.widths(0.5 + level / 2, seed) * errors.standard)


def interval(estimates: Numbers, errors: Errors) -> tuple[Numbers, Numbers]:
    """Ends [k], [k] of the 95% interval of each estimate by itself, by Student's t.

    None is narrower than any part of its error alone would make it: where one part is told by a
    single degree of freedom, Welch's approximation believes the other parts too soon.
    """
    reach = quantiles.student_t(_UPPER, errors.freedom) * errors.standard
    for part in errors.parts:
        alone = quantiles.student_t(_UPPER, part.freedom) * np.sqrt(part.variance())
        reach[part.columns] = np.fmax(reach[part.columns], alone)
    return np.asarray(estimates - reach), np.asarray(estimates + reach)
