"""How sure a difference of two estimates is, or any weighted sum of them, from their own intervals.

Each term brings its estimate and its interval, which may be lopsided; the distances to the ends on
the side that matters are added up in squares, less what a correlation takes out: Zou and Donner
2008, "Construction of confidence limits about effect measures: a general approach". Ratios of
positive numbers are differences of their logs.

>>> total, (low, high) = weighted_sum([Term(1, 0.8, (0.7, 0.9)), Term(-1, 0.5, (0.4, 0.6))])
>>> f"{total:.2f} {low:.2f} {high:.2f}"
'0.30 0.16 0.44'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from specbench.theory import quantiles
from specbench.theory.clusters import Numbers

Ends = tuple[float, float]


class Term(NamedTuple):
    """One estimate of a weighted sum, with the ends of its own interval."""

    weight: float
    value: float
    ends: Ends

    @classmethod
    def log(cls, weight: float, value: float, ends: Ends) -> Term | None:
        """The term on the log scale; None where an end is not positive."""
        if min(value, *ends) <= 0.0:
            return None
        return cls(weight, math.log(value), (math.log(ends[0]), math.log(ends[1])))


def weighted_sum(terms: Sequence[Term], correlation: float = 0.0) -> tuple[float, Ends]:
    """The sum of weight x value over terms, with its interval at the level of theirs.

    Args:
        terms: at least one.
        correlation: of every two estimates; 0 where they are independent.
    """
    total = sum(term.weight * term.value for term in terms)
    signs = np.array([math.copysign(1.0, term.weight) for term in terms])
    below, above = (np.array([_distance(term, side) for term in terms]) for side in (0, 1))
    return total, (
        total - _length(signs * below, correlation),
        total + _length(signs * above, correlation),
    )


def _distance(term: Term, side: int) -> float:
    """How far the term may take the sum down (side 0) or up (side 1), at least 0."""
    end = term.ends[side if term.weight > 0 else 1 - side]
    return abs(term.weight) * max(abs(end - term.value), 0.0)


def _length(distances: Numbers, correlation: float) -> float:
    """Root of the sum of squares, and of twice the correlated products."""
    squares = float(distances @ distances)
    products = float(distances.sum()) ** 2 - squares
    return math.sqrt(max(squares + correlation * products, 0.0))


def correlation(
    left_top: Numbers, left_bottom: Numbers, right_top: Numbers, right_bottom: Numbers
) -> float:
    """Correlation of two ratios of sums whose entry i is the same cluster: of their residuals.

    Args:
        left_top, left_bottom, right_top, right_bottom: [clusters], all of one length.

    Returns:
        0 where a side has no residuals at all.
    """
    left = left_top - left_top.sum() / left_bottom.sum() * left_bottom
    right = right_top - right_top.sum() / right_bottom.sum() * right_bottom
    size = math.sqrt(float(left @ left) * float(right @ right))
    return max(-1.0, min(1.0, float(left @ right) / size)) if size > 1e-12 else 0.0


def simultaneous(
    estimate: float,
    ends: Ends,
    comparisons: int,
    clusters: int | None = None,
) -> Ends:
    """A 95% interval widened so that all of so many hold together: Bonferroni, by Student's t.

    Args:
        estimate: inside the interval.
        ends: of one interval.
        comparisons: how many are looked at together; 1 changes nothing.
        clusters: that the interval rests on; None: not known, as if they were many.
    """
    tail = (1.0 - 0.95) / 2.0
    freedom = math.inf if clusters is None else max(clusters - 1, 1)
    together, alone = quantiles.student_t(np.array([tail / max(comparisons, 1), tail]), freedom)
    factor = float(together / alone)
    return estimate - factor * (estimate - ends[0]), estimate + factor * (ends[1] - estimate)
