from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.theory import by_depth, closed_form, estimators


def test_exact_numbers() -> None:
    assert by_depth.expected_tokens([0.75, 2 / 3, 1.0]) == pytest.approx(2.75)
    assert by_depth.expected_tokens([0.5, 0.5, 0.0, 1.0]) == 1.75
    assert by_depth.expected_tokens([]) == 1.0
    assert by_depth.surviving_tokens([0.75, 0.25, 0.25, 0.25]) == 2.5


def test_depths_that_were_never_evaluated_add_nothing() -> None:
    assert by_depth.expected_tokens([0.8, None, None]) == pytest.approx(1.8)
    assert by_depth.expected_tokens([None]) == 1.0


@given(st.floats(0, 1), st.integers(0, 12))
def test_one_alpha_at_all_depths_is_the_closed_form(alpha: float, gamma: int) -> None:
    expected = closed_form.expected_tokens(alpha, gamma)
    assert by_depth.expected_tokens([alpha] * gamma) == pytest.approx(expected)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40))
def test_full_drafts_give_their_tau_both_ways(accepted: list[int]) -> None:
    evaluated = [min(count + 1, 5) for count in accepted]
    tau = estimators.tau(accepted)
    alphas = estimators.alpha_by_position(accepted, evaluated, 5)
    survival = estimators.survival_by_position(accepted, 5)
    assert by_depth.expected_tokens(alphas) == pytest.approx(tau)
    assert by_depth.surviving_tokens(survival) == pytest.approx(tau)
    assert all(later <= earlier for earlier, later in itertools.pairwise(survival))


def test_a_chance_out_of_range_is_named() -> None:
    with pytest.raises(SpecbenchError, match=r"1\.5"):
        by_depth.expected_tokens([0.5, 1.5])
