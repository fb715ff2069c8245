from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.theory import closed_form
from specbench.theory.acceptance import (
    BetaGeometric,
    Counts,
    Iid,
    MonotoneHazard,
    PerPosition,
    Sample,
    by_cluster,
    totals,
)
from tests.acceptance_worlds import beta_tokens, counts_of


def rounds_of(alphas: list[float], rounds: float = 1e6) -> Sample:
    """The counts that rounds with these alphas by position have on average."""
    reached = rounds * np.concatenate([[1.0], np.cumprod(alphas)])
    return {len(alphas): counts_of(["a"], [reached[1:]], [reached[:-1]])}


def test_counts_share_positions_between_gammas_and_clusters_by_name() -> None:
    sample = {
        1: counts_of(["b", "a"], [[1], [2]], [[3], [4]]),
        3: counts_of(["b", "c"], [[5, 2, 0], [1, 0, 0]], [[6, 5, 0], [2, 1, 0]]),
    }
    names, accepted, evaluated = by_cluster(sample)
    assert names.tolist() == ["a", "b", "c"]
    assert accepted.tolist() == [[2, 0, 0], [6, 2, 0], [1, 0, 0]]
    assert evaluated.tolist() == [[4, 0, 0], [9, 5, 0], [2, 1, 0]]
    assert [part.tolist() for part in totals(sample)] == [[9, 2], [15, 6]]


def test_counts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SpecbenchError, match="do not fit"):
        Counts(np.array(["a"]), np.ones((1, 2)), np.ones((1, 3)))


@settings(deadline=None)
@given(st.floats(0.05, 0.95), st.integers(2, 8))
def test_all_models_agree_on_one_alpha(alpha: float, gamma: int) -> None:
    sample = rounds_of([alpha] * gamma)
    tokens = closed_form.expected_tokens(alpha, gamma)
    for model in (Iid, BetaGeometric, MonotoneHazard, PerPosition):
        fitted = model.fit(sample)
        assert fitted is not None
        assert fitted.expected_tokens(gamma) == pytest.approx(tokens, rel=1e-4)


@settings(deadline=None)
@given(st.floats(0.2, 0.9), st.floats(0.05, 0.28))
def test_the_beta_geometric_finds_mean_and_spread_again(mean: float, sd: float) -> None:
    weight = mean * (1 - mean) / sd**2 - 1
    assume(weight >= 0.2)
    a, b = mean * weight, (1 - mean) * weight
    # E[alpha^i] / E[alpha^(i-1)] of a Beta, from its moments by the gamma function.
    moments = [
        math.exp(math.lgamma(a + i) - math.lgamma(a) - math.lgamma(a + b + i) + math.lgamma(a + b))
        for i in range(7)
    ]
    alphas = [later / earlier for earlier, later in itertools.pairwise(moments)]
    fitted = BetaGeometric.fit(rounds_of(alphas))
    assert fitted is not None
    assert fitted.mean == pytest.approx(mean, abs=2e-3)
    spread = math.sqrt(fitted.mean * (1 - fitted.mean) * fitted.correlation)
    assert spread == pytest.approx(sd, abs=4e-3)
    assert [fitted.alpha_at(i + 1) for i in range(6)] == pytest.approx(alphas, abs=2e-3)
    assert fitted.expected_tokens(12) == pytest.approx(beta_tokens(mean, sd, 12), rel=5e-3)
    assert fitted.expected_tokens(12) > closed_form.expected_tokens(mean, 12)


def test_the_beta_geometric_needs_two_positions_and_never_falls() -> None:
    assert BetaGeometric.fit(rounds_of([0.7])) is None
    fitted = BetaGeometric.fit(rounds_of([0.8, 0.6, 0.4]))
    assert fitted is not None
    assert fitted.correlation == pytest.approx(0.0, abs=1e-6)
    assert fitted.alpha_at(1) == pytest.approx(fitted.alpha_at(9))


def test_a_monotone_hazard_pools_what_rises_and_holds_its_last_value() -> None:
    sample = {3: counts_of(["a"], [[60, 48, 12]], [[100, 60, 48]])}
    fitted = MonotoneHazard.fit(sample)
    assert fitted is not None
    pooled = 108 / 160  # 0.6 then 0.8 can't stand: together
    assert fitted.alphas == pytest.approx((pooled, pooled, 0.25))
    assert fitted.alpha_at(10) == fitted.alpha_at(3)
    assert fitted.expected_tokens(4) == pytest.approx(
        1 + pooled + pooled**2 + pooled**2 * 0.25 + pooled**2 * 0.25**2
    )


def test_a_position_that_was_not_measured_is_not_known() -> None:
    fitted = PerPosition.fit({3: counts_of(["a"], [[60, 48, 0]], [[100, 60, 0]])})
    assert fitted == PerPosition((0.6, 0.8))
    assert fitted.alpha_at(3) is None
    assert fitted.expected_tokens(2) == pytest.approx(1 + 0.6 + 0.48)
    assert fitted.expected_tokens(3) is None
    # Nothing ever got there, so nothing has to be known.
    assert PerPosition((0.5, 0.0)).expected_tokens(5) == 1.5


def test_nothing_evaluated_is_no_model() -> None:
    for model in (Iid, BetaGeometric, MonotoneHazard, PerPosition):
        assert model.fit({}) is None
        assert model.fit({2: counts_of(["a"], [[0, 0]], [[0, 0]])}) is None


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_all_or_nothing_accepted(alpha: float) -> None:
    for model in (Iid, BetaGeometric, MonotoneHazard, PerPosition):
        fitted = model.fit(rounds_of([alpha] * 3))
        if fitted is not None:
            tokens = fitted.expected_tokens(3)
            assert tokens == pytest.approx(1 + 3 * alpha, abs=1e-4)
