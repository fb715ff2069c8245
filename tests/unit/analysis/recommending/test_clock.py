from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbench.analysis.pooling import GroupKey, Setting
from specbench.analysis.recommending.clock import (
    MeasuredClock,
    cut,
    fits,
    line_clock,
    neighbours,
    shares_at,
    sums_of,
)
from specbench.analysis.recommending.clusters import clusters_of, conversations_by_task
from specbench.analysis.rounds.between_cells import plain_scatter
from specbench.analysis.rounds.evidence import Evidence, TokenSums
from specbench.analysis.rounds.model import capped
from specbench.theory.round_lines import RoundLines, RoundTimes, StepTimes
from specbench.theory.scatter import Scatter, pooled
from specbench.theory.step import step_in

KEY = GroupKey(Setting("code", 0.0, 1, "simulated", "native", 0, 1.0), "ngram")
NAMES = np.array(["a", "b", "c"])
ROUNDS = np.array([10.0, 20.0, 30.0])
IDLE = np.array([5.0, 5.0, 5.0])


def evidence(costs: dict[int, float], idle_s: float = 0.0) -> Evidence:
    """Rounds of these seconds each, in three conversations alike; some draft nothing."""
    times, tokens = {}, {}
    for gamma, cost in costs.items():
        lengths = np.zeros((3, gamma + 1))
        lengths[:, -1] = ROUNDS
        lengths[:, 0] += IDLE if idle_s else 0.0
        nothing = np.zeros(3)
        times[gamma] = RoundTimes(NAMES, lengths, nothing, cost * ROUNDS, nothing, idle_s * IDLE)
        tokens[gamma] = TokenSums(NAMES, lengths, 2 * ROUNDS)
    plain = StepTimes(NAMES, 1.0 * ROUNDS, ROUNDS)
    return Evidence({}, tokens, times, plain, np.ones(2), 60.0, True)


def clocks(given: Evidence):
    clusters = clusters_of(KEY, given, conversations_by_task([(KEY, given)])["code"])
    sums = sums_of(KEY, given, clusters)
    line = line_clock(KEY, given, clusters, sums)
    assert line is not None
    return line, MeasuredClock(sums), clusters


def test_both_clocks_tell_times_that_are_on_a_line() -> None:
    line, measured, clusters = clocks(evidence({1: 1.1, 2: 1.2, 4: 1.4}))
    for weights in (np.ones(3), np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]])):
        assert clusters.size == 3
        for clock in (line, measured):
            seconds = clock.seconds((1, 2, 3, 4), weights)
            assert seconds == pytest.approx(np.broadcast_to([1.1, 1.2, 1.3, 1.4], seconds.shape))


def test_rounds_that_drafted_nothing_have_their_own_time() -> None:
    line, measured, _ = clocks(evidence({1: 1.1, 2: 1.2, 4: 1.4}, idle_s=0.9))
    mixed = [(60 * cost + 15 * 0.9) / 75 for cost in (1.1, 1.2, 1.4)]
    assert line.seconds((1, 2, 4), np.ones(3)) == pytest.approx(np.array(mixed))
    assert measured.seconds((1, 2, 4), np.ones(3)) == pytest.approx(np.array(mixed))


def test_a_gamma_that_never_drafted_takes_what_idle_rounds_take() -> None:
    given = evidence({1: 1.1, 2: 1.2, 4: 1.4})
    silent = given.times[2]
    lengths = np.zeros_like(silent.lengths)
    lengths[:, 0] = ROUNDS
    given.times[2] = replace(silent, lengths=lengths, verify_s=0 * ROUNDS, idle_s=0.9 * ROUNDS)
    line, measured, _ = clocks(given)
    for clock in (line, measured):
        assert clock.seconds((1, 2, 4), np.ones(3)) == pytest.approx(np.array([1.1, 0.9, 1.4]))
        assert clock.pulls(2) == {2: 1.0}


def test_a_jump_is_on_no_line() -> None:
    bent = evidence({1: 1.0, 2: 1.0, 3: 1.0, 4: 1.0, 8: 2.0})
    line, measured, _ = clocks(bent)
    plain = Scatter(0.01**2, 8)
    assert not fits(line.lines.misfit, plain)
    assert fits(line.lines.misfit, None)  # nothing to hold it against
    assert fits(line.lines.misfit, Scatter(0.3**2, 8))  # cells differ as much
    assert measured.seconds((3, 6, 8), np.ones(3)) == pytest.approx(np.array([1.0, 1.5, 2.0]))


STEPPED = {1: 1.05, 2: 1.1, 3: 1.151, 4: 1.2, 6: 1.45, 8: 1.551}


def stepped(costs: dict[int, float]):
    _, measured, _ = clocks(evidence(costs))
    lines = RoundLines.of(evidence(costs).times)
    assert lines is not None
    return replace(measured, smoothing=step_in(lines))


def test_times_with_a_step_are_smoothed_by_it() -> None:
    clock = stepped(STEPPED)
    assert clock.smoothing is not None
    assert clock.smoothing.above.tolist() == [False] * 4 + [True] * 2
    seconds = clock.seconds((1, 2, 3, 4, 5, 6, 7, 8), np.array([np.ones(3), [0.0, 1.0, 2.0]]))
    assert seconds.shape == (2, 8)
    known = [1.05, 1.1, 1.15, 1.2, 1.45, 1.5, 1.55]
    assert np.delete(seconds, 4, axis=1) == pytest.approx(np.array([known] * 2), abs=1e-3)
    assert np.isnan(seconds[:, 4]).all()  # the step is before 5 or behind it
    backwards = stepped(dict(reversed(STEPPED.items())))
    assert backwards.seconds((4, 7), np.ones(3)) == pytest.approx(seconds[0, [3, 6]])


@pytest.mark.parametrize("own", [1, 3, 8])
def test_a_single_gamma_off_the_line_keeps_its_own_time(own: int) -> None:
    """The others are on their line without it; what lies between it and them is not known."""
    line = {1: 1.071, 2: 1.14, 3: 1.2101, 4: 1.28, 6: 1.4201, 8: 1.56}
    clock = stepped({**line, own: 1.15 * line[own]})
    assert clock.smoothing is not None
    assert np.array(list(clock.sums))[clock.smoothing.above].tolist() == [own]
    found = dict(zip(range(1, 9), clock.seconds(range(1, 9), np.ones(3)).tolist(), strict=True))
    assert found.pop(own) == pytest.approx(1.15 * line[own])
    for gamma in line.keys() - {own}:
        assert found.pop(gamma) == pytest.approx(1.0 + 0.07 * gamma, rel=1e-3)
    lost = {1: [], 3: [], 8: [7]}[own]
    assert [gamma for gamma, seconds in found.items() if np.isnan(seconds)] == lost


def test_a_cell_moves_smoothed_times_by_its_pull() -> None:
    clock = stepped(STEPPED)
    slower = replace(clock, sums=clocks(evidence({**STEPPED, 6: 1.45 * 1.001}))[1].sums)
    for gamma in (1, 4, 6, 7, 8):
        change = np.log(
            slower.seconds((gamma,), np.ones(3)) / clock.seconds((gamma,), np.ones(3))
        ).item()
        assert sum(clock.pulls(gamma).values()) == pytest.approx(1.0)
        assert change == pytest.approx(0.001 * clock.pulls(gamma)[6], rel=0.01, abs=1e-7)


def test_no_step_is_seen_where_there_is_none() -> None:
    generator, seen = np.random.default_rng(0), 0
    for _ in range(400):
        off = np.exp(0.02 * generator.normal(size=6))
        costs = {g: (1.0 + 0.07 * g) * by for g, by in zip((1, 2, 3, 4, 6, 8), off, strict=True)}
        lines = RoundLines.of(evidence(costs).times)
        assert lines is not None
        seen += step_in(lines) is not None
    assert seen <= 0.07 * 400
    exact = RoundLines.of(evidence({g: 1.0 + 0.07 * g for g in (1, 2, 3, 4, 6)}).times)
    four = RoundLines.of(evidence({1: 1.0, 2: 1.1, 3: 1.7, 4: 1.8}).times)
    assert exact is not None
    assert four is not None
    assert step_in(exact) is None
    assert step_in(four) is None  # nothing left to tell how much cells differ


def test_pulls_add_up_to_one_and_follow_the_times() -> None:
    given = evidence({1: 1.1, 2: 1.2, 4: 1.4})
    line, measured, _ = clocks(given)
    for clock in (line, measured):
        for gamma in (1, 2, 3, 4):
            assert sum(clock.pulls(gamma).values()) == pytest.approx(1.0)
    # a cell that took 1% longer moves the line's answer by its pull, to first order
    slower = evidence({1: 1.1, 2: 1.2, 4: 1.4 * 1.01})
    for gamma in (2, 3, 4):
        change = np.log(
            clocks(slower)[0].seconds((gamma,), np.ones(3))[0]
            / line.seconds((gamma,), np.ones(3))[0]
        )
        assert change == pytest.approx(0.01 * line.pulls(gamma)[4], rel=0.05)


def test_how_much_cells_differ_is_pooled() -> None:
    cells = (np.exp([0.01, -0.01]), np.exp([0.02, -0.02]), np.ones(1))
    plain = pooled(map(plain_scatter, cells))
    assert plain is not None
    assert plain.freedom == 2
    assert plain.variance == pytest.approx((2 * 0.01**2 + 2 * 0.02**2) / 2)
    assert plain_scatter(np.ones(1)) is None
    line, _, _ = clocks(evidence({1: 1.0, 2: 1.3, 4: 1.4}))
    together = pooled([plain, line.scatter])
    assert together is not None
    squares = plain.variance * 2 + float((line.lines.misfit**2).sum())
    assert (together.variance, together.freedom) == (pytest.approx(squares / 3), 3)
    assert pooled([None]) is None
    smoothed = stepped(STEPPED)
    assert smoothed.scatter is not None
    assert smoothed.scatter.freedom == 3
    both = pooled([plain, smoothed.scatter])
    assert both is not None
    squares = plain.variance * 2 + smoothed.scatter.variance * 3
    assert (both.variance, both.freedom) == (pytest.approx(squares / 5), 5)
    assert clocks(evidence({1: 1.0, 2: 1.3}))[0].scatter is None  # two always lie on a line


def test_lengths_between_gammas_and_beyond() -> None:
    lengths = np.array([[1.0, 2.0, 3.0, 4.0]])
    for gamma in (1, 2, 3, 5):
        assert cut(lengths, gamma)[0].tolist() == list(capped((1.0, 2.0, 3.0, 4.0), gamma))
    shares = shares_at(
        2, {1: np.array([[5.0, 5.0]]), 3: np.array([[0.0, 0.0, 0.0, 9.0]])}, np.ones(1)
    )
    assert shares == pytest.approx(np.array([0.25, 0.0, 0.75]))
    assert neighbours(3, [1, 4]) == pytest.approx({1: 1 / 3, 4: 2 / 3})


def test_a_gamma_has_the_step_of_the_conversations_that_do_its_rounds() -> None:
    steps, given = np.array([1.0, 2.0, 0.5]), evidence({1: 1.1, 2: 1.2, 4: 1.4})
    rounds = {1: [30.0, 10.0, 30.0], 2: [20.0, 20.0, 20.0], 4: [10.0, 40.0, 10.0]}
    for gamma, cost in ((1, 1.1), (2, 1.2), (4, 1.4)):
        lengths = np.zeros((3, gamma + 1))
        lengths[:, -1] = rounds[gamma]
        seconds = cost * steps * lengths[:, -1]
        given.times[gamma] = replace(given.times[gamma], lengths=lengths, verify_s=seconds)
    line, measured, _ = clocks(replace(given, plain=StepTimes(NAMES, steps * ROUNDS, ROUNDS)))
    for weights in (np.ones(3), np.array([0.0, 1.0, 2.0])):
        told = measured.seconds((1, 2, 4), weights)
        assert line.seconds((1, 2, 4), weights) == pytest.approx(told)
    ones = np.ones(3)
    assert line.seconds((3,), ones) == pytest.approx(1.3 * (70 + 95) / (60 + 60))
