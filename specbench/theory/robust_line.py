"""A straight line through cluster means that single outliers don't bend, quick to resample.

Least squares with Huber's weights: a point further from the line than HUBER standard deviations
counts less, in proportion. A point is the mean of some rounds, so its variance is taken to fall
with their number, and the deviations' scale is their median. Huber 1964, "Robust Estimation of a
Location Parameter"; Huber & Ronchetti, Robust Statistics, 2nd ed., ch. 7.

Resampling clusters changes their weights only. The line of other weights is one Newton step away
from the line found, which is exact where no point is an outlier and right to first order elsewhere:
Shao & Tu 1995, The Jackknife and Bootstrap, section on one-step estimators.

>>> length = np.array([[1.0, 2.0, 4.0]])  # one cluster, three gammas
>>> line = robust_line(length, 0.1 + 0.05 * length, np.ones((1, 3)))
>>> round(line.intercept, 6), round(line.slope, 6)
(0.1, 0.05)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from specbench.theory.clusters import Numbers

HUBER = 2.5
"""Standard deviations. The usual 1.345 would lean to the middle of skewed times, such as those of
conversations of different lengths, and T1 is a plain mean: their ratio would be off."""

_NORMAL = 1.4826  # standard deviation / median absolute deviation, of normal deviations
_ROUNDINGS = 1e-10  # deviations of this share of the values are no deviations
_STEPS = 50


@dataclass(frozen=True, eq=False)
class Line:
    """A fitted line.

    Attributes:
        intercept: at length 0.
        slope: per token.
        columns: [clusters, 5] what a cluster adds to the Newton step: the weights of its points
            that are no outliers times 1, x and x^2, and its pull on intercept and slope.
        sloped: False for a constant.
    """

    intercept: float
    slope: float
    columns: Numbers
    sloped: bool = True

    def at(self, weights: Numbers) -> tuple[Numbers, Numbers]:
        """Intercept and slope [...] had the clusters these weights [..., clusters].

        NaN where the weights leave too little for a line.
        """
        ones, x, squares, pull, pull_x = np.moveaxis(weights @ self.columns, -1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            if not self.sloped:
                return self.intercept + pull / ones, np.zeros_like(ones)
            spread = ones * squares - x**2
            spread = np.where(spread > _ROUNDINGS * ones * squares, spread, np.nan)
            return (
                self.intercept + (squares * pull - x * pull_x) / spread,
                self.slope + (ones * pull_x - x * pull) / spread,
            )


def robust_line(x: Numbers, y: Numbers, rounds: Numbers, sloped: bool = True) -> Line:
    """Fit y = intercept + slope x.

    Args:
        x, y: [clusters, gammas] means over a cluster's rounds of a gamma.
        rounds: [clusters, gammas] that a mean is taken over; 0 where there is none.
        sloped: False fits a constant.
    """
    seen = rounds > 0.0
    least = _ROUNDINGS * float(np.sqrt(rounds[seen].mean()) * np.abs(y[seen]).max())
    huber, before = np.ones_like(x), (np.nan, np.nan)
    for _ in range(_STEPS):
        intercept, slope = _weighted(x, y, rounds * huber, sloped)
        residual = np.where(seen, y - intercept - slope * x, 0.0)
        scaled = np.abs(residual) * np.sqrt(rounds)
        limit = HUBER * max(_NORMAL * float(np.median(scaled[seen])), least)
        if limit == 0.0 or np.allclose((intercept, slope), before, rtol=_ROUNDINGS, atol=0.0):
            break
        huber = limit / np.maximum(scaled, limit)
        before = intercept, slope
    inner, pull = rounds * (scaled <= limit), rounds * huber * residual
    parts = (inner, inner * x, inner * x**2, pull, pull * x)
    columns = np.column_stack([part.sum(axis=1) for part in parts])
    return Line(intercept, slope, columns, sloped)


def _weighted(x: Numbers, y: Numbers, weight: Numbers, sloped: bool) -> tuple[float, float]:
    total = float(weight.sum())
    middle_x, middle_y = float((weight * x).sum()) / total, float((weight * y).sum()) / total
    if not sloped:
        return middle_y, 0.0
    slope = float((weight * (x - middle_x) * (y - middle_y)).sum())
    slope /= float((weight * (x - middle_x) ** 2).sum())
    return middle_y - slope * middle_x, slope
