from __future__ import annotations

import math

import numpy as np
import pytest

from specbench.theory import closed_form, estimators

# gamma 4: all accepted, two accepted, none, one of a draft of one, nothing drafted
DRAFTED = [4, 4, 4, 1, 0]
EVALUATED = [4, 3, 1, 1, 0]
ACCEPTED = [4, 2, 0, 1, 0]


def test_counts_by_hand() -> None:
    assert estimators.alpha(ACCEPTED, EVALUATED) == 7 / 9
    assert estimators.draft_acceptance_rate(ACCEPTED, DRAFTED) == 7 / 13
    assert estimators.tau(ACCEPTED) == 1 + 7 / 5
    assert estimators.alpha_by_position(ACCEPTED, EVALUATED, 5) == [3 / 4, 1.0, 1 / 2, 1.0, None]
    assert estimators.alpha_by_position(ACCEPTED, EVALUATED) == [3 / 4, 1.0, 1 / 2, 1.0]
    assert estimators.survival_by_position(ACCEPTED, 4) == [3 / 5, 2 / 5, 1 / 5, 1 / 5]
    vllm = estimators.survival_by_position(ACCEPTED, 4, DRAFTED)
    assert vllm == [3 / 4, 2 / 4, 1 / 4, 1 / 4]


def test_tau_is_one_plus_the_survival() -> None:
    survival = estimators.survival_by_position(ACCEPTED, 4)
    assert estimators.tau(ACCEPTED) == pytest.approx(1 + sum(survival))


def test_overlap_skips_what_was_not_measured() -> None:
    overlap = [[0.5, 1.0], None, [], np.array([0.25, math.nan], dtype=np.float32)]
    assert estimators.alpha_overlap(overlap) == pytest.approx(1.75 / 3)
    assert estimators.alpha_overlap([None, [math.nan]]) is None


def test_nothing_counted_is_none() -> None:
    assert estimators.alpha([], []) is None
    assert estimators.alpha([0, 0], [0, 0]) is None
    assert estimators.tau([]) is None
    assert estimators.draft_acceptance_rate([0], [0]) is None
    assert estimators.survival_by_position([], 3) == []
    assert estimators.alpha_by_position([], [], 2) == [None, None]


def test_recovers_alpha_where_accepted_over_drafted_does_not() -> None:
    alpha, gamma, rounds = 0.8, 5, 200_000
    draws = np.random.default_rng(0).random((rounds, gamma)) < alpha
    accepted = np.cumprod(draws, axis=1).sum(axis=1)
    evaluated = np.minimum(accepted + 1, gamma)
    drafted = np.full(rounds, gamma)
    assert estimators.alpha(accepted, evaluated) == pytest.approx(0.8, abs=0.005)
    assert estimators.draft_acceptance_rate(accepted, drafted) == pytest.approx(0.54, abs=0.005)
    expected = closed_form.expected_tokens(alpha, gamma)
    assert estimators.tau(accepted) == pytest.approx(expected, abs=0.02)
    by_position = estimators.alpha_by_position(accepted, evaluated, gamma)
    assert by_position == pytest.approx([0.8] * gamma, abs=0.01)
