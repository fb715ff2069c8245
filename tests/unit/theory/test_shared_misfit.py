"""What many groups' gammas have in common beside their lines: shown where it is, else not."""

from __future__ import annotations

import math

import numpy as np
import pytest

from specbench.theory.clusters import Numbers
from specbench.theory.round_lines import RoundLines, RoundTimes
from specbench.theory.scatter import Scatter
from specbench.theory.shared_misfit import bent, shared_by

CELL = 0.02


def misfits(
    generator: np.random.Generator, groups: int, lengths: tuple[int, ...], bump: float = 0.0
) -> Numbers:
    """[groups, gammas] what straight lines leave of log times, whose second is slow in truth."""
    times = CELL * generator.normal(size=(groups, len(lengths)))
    times[:, 1] += bump
    design = np.column_stack([np.ones(len(lengths)), lengths])
    return times - times @ (design @ np.linalg.pinv(design))


@pytest.mark.parametrize(
    ("groups", "lengths"), [(2, (1, 2, 4)), (32, (1, 2, 4)), (4, (1, 2, 4, 8))]
)
def test_nothing_in_common_is_found_as_often_as_it_says(
    groups: int, lengths: tuple[int, ...]
) -> None:
    generator = np.random.default_rng(0)
    drawn = [misfits(generator, groups, lengths) for _ in range(2000)]
    shown = [shared_by(own, own, 0.05) for own in drawn]
    assert 0.035 < np.mean([told is not None for told in shown]) < 0.065


def test_a_slow_gamma_is_found_and_cells_differ_by_what_they_do() -> None:
    generator = np.random.default_rng(0)
    drawn = [misfits(generator, 16, (1, 2, 4), 0.06) for _ in range(200)]
    told = [shared_by(own, own, 0.05) for own in drawn]
    assert all(one is not None for one in told)
    known = [scatter for one in told if one is not None for scatter in one.scatters]
    assert np.mean([scatter.variance for scatter in known]) == pytest.approx(CELL**2, rel=0.05)
    assert {scatter.freedom for scatter in known} == {15 / 16}


def test_of_one_group_two_gammas_or_unknown_times_nothing_is_told() -> None:
    alike = np.array([[-0.1, 0.1, -0.1]] * 4) + np.array([[0.0], [0.001], [0.002], [0.001]])
    assert shared_by(alike, alike, 0.05) is not None
    assert shared_by(alike[:1], alike[:1], 0.05) is None
    assert shared_by(alike[:, :2], alike[:, :2], 0.05) is None
    alike[1, 2] = np.nan
    assert shared_by(alike, alike, 0.05) is None


def test_a_line_bent_as_all_are_goes_through_times_that_are() -> None:
    """And a cell that is slow moves it less than its own time."""
    shape, gammas = {1: -0.05, 2: 0.07, 3: 0.0, 6: -0.02}, (1, 2, 3, 6)
    times = {g: (1.0 + 0.1 * g) * math.exp(shape[g]) for g in gammas}
    lines = RoundLines.of({g: rounds(g, times[g] * (1.1 if g == 3 else 1.0)) for g in gammas})
    assert lines is not None
    exact = RoundLines.of({g: rounds(g, times[g]) for g in gammas})
    assert exact is not None
    misfit = np.array(list(shape.values()))
    smooth = bent(exact, misfit, 16, Scatter(0.0, 1.0))
    assert smooth.smoother @ exact.time == pytest.approx(exact.time)
    assert smooth.moves @ exact.time == pytest.approx(exact.time)
    moved = bent(lines, misfit, 16, Scatter(0.0, 1.0))
    assert 1.0 < (moved.smoother @ lines.time)[2] / times[3] < 1.05
    alone = bent(exact, misfit, 1, Scatter(0.0, 1.0))  # nobody else tells the bend
    assert alone.moves == pytest.approx(np.eye(4))


def rounds(gamma: int, seconds: float) -> RoundTimes:
    """Ten rounds of one conversation."""
    lengths, none = np.zeros((1, gamma + 1)), np.zeros(1)
    lengths[0, -1] = 10.0
    return RoundTimes(np.array(["a"]), lengths, none, np.array([10.0 * seconds]), none, none)
