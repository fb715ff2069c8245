"""Quantiles of the distributions that intervals and tests are made of.

The same numbers as those of ``scipy.stats``, which takes a second to import and so is left alone.
Levels and degrees of freedom may be arrays.

>>> round(float(student_t(0.975, 5)), 3)
2.571
"""

from __future__ import annotations

from typing import Any

from scipy import special


def student_t(level: Any, freedom: Any) -> Any:
    """The quantile of Student's t; of the normal distribution at infinite freedom."""
    return special.stdtrit(freedom, level)


def normal(level: Any) -> Any:
    """The quantile of the standard normal distribution."""
    return special.ndtri(level)


def chi_square(level: Any, freedom: Any) -> Any:
    """The quantile of chi-square."""
    return special.chdtri(freedom, 1.0 - level)


def fisher_f(level: Any, numerator: Any, denominator: Any) -> Any:
    """The quantile of F; ``numerator`` and ``denominator`` are degrees of freedom."""
    return special.fdtri(numerator, denominator, level)


def beta(level: Any, first: Any, second: Any) -> Any:
    """The quantile of Beta(first, second)."""
    return special.betaincinv(first, second, level)
