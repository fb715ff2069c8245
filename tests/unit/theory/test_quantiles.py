"""The quantiles are those of scipy.stats."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from specbench.theory import quantiles

LEVELS = np.array([1e-4, 0.025, 0.5, 0.9, 0.975])


@pytest.mark.parametrize("freedom", [1.0, 2.5, 23.0, math.inf])
def test_student_t(freedom: float) -> None:
    assert quantiles.student_t(LEVELS, freedom) == pytest.approx(stats.t.ppf(LEVELS, freedom))


def test_the_others() -> None:
    assert quantiles.normal(LEVELS) == pytest.approx(stats.norm.ppf(LEVELS))
    assert quantiles.chi_square(LEVELS, 5.5) == pytest.approx(stats.chi2.ppf(LEVELS, 5.5))
    assert quantiles.fisher_f(LEVELS, 3, 11.5) == pytest.approx(stats.f.ppf(LEVELS, 3, 11.5))
    assert quantiles.beta(LEVELS, 3, 9) == pytest.approx(stats.beta.ppf(LEVELS, 3, 9))
