"""Seeded, so shares never change; tests.bench.acceptance_models has all of them at full size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specbench.theory.acceptance import Sample, totals
from specbench.theory.iid_test import iid_test, likelihood_ratio
from tests.acceptance_worlds import (
    beta_prompts,
    beta_rounds,
    counts_of,
    decaying,
    iid,
    independent_rounds,
    rejected,
    replayed_text,
)

GAMMAS = (1, 2, 4, 8)


def textbook(sample: Sample) -> float:
    """The p-value for independent rounds, clusters ignored."""
    accepted, evaluated = totals(sample)
    return float(stats.chi2.sf(likelihood_ratio(accepted, evaluated), accepted.size - 1))


def test_iid_rounds_are_rejected_in_3_to_7_percent() -> None:
    samples = independent_rounds(iid(0.7), 1000, 24, 25, GAMMAS, seed=1)
    assert 0.03 <= rejected(samples) <= 0.07


def test_so_are_gammas_that_replay_the_same_iid_text() -> None:
    samples = list(replayed_text(0.7, 1000, 24, 32, (2, 4, 6), seed=2))
    assert 0.03 <= rejected(samples) <= 0.07
    # It is the clusters that make the difference: as independent rounds they'd be rejected.
    assert np.mean([textbook(sample) <= 0.05 for sample in samples]) > 0.12


@pytest.mark.parametrize(("clusters", "least"), [(6, 0.0), (12, 0.03), (60, 0.03)])
def test_the_level_holds_at_few_and_many_prompts(clusters: int, least: float) -> None:
    """At 6 there are few sign patterns, so it may be lower."""
    samples = replayed_text(0.6, 400, clusters, 32, (2, 4), seed=3)
    assert least <= rejected(samples) <= 0.075


@pytest.mark.parametrize("clusters", [6, 24])
def test_what_is_not_iid_is_rejected(clusters: int) -> None:
    rounds = 1500 // clusters
    for world in (beta_rounds(0.7, 0.2), decaying()):
        assert rejected(independent_rounds(world, 60, clusters, rounds, GAMMAS, seed=4)) > 0.9


def test_prompts_that_differ_are_a_mixture_and_are_rejected() -> None:
    """Deep positions are reached by easy prompts only, so acceptance rises with depth."""
    samples = list(independent_rounds(beta_prompts(0.7, 0.1), 60, 24, 62, GAMMAS, seed=5))
    accepted, evaluated = (sum(totals(sample)[part] for sample in samples) for part in (0, 1))
    alphas = accepted / evaluated
    assert alphas[7] > alphas[3] > alphas[0] + 0.02
    assert rejected(samples) > 0.6


def test_the_statistic_is_the_likelihood_ratio() -> None:
    alphas, rounds = np.array([0.8, 0.5]), np.array([100.0, 80.0])
    accepted = alphas * rounds
    one = accepted.sum() / rounds.sum()
    expected = sum(
        2 * stats.binom.logpmf(round(yes), round(total), alpha)
        - 2 * stats.binom.logpmf(round(yes), round(total), one)
        for yes, total, alpha in zip(accepted, rounds, alphas, strict=True)
    )
    assert likelihood_ratio(accepted, rounds) == pytest.approx(expected)


def clusters_of(count: int, accepted: list[float], evaluated: list[float]) -> Sample:
    names = [f"prompt-{number}" for number in range(count)]
    return {len(accepted): counts_of(names, [accepted] * count, [evaluated] * count)}


def test_where_it_cannot_be_told_there_is_no_p_value() -> None:
    few = iid_test(clusters_of(5, [80, 30], [100, 80]))
    assert (few.p_value, few.clusters, few.positions) == (None, 5, 2)
    assert few.statistic is not None
    assert iid_test(clusters_of(6, [80, 30], [100, 80])).p_value is not None
    for unclear in (
        clusters_of(8, [70], [100]),  # one position
        clusters_of(8, [100, 100], [100, 100]),  # nothing was ever rejected
        clusters_of(8, [0, 0], [100, 0]),
        clusters_of(8, [1, 0], [100, 1]),  # too few at the second to be told apart
        clusters_of(8, [0, 0], [0, 0]),
        {},
    ):
        assert iid_test(unclear).p_value is None


def test_rare_positions_count_as_one() -> None:
    test = iid_test(clusters_of(6, [50, 25, 1, 0, 0], [100, 50, 2, 1, 0]))
    assert test.positions == 3


def test_a_seed_gives_the_same_p_value_again() -> None:
    (sample,) = independent_rounds(iid(0.6), 1, 24, 20, GAMMAS, seed=8)
    assert iid_test(sample).p_value == iid_test(sample).p_value
    assert iid_test(sample, seed=1).p_value == pytest.approx(iid_test(sample).p_value, abs=0.06)
