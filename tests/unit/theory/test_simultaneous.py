from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specbench.theory.simultaneous import Errors, Influence, interval, lower_bounds

NO_CELLS = np.zeros((0, 1))


def means(data: np.ndarray) -> tuple[np.ndarray, Errors]:
    """Means of columns [clusters, k], with the influence of each cluster."""
    values = (data - data.mean(axis=0)) / len(data)
    columns = np.arange(data.shape[1])
    return data.mean(axis=0), Errors([Influence(columns, values)], np.zeros((0, data.shape[1])))


def test_one_mean_has_student_s_error_and_interval() -> None:
    data = np.random.default_rng(1).normal(5.0, 2.0, (12, 1))
    mean, errors = means(data)
    assert errors.standard[0] == pytest.approx(data.std(ddof=1) / np.sqrt(12))
    assert errors.freedom[0] == pytest.approx(11)
    expected = stats.ttest_1samp(data[:, 0], 0.0).confidence_interval(0.95)
    low, high = interval(mean, errors)
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high))


def test_one_bound_is_student_s() -> None:
    data = np.random.default_rng(2).normal(0.0, 1.0, (10, 1))
    _, errors = means(data)
    assert errors.largest_t(0.95, seed=0) == pytest.approx(stats.t.ppf(0.95, 9), rel=0.1)


def test_bounds_of_many_means_hold_together() -> None:
    generator, clear = np.random.default_rng(3), 0
    for _ in range(200):
        data = generator.standard_t(6, (24, 1)) * 0.5 + generator.normal(size=(24, 40))
        clear += (lower_bounds(*means(data), level=0.9) > 0.0).any()
    assert 2 <= clear <= 18  # 5% of 200 is 10; each by itself would clear in nearly all


def test_estimates_that_hang_together_cost_less_than_independent_ones() -> None:
    generator = np.random.default_rng(4)
    one = generator.normal(size=(24, 1))
    _, same = means(np.repeat(one, 50, axis=1))
    _, apart = means(generator.normal(size=(24, 50)))
    alone = means(one)[1].largest_t(0.95, seed=0)
    assert same.largest_t(0.95, seed=0) == pytest.approx(alone)
    assert apart.largest_t(0.95, seed=0) > alone + 1.0


def test_sets_of_clusters_and_cells_add_up() -> None:
    parts = [
        Influence(np.array([0]), np.array([[0.3], [-0.3], [0.0]])),
        Influence(np.array([0]), np.array([[0.1], [-0.1]])),
    ]
    errors = Errors(parts, np.array([[1.0], [-0.5]]), cell_variance=0.04, cell_freedom=5)
    parts_of_it = (1.5 * 0.18, 2 * 0.02, 0.04 * 1.25)
    assert errors.standard[0] ** 2 == pytest.approx(sum(parts_of_it))
    welch = sum(parts_of_it) ** 2 / sum(
        part**2 / freedom for part, freedom in zip(parts_of_it, (2, 1, 5), strict=True)
    )
    assert errors.freedom[0] == pytest.approx(welch)


def test_cells_alone_give_student_s_t_of_their_freedom() -> None:
    errors = Errors([], np.array([[1.0]]), cell_variance=0.01, cell_freedom=3)
    assert errors.largest_t(0.95, seed=0) == pytest.approx(stats.t.ppf(0.95, 3), rel=0.1)


def test_a_single_cluster_tells_nothing_and_two_next_to_nothing() -> None:
    alone = Errors([Influence(np.array([0]), np.array([[np.nan]]))], NO_CELLS)
    assert np.isnan(lower_bounds(np.array([0.5]), alone)).all()
    pair = Errors([Influence(np.array([0]), np.array([[0.1], [-0.1]]))], NO_CELLS)
    assert pair.largest_t(0.975, seed=0) == pytest.approx(stats.t.ppf(0.975, 1), rel=0.3)


def test_bounds_hold_together_with_few_clusters() -> None:
    generator, clear = np.random.default_rng(7), 0
    for _ in range(100):
        data = generator.normal(size=(20, 4))  # twenty means of four each
        means_of = data.mean(axis=1)
        parts = [
            Influence(np.array([place]), (row - row.mean())[:, None] / 4)
            for place, row in enumerate(data)
        ]
        bounds = lower_bounds(means_of, Errors(parts, np.zeros((0, 20))), level=0.9)
        clear += (bounds > 0.0).any()
    assert clear <= 11  # 5% of 100 is 5


def test_many_clusters_are_nearly_normal() -> None:
    data = np.random.default_rng(8).normal(size=(300, 2))
    _, errors = means(data)
    assert errors.largest_t(0.95, seed=0) == pytest.approx(stats.norm.ppf(0.95**0.5), rel=0.06)


def test_an_estimate_that_can_not_be_told_leaves_the_others_alone() -> None:
    data = np.random.default_rng(5).normal(size=(10, 1))
    values = (data - data.mean()) / 10
    unknown = np.full_like(values, np.nan)
    apart = [Influence(np.array([0]), values), Influence(np.array([1]), unknown)]
    for parts in (apart, [Influence(np.array([0, 1]), np.hstack([values, unknown]))]):
        both = Errors(parts, np.zeros((0, 2)))
        bounds = lower_bounds(np.array([1.0, 1.0]), both)
        assert np.isfinite(bounds).tolist() == [True, False]
        (alone,) = lower_bounds(np.array([1.0]), both.only(np.array([True, False])))
        assert bounds[0] == pytest.approx(alone)


def test_the_same_seed_gives_the_same_bounds() -> None:
    estimates, errors = means(np.random.default_rng(6).normal(size=(24, 5)))
    first, again = (lower_bounds(estimates, errors, seed=1) for _ in range(2))
    assert (first == again).all()
    assert (lower_bounds(estimates, errors, seed=2) != first).any()
