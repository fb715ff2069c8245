from __future__ import annotations

import math

import numpy as np
import pytest

from specbench.theory import quantiles
from specbench.theory.differences import Term, correlation, simultaneous, weighted_sum
from specbench.theory.intervals import ratio_interval


def test_independent_terms_add_in_squares_on_the_side_that_matters() -> None:
    total, (low, high) = weighted_sum([Term(1, 5.0, (2.0, 6.0)), Term(-1, 1.0, (0.5, 5.0))])
    assert total == 4.0
    assert low == pytest.approx(4 - math.hypot(3, 4))
    assert high == pytest.approx(4 + math.hypot(1, 0.5))


def test_a_full_correlation_takes_a_common_error_out() -> None:
    terms = [Term(1, 5.0, (4.0, 6.0)), Term(-1, 3.0, (2.0, 4.0))]
    assert weighted_sum(terms, 1.0)[1] == pytest.approx((2.0, 2.0))
    assert weighted_sum(terms, -1.0)[1] == pytest.approx((0.0, 4.0))


def test_weights_scale_distances() -> None:
    assert weighted_sum([Term(2, 1.0, (0.5, 2.0))]) == (2.0, (1.0, 4.0))
    assert weighted_sum([Term(-2, 1.0, (0.5, 2.0))]) == (-2.0, (-4.0, -1.0))


def test_correlation_is_that_of_the_residuals() -> None:
    top, bottom = np.array([1.0, 3.0, 2.0]), np.array([4.0, 4.0, 4.0])
    assert correlation(top, bottom, top, bottom) == pytest.approx(1.0)
    assert correlation(top, bottom, 4.0 - top, bottom) == pytest.approx(-1.0)
    assert correlation(top, bottom, np.zeros(3), bottom) == 0.0


def test_simultaneous_intervals_are_wider_by_the_normal_factor() -> None:
    assert simultaneous(1.0, (0.0, 3.0), 1) == pytest.approx((0.0, 3.0))
    low, high = simultaneous(1.0, (0.0, 3.0), 10)
    assert (1.0 - low, high - 1.0) == pytest.approx((1.432, 2.864), abs=0.01)


def test_few_clusters_widen_by_more() -> None:
    low, high = simultaneous(1.0, (0.0, 3.0), 10, clusters=4)
    factor = float(quantiles.student_t(1 - 0.0025, 3) / quantiles.student_t(0.975, 3))
    assert (low, high) == pytest.approx((1.0 - factor, 1.0 + 2.0 * factor))
    assert simultaneous(1.0, (0.0, 3.0), 1, clusters=4) == pytest.approx((0.0, 3.0))


@pytest.mark.parametrize("clusters", [4, 8, 24])
def test_of_many_comparisons_that_do_not_differ_few_runs_name_one(clusters: int) -> None:
    """24 comparisons without any difference: one of them is found in at most 7% of runs."""
    values = np.random.default_rng(0).normal(size=(4000, 24, clusters))
    means = values.mean(axis=2)
    errors = values.std(axis=2, ddof=1) / math.sqrt(clusters)
    reach = float(quantiles.student_t(0.975, clusters - 1))
    wider = simultaneous(0.0, (-reach, reach), 24, clusters)[1]
    wrong = (np.abs(means) > wider * errors).any(axis=1)
    assert 0.03 <= wrong.mean() <= 0.07


def test_logs_of_what_is_not_positive_are_no_terms() -> None:
    assert Term.log(1.0, 0.5, (0.0, 1.0)) is None
    term = Term.log(-1.0, 2.0, (1.0, 4.0))
    assert term is not None
    assert term.ends == pytest.approx((0.0, math.log(4.0)))


@pytest.mark.parametrize("shared", [0.0, 0.1])
def test_intervals_of_a_difference_of_alphas_cover_the_truth(shared: float) -> None:
    """Alphas of the same conversations, with something that they have in common or without."""
    rng = np.random.default_rng(1)
    covered = narrow = 0
    worlds = 300
    for _ in range(worlds):
        common = shared * rng.normal(size=12)
        trials = np.full(12, 100.0)
        left, right = (
            rng.binomial(100, np.clip(mean + common, 0.02, 0.98)).astype(float)
            for mean in (0.7, 0.6)
        )
        ends = [ratio_interval(top, trials) for top in (left, right)]
        assert ends[0] is not None
        assert ends[1] is not None
        terms = [Term(1, ends[0].estimate, ends[0].ends), Term(-1, ends[1].estimate, ends[1].ends)]
        paired = weighted_sum(terms, correlation(left, trials, right, trials))[1]
        apart = weighted_sum(terms)[1]
        covered += paired[0] <= 0.1 <= paired[1]
        narrow += paired[1] - paired[0] < apart[1] - apart[0]
    assert 0.92 <= covered / worlds <= 0.99
    if shared:
        assert narrow / worlds > 0.9
