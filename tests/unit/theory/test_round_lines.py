"""Conversations of different speed on one line: what they have in common with their baseline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbench.theory.cost_model import fit_costs
from specbench.theory.round_lines import RoundLines, RoundTimes, StepTimes
from tests.cost_worlds import exact

COSTS = {gamma: (0.05 + 0.1 * gamma, 0.97 + 0.03 * gamma, 0.04) for gamma in (1, 2, 4, 8)}
NAMES = np.array([f"c{index}" for index in range(8)])
SLOWNESS = np.array([1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.0, 3.0])


def slowed(part: RoundTimes) -> RoundTimes:
    return RoundTimes(
        part.names,
        part.lengths,
        part.draft_s * SLOWNESS,
        part.verify_s * SLOWNESS,
        part.other_s * SLOWNESS,
        part.idle_s,
    )


TIMES = {gamma: slowed(part) for gamma, part in exact(COSTS, clusters=8).items()}
PLAIN = StepTimes(NAMES, 10.0 * SLOWNESS, np.full(8, 10.0))


def test_a_conversation_that_is_slow_in_all_is_no_outlier() -> None:
    """Its rounds and its baseline count alike, so costs in units of T1 are what they are."""
    found = fit_costs(TIMES, PLAIN)
    assert found is not None
    costs = (found.d0, found.c, found.v0, found.v_slope, found.o)
    assert [cost.value for cost in costs] == pytest.approx([0.05, 0.1, 0.97, 0.03, 0.04])
    assert all(cost.ci is None or np.ptp(cost.ci) < 1e-6 for cost in costs)
    assert found.scatter == pytest.approx(0.0, abs=1e-9)


def test_seconds_are_those_of_the_mean_round() -> None:
    lines = RoundLines.of(TIMES, PLAIN)
    assert lines is not None
    mean = TIMES[4].seconds.sum() / TIMES[4].rounds.sum()
    assert lines.round_time(4, TIMES[4].rounds, np.ones(8)) == pytest.approx(mean)
    only_slow = np.array([0.0, 0, 0, 0, 0, 0, 0, 1])
    assert lines.round_time(4, TIMES[4].rounds, only_slow) == pytest.approx(3.0 * sum(COSTS[4]))


def test_without_outliers_it_is_the_ratio_of_sums() -> None:
    uneven = 1.0 + 0.01 * np.array([1.0, -1, 1, -1, 1, -1, 1, -1])
    times = {
        gamma: replace(
            part,
            draft_s=part.draft_s * uneven,
            verify_s=part.verify_s * uneven,
            other_s=part.other_s * uneven,
        )
        for gamma, part in TIMES.items()
    }
    lines = RoundLines.of(times, PLAIN)
    assert lines is not None
    mean = times[4].seconds.sum() / times[4].rounds.sum()
    assert lines.round_time(4, times[4].rounds, np.ones(8)) == pytest.approx(mean, rel=1e-9)


def test_one_wild_round_is_an_outlier() -> None:
    part = TIMES[8]
    pause = part.verify_s.copy()
    pause[2] *= 2.0
    wild = {**TIMES, 8: replace(part, verify_s=pause)}
    found = fit_costs(wild, PLAIN)
    assert found is not None
    assert found.v_slope.value == pytest.approx(0.03, abs=1e-3)


def test_a_cluster_without_a_baseline_of_its_own_has_t1() -> None:
    plain = StepTimes(NAMES[1:3], np.array([4.0, 8.0]), np.array([2.0, 2.0]))
    assert plain.own_step_s(NAMES[:3]) == pytest.approx([3.0, 2.0, 4.0])
    nothing_timed = StepTimes(NAMES[:2], np.array([6.0, 0.0]), np.array([3.0, 0.0]))
    assert nothing_timed.own_step_s(NAMES[:2]) == pytest.approx([2.0, 2.0])


def test_a_step_is_that_of_the_rounds_in_question() -> None:
    """Slow conversations that accept less have a larger share of the rounds at long gammas."""
    shares = {1: 2.0 - SLOWNESS / 3, 2: np.ones(8), 4: SLOWNESS, 8: 2 * SLOWNESS}
    times = {
        gamma: RoundTimes(
            part.names,
            part.lengths * shares[gamma][:, None],
            part.draft_s * shares[gamma],
            part.verify_s * shares[gamma],
            part.other_s * shares[gamma],
            part.idle_s,
        )
        for gamma, part in TIMES.items()
    }
    lines = RoundLines.of(times, PLAIN)
    assert lines is not None
    for gamma, part in times.items():
        mean = part.seconds.sum() / part.rounds.sum()
        assert lines.round_time(gamma, part.rounds, np.ones(8)) == pytest.approx(mean)
