from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.theory.closed_form import (
    best,
    curve,
    expected_tokens,
    extended_speedup,
    largest_paying_cost,
    operations_factor,
    optimal_gamma,
    sensitivity,
    speedup,
)

chances = st.floats(0.0, 1.0)
lengths = st.integers(0, 64)
costs = st.floats(0.0, 5.0)


def exact_tokens(alpha: float, gamma: int) -> float:
    total = Fraction(0)
    for _ in range(gamma + 1):
        total = 1 + Fraction(alpha) * total
    return float(total)


@given(chances, st.integers(0, 40))
def test_tokens_equal_the_exact_sum(alpha: float, gamma: int) -> None:
    assert expected_tokens(alpha, gamma) == pytest.approx(exact_tokens(alpha, gamma), rel=1e-14)


@pytest.mark.parametrize("distance", [1e-3, 1e-8, 1e-12, 2**-53])
@pytest.mark.parametrize("gamma", [512, 513, 5000])
def test_tokens_are_stable_close_to_one_and_across_the_two_forms(
    distance: float, gamma: int
) -> None:
    alpha = 1.0 - distance
    one_minus = Fraction(1) - Fraction(alpha)
    # 1 - (1 - d)^n over d, as a binomial series in exact arithmetic
    count = gamma + 1
    term, total = Fraction(count), Fraction(count)
    for k in range(2, 400):
        term *= -one_minus * (count - k + 1) / k
        total += term
        if abs(term) < Fraction(1, 10**20):
            break
    assert expected_tokens(alpha, gamma) == pytest.approx(float(total), rel=1e-12)


def test_tokens_at_the_ends_are_exact() -> None:
    for gamma in (0, 1, 7, 100, 10_000):
        assert expected_tokens(1.0, gamma) == gamma + 1
        assert expected_tokens(0.0, gamma) == 1


@given(chances, lengths)
def test_tokens_lie_between_one_and_gamma_plus_one(alpha: float, gamma: int) -> None:
    assert 1.0 <= expected_tokens(alpha, gamma) <= gamma + 1


@given(chances, costs, st.integers(0, 40))
def test_optimal_gamma_is_the_first_argmax(alpha: float, c: float, max_gamma: int) -> None:
    speedups = [speedup(alpha, gamma, c) for gamma in range(max_gamma + 1)]
    chosen = optimal_gamma(alpha, c, max_gamma)
    assert speedups[chosen] == pytest.approx(max(speedups), rel=1e-11)
    assert all(earlier < speedups[chosen] for earlier in speedups[:chosen])


@given(chances, costs)
def test_some_gamma_helps_if_and_only_if_alpha_exceeds_cost(alpha: float, c: float) -> None:
    if alpha > c * (1 + 1e-9) + 1e-9:
        assert optimal_gamma(alpha, c, 16) > 0
    elif alpha <= c:
        assert optimal_gamma(alpha, c, 16) == 0


def test_equal_speedups_give_the_shorter_draft() -> None:
    assert optimal_gamma(0.25, 0.25, 16) == 0
    assert optimal_gamma(0.0, 0.0, 16) == 0
    assert optimal_gamma(1.0, 0.0, 16) == 16
    assert optimal_gamma(0.5, 0.25, 16) == 1


def test_curve_starts_without_speculation_and_best_picks_from_it() -> None:
    points = curve(0.8, 0.02, 16)
    assert [point.gamma for point in points] == list(range(17))
    assert (points[0].tokens_per_round, points[0].speedup) == (1.0, 1.0)
    assert points[4].speedup == speedup(0.8, 4, 0.02)
    assert best(points).gamma == optimal_gamma(0.8, 0.02, 16)
    with pytest.raises(SpecbenchError):
        best([])


@given(chances, lengths, costs)
def test_extended_speedup_is_the_closed_form_at_its_defaults(
    alpha: float, gamma: int, c: float
) -> None:
    assert extended_speedup(expected_tokens(alpha, gamma), gamma, c) == pytest.approx(
        speedup(alpha, gamma, c), rel=1e-12
    )


def test_extended_speedup_adds_all_costs() -> None:
    assert extended_speedup(3.0, 4, 0.05, v=1.2, overhead=0.1, d0=0.2) == pytest.approx(3 / 1.7)
    assert extended_speedup(2.0, 2.5, 0.4, v=1.0) == pytest.approx(1.0)


@given(chances, lengths)
def test_operations_grow_with_speculation_unless_every_token_counts(
    alpha: float, gamma: int
) -> None:
    assert operations_factor(alpha, gamma, 0.0) >= 1.0 - 1e-12
    assert operations_factor(alpha, 0, 0.3) == 1.0


@given(st.floats(0.01, 1.0), st.integers(1, 30))
def test_a_draft_breaks_even_at_its_largest_cost(alpha: float, gamma: int) -> None:
    cost = largest_paying_cost(alpha, gamma)
    assert speedup(alpha, gamma, cost) == pytest.approx(1.0)
    assert cost <= largest_paying_cost(alpha) * (1 + 1e-12)  # one token pays longest
    assert largest_paying_cost(alpha) == pytest.approx(alpha)


def test_sensitivity_is_the_choice_at_both_other_alphas() -> None:
    chosen = optimal_gamma(0.8, 0.05, 16)
    less, more = sensitivity(0.8, 0.05, chosen, 16)
    for shift, alpha in ((less, 0.75), (more, 0.85)):
        assert shift.alpha == pytest.approx(alpha)
        assert shift.best.gamma == optimal_gamma(alpha, 0.05, 16)
        assert shift.kept.gamma == chosen
        assert shift.kept.speedup == pytest.approx(speedup(alpha, chosen, 0.05))
        assert shift.kept.speedup <= shift.best.speedup
    assert [shift.alpha for shift in sensitivity(0.99, 0.1, 4, 8)] == [pytest.approx(0.94), 1.0]
    assert [shift.alpha for shift in sensitivity(0.01, 0.1, 0, 8)] == [0.0, pytest.approx(0.06)]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        (lambda: expected_tokens(1.5, 4), "1.5"),
        (lambda: expected_tokens(-0.1, 4), "-0.1"),
        (lambda: expected_tokens(math.nan, 4), "nan"),
        (lambda: expected_tokens(0.5, -1), "-1"),
        (lambda: expected_tokens(0.5, 1.5), "1.5"),  # type: ignore[arg-type]
        (lambda: expected_tokens(0.5, True), "True"),
        (lambda: expected_tokens(0.5, math.inf), "inf"),  # type: ignore[arg-type]
        (lambda: speedup(0.5, 4, -0.2), "-0.2"),
        (lambda: speedup(0.5, 4, math.inf), "inf"),
        (lambda: optimal_gamma(0.5, 0.1, -3), "-3"),
        (lambda: optimal_gamma(0.5, 0.1, 10**9), str(10**9)),
        (lambda: operations_factor(0.5, 4, -1.0), "-1"),
        (lambda: extended_speedup(0.5, 4, 0.1), "0.5"),
        (lambda: largest_paying_cost(0.5, 0), "0"),
        (lambda: sensitivity(1.5, 0.1, 4), "1.5"),
        (lambda: extended_speedup(2.0, 4, 0.1, v=-1.0), "-1"),
        (lambda: extended_speedup(2.0, 0, 0.0, v=0.0), "nothing"),
    ],
)
def test_out_of_range_is_named(call: object, value: str) -> None:
    with pytest.raises(SpecbenchError) as caught:
        call()  # type: ignore[operator]
    assert value in caught.value.message


def test_imports_nothing_heavy() -> None:
    code = (
        "import sys, specbench.theory.closed_form as f; f.optimal_gamma(0.8, 0.02, 16);"
        "print([m for m in ('numpy', 'scipy', 'torch', 'pydantic', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.strip() == "[]"
