from __future__ import annotations

import numpy as np
import pytest

from specbench.theory.robust_line import robust_line

X = np.tile([1.0, 2.0, 4.0, 8.0], (5, 1))


def points(seed: int, noise: float = 0.01) -> np.ndarray:
    return 0.3 + 0.1 * X + noise * np.random.default_rng(seed).normal(size=X.shape)


def test_points_on_a_line_give_it_back() -> None:
    line = robust_line(X, 0.3 + 0.1 * X, np.full(X.shape, 7.0))
    assert (line.intercept, line.slope) == pytest.approx((0.3, 0.1), abs=1e-12)


def test_a_point_without_rounds_says_nothing() -> None:
    y, rounds = 0.3 + 0.1 * X, np.full(X.shape, 7.0)
    y[2, 1], rounds[2, 1] = 99.0, 0.0
    line = robust_line(X, y, rounds)
    assert (line.intercept, line.slope) == pytest.approx((0.3, 0.1), abs=1e-12)


def test_one_wild_cluster_hardly_bends_the_line() -> None:
    y = points(0)
    straight = robust_line(X, y, np.ones(X.shape))
    y[3, 3] *= 5  # a garbage collection, say
    plain = np.polyfit(X.ravel(), y.ravel(), 1)[0]
    line = robust_line(X, y, np.ones(X.shape))
    assert line.slope == pytest.approx(straight.slope, abs=0.005)
    assert abs(plain - straight.slope) > 0.05


def test_other_weights_give_the_line_of_other_weights() -> None:
    """Without outliers the Newton step is the whole way."""
    rng = np.random.default_rng(1)
    y, rounds = 0.3 + 0.1 * X + 0.01 * rng.choice([-1, 1], X.shape), np.full(X.shape, 3.0)
    line = robust_line(X, y, rounds)
    weights = np.array([[2.0, 0.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 0.0]])
    intercepts, slopes = line.at(weights)
    for row, intercept, slope in zip(weights, intercepts, slopes, strict=True):
        expected = np.polyfit(X.ravel(), y.ravel(), 1, w=np.sqrt(np.repeat(row, 4)))
        assert (slope, intercept) == pytest.approx(tuple(expected), abs=1e-10)


def test_the_step_is_close_with_outliers() -> None:
    y = points(2)
    y[0, 0] += 0.05
    line = robust_line(X, y, np.ones(X.shape))
    without = robust_line(X[1:], y[1:], np.ones(X[1:].shape))
    intercept, slope = line.at(np.array([0.0, 1.0, 1.0, 1.0, 1.0]))
    assert intercept == pytest.approx(without.intercept, abs=0.005)
    assert slope == pytest.approx(without.slope, abs=0.001)


def test_a_constant_has_no_slope() -> None:
    line = robust_line(X, np.full(X.shape, 0.2), np.ones(X.shape), sloped=False)
    assert (line.intercept, line.slope) == (pytest.approx(0.2), 0.0)
    intercept, slope = line.at(np.array([1.0, 0.0, 2.0, 1.0, 1.0]))
    assert (float(intercept), float(slope)) == (pytest.approx(0.2), 0.0)


def test_too_little_weight_is_no_line() -> None:
    x, y = np.diag([1.0, 2.0, 3.0, 4.0, 5.0]), np.diag([1.0, 2.1, 2.9, 4.0, 5.1])
    line = robust_line(x, y, np.eye(5))
    assert np.isnan(line.at(np.array([1.0, 0.0, 0.0, 0.0, 0.0]))).all()
