from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from specbench.errors import SpecbenchError
from specbench.theory.clusters import cluster_sums, time_blocks
from specbench.theory.intervals import (
    paired_ratio_of_ratios,
    product_of_ratios,
    ratio_interval,
    two_sample_ratio,
)


def test_cluster_t_by_hand() -> None:
    # ratio 23/30, residuals 1/3, -5/3, 4/3: squares add to 14/3
    interval = ratio_interval([8, 6, 9], [10, 10, 10])
    assert interval is not None
    assert interval.estimate == pytest.approx(23 / 30)
    error = math.sqrt(3 / 2 * 14 / 3) / 30
    share = 23 / 30
    reach = 4.302652729696142 * error / (share * (1 - share))  # t with 2 degrees of freedom
    logit = math.log(share / (1 - share))
    assert interval.low == pytest.approx(1 / (1 + math.exp(-(logit - reach))))
    assert interval.high == pytest.approx(1 / (1 + math.exp(-(logit + reach))))
    assert (interval.clusters, interval.method) == (3, "cluster-t")


def test_upper_scales_the_ratio() -> None:
    plain = ratio_interval([8, 6, 9], [10, 10, 10])
    scaled = ratio_interval([32, 24, 36], [10, 10, 10], upper=4.0)
    assert plain is not None
    assert scaled is not None
    assert scaled.ends == pytest.approx([4 * end for end in plain.ends])


def test_unbounded_rate_is_symmetric_in_the_logarithm() -> None:
    interval = ratio_interval([20, 30, 28], [1, 1, 1], upper=math.inf)
    assert interval is not None
    assert interval.low * interval.high == pytest.approx(interval.estimate**2)


@pytest.mark.parametrize("clusters", [2, 3, 12, 30])
def test_all_or_none_accepted_is_no_certainty(clusters: int) -> None:
    evaluated = np.full(clusters, 40)
    every = ratio_interval(evaluated, evaluated)
    none = ratio_interval(np.zeros(clusters), evaluated)
    assert every is not None
    assert none is not None
    assert (every.estimate, every.high, every.method) == (1.0, 1.0, "boundary")
    assert (none.estimate, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(1 - every.low)
    # wider than if all tokens were independent, narrower than if a prompt were one token
    independent = stats.beta.ppf(0.025, 40 * clusters, 1)
    one_each = stats.beta.ppf(0.025, clusters, 1)
    assert one_each < every.low < independent


def test_equal_clusters_inside_the_range_are_no_certainty_either() -> None:
    interval = ratio_interval([3, 3, 3], [4, 4, 4])
    assert interval is not None
    assert interval.low < 0.6 < 0.75 < 0.9 < interval.high


def test_what_can_not_be_said_is_none() -> None:
    assert ratio_interval([3], [4]) is None
    assert ratio_interval([], []) is None
    assert ratio_interval([3, 0], [4, 0]) is None  # a cluster without trials is none
    assert ratio_interval([0, 0], [1, 2], upper=math.inf) is None
    assert paired_ratio_of_ratios([1], [1], [1], [1]) is None
    assert paired_ratio_of_ratios([1, 1], [1, 1], [1, 1], [0, 0]) is None
    assert two_sample_ratio([([1.0] * 7, [1] * 7)], [([1.0] * 9, [1] * 9)]) is None
    assert product_of_ratios([([1.0], [1])]) is None
    assert product_of_ratios([([1, 2], [1, 2]), ([0, 0], [1, 2])]) is None


def test_bad_input_is_named() -> None:
    with pytest.raises(SpecbenchError, match="differ in length"):
        ratio_interval([1, 2], [3])
    with pytest.raises(SpecbenchError, match="finite"):
        ratio_interval([1, math.nan], [3, 3])
    with pytest.raises(SpecbenchError, match="level"):
        ratio_interval([1, 2], [3, 3], level=95)


def test_the_bootstrap_is_seeded_and_agrees_with_t() -> None:
    generator = np.random.default_rng(3)
    evaluated = generator.integers(30, 60, 30)
    accepted = generator.binomial(evaluated, generator.beta(14, 6, 30))
    one, same, other = (ratio_interval(accepted, evaluated, seed=seed) for seed in (0, 0, 1))
    assert one is not None
    assert one == same
    assert one != other
    assert one.method == "bootstrap"
    fewer = ratio_interval(accepted[:23], evaluated[:23])
    assert fewer is not None
    assert fewer.method == "cluster-t"
    assert one.high - one.low == pytest.approx(fewer.high - fewer.low, rel=0.4)


def test_a_higher_level_is_wider() -> None:
    for count in (5, 30):
        accepted, evaluated = np.arange(count) % 4 + 6, np.full(count, 10)
        narrow = ratio_interval(accepted, evaluated, level=0.8)
        wide = ratio_interval(accepted, evaluated, level=0.99)
        assert narrow is not None
        assert wide is not None
        assert wide.low < narrow.low < narrow.estimate < narrow.high < wide.high


def test_pairing_removes_what_both_share() -> None:
    hardness = np.array([1.0, 2.0, 4.0, 8.0])
    tokens = np.full(4, 10.0)
    interval = paired_ratio_of_ratios(hardness, tokens, hardness / 2, tokens)
    assert interval is not None
    assert interval.estimate == pytest.approx(2.0)
    assert interval.ends == pytest.approx((2.0, 2.0))


def test_product_of_ratios_by_hand() -> None:
    # 6/4 with shares 1/3, 2/3 over 1/2, 1/2; 10/5 with equal shares, so without any variance
    interval = product_of_ratios([([2, 4], [2, 2]), ([2, 4, 4], [1, 2, 2])])
    assert interval is not None
    assert interval.estimate == pytest.approx(3.0)
    reach = 12.706204736432095 * math.sqrt(2 * 2 * (1 / 6) ** 2)  # t with 1 degree of freedom
    assert interval.ends == pytest.approx((3 * math.exp(-reach), 3 * math.exp(reach)))
    assert (interval.clusters, interval.method) == (2, "independent-t")
    exact = product_of_ratios([([2, 4], [1, 2])])
    assert exact is not None
    assert exact.ends == (2.0, 2.0)


def test_two_samples_divide() -> None:
    times = np.array([2.0, 2.2, 1.8, 2.1, 1.9, 2.0, 2.3, 1.7])
    interval = two_sample_ratio([(times, np.ones(8))], [(np.ones(9), np.full(9, 2))])
    assert interval is not None
    assert interval.estimate == pytest.approx(4.0)
    alone = product_of_ratios([(times, np.ones(8))])
    assert alone is not None
    assert interval.high / interval.estimate == pytest.approx(alone.high / alone.estimate)


def test_strata_that_differ_are_no_chance() -> None:
    """Seconds per drafted token fall with gamma where each draft has a fixed cost."""
    generator, inside, widths = np.random.default_rng(0), 0, []
    truth = sum(0.1 + 0.02 * gamma for gamma in (1, 2, 4, 8)) / 15
    for _ in range(300):
        plain = [(generator.normal(1.0, 0.01, 8), np.ones(8))]
        strata = [
            (generator.normal(0.1 + 0.02 * gamma, 0.003, 8), np.full(8, gamma))
            for gamma in (1, 2, 4, 8)
        ]
        interval = two_sample_ratio(strata, plain)
        assert interval is not None
        inside += interval.low <= truth <= interval.high
        widths.append(interval.high / interval.low - 1.0)
    assert 0.92 <= inside / 300 <= 0.98
    assert np.mean(widths) < 0.03  # taken for one sample: 0.3, and all of them inside


def test_cluster_sums_and_time_blocks() -> None:
    names, (tokens,) = cluster_sums(["b", "a", "b"], [1, 2, 3])
    assert names.tolist() == ["a", "b"]
    assert tokens.tolist() == [2.0, 4.0]
    seconds, counts = time_blocks(np.arange(10), np.ones(10), blocks=4)
    assert counts.tolist() == [2.0, 3.0, 2.0, 3.0]
    assert seconds.tolist() == [1.0, 9.0, 11.0, 24.0]
    assert [array.size for array in time_blocks([1.0, 2.0], [1, 1])] == [2, 2]
    assert [array.size for array in time_blocks([], [])] == [0, 0]
