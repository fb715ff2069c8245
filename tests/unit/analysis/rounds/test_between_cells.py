"""Do the intervals of measured speedups hold the truth where cells differ?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbench.analysis.fitted import GroupFit
from specbench.analysis.rounds.between_cells import led, of_gammas, with_cells
from specbench.analysis.rounds.shared_misfit import shared_misfits
from specbench.theory.intervals import paired_ratio_of_ratios
from specbench.theory.round_lines import RoundLines
from specbench.theory.scatter import Scatter
from tests.choice_worlds import Drafter, World, tasks

GAMMAS = (1, 4, 8)
DRAFTER = Drafter(0.7, spread=0.0)


def measured(group: GroupFit) -> GroupFit:
    """With the intervals that records of its cells have: of conversations alone."""
    plain, points = group.evidence.plain, []
    for point in group.points:
        seconds = group.evidence.times[point.gamma].seconds
        tokens = group.evidence.tokens[point.gamma].emitted
        interval = paired_ratio_of_ratios(plain.seconds, plain.steps, seconds, tokens)
        assert interval is not None
        points.append(replace(point, speedup_ci=interval.ends))
    return replace(group, points=tuple(points))


@pytest.mark.parametrize("prompts", [8, 24])
def test_they_do(prompts: int) -> None:
    world, inside, alone = World(prompts=prompts, cell=0.02), [], []
    for seed in range(20):
        groups = [measured(group) for group in tasks(DRAFTER, GAMMAS, [world] * 4, seed)]
        for group, held in zip(groups, with_cells(groups), strict=True):
            for point, wider in zip(group.points, held.points, strict=True):
                truth = DRAFTER.speedup(point.gamma)
                alone.append(point.speedup_ci[0] <= truth <= point.speedup_ci[1])
                inside.append(wider.speedup_ci[0] <= truth <= wider.speedup_ci[1])
    assert np.mean(inside) >= 0.92
    assert np.mean(alone) <= np.mean(inside) - 0.04


def test_a_gamma_that_is_slow_in_all_tasks_is_no_difference_between_cells() -> None:
    slow, wide, inside = replace(DRAFTER, slow_at=4), [], []
    for seed in range(20):
        groups = [measured(group) for group in tasks(slow, GAMMAS, [World(cell=0.01)] * 4, seed)]
        for held in with_cells(groups):
            assert held.scatter is not None
            wide.append(held.scatter.variance**0.5)
            for point in held.points:
                truth = slow.speedup(point.gamma)
                inside.append(point.speedup_ci[0] <= truth <= point.speedup_ci[1])
    assert np.mean(wide) < 0.015
    assert np.mean(inside) >= 0.92


def test_repeats_are_surer_than_one_cell() -> None:
    (group,) = (measured(group) for group in tasks(DRAFTER, GAMMAS, [World(cell=0.02)], 0))
    often = replace(group, points=tuple(replace(point, num_cells=9) for point in group.points))
    (once,), (nine,) = with_cells([group]), with_cells([often])
    for one, many, own in zip(once.points, nine.points, group.points, strict=True):
        assert own.speedup_ci[0] > many.speedup_ci[0] > one.speedup_ci[0]
    assert once.scatter is not None


def test_a_setting_that_nothing_tells_has_what_the_others_have() -> None:
    groups = [measured(group) for group in tasks(DRAFTER, (2,), [World(cell=0.02)] * 3, 0)]
    blind = replace(groups[0].evidence, plain_cells=groups[0].evidence.plain_cells[:1])
    alone = with_cells([replace(groups[0], evidence=blind)])
    assert alone[0].scatter is None
    assert alone[0].points == groups[0].points
    beside = with_cells([replace(groups[0], evidence=blind), *groups[1:]])
    assert beside[0].scatter is not None
    assert led({}) == {}
    key = groups[0].key.setting
    assert led({key: Scatter(1.0, 2)}) == {key: Scatter(1.0, 2.0)}


def test_of_many_groups_and_two_the_rounds_own_chance_is_taken_off_alike() -> None:
    """What is left about a mean of few groups has fewer degrees of freedom, and less chance."""
    (group,) = tasks(DRAFTER, GAMMAS, [World(prompts=12, noise=0.3)], 0)
    about = [of_gammas(group.evidence, Scatter(0.1, freedom)) for freedom in (0.5, 31 / 32)]
    assert about[0] is not None
    assert about[1] is not None
    assert about[0].variance == about[1].variance < 0.1


def test_slow_moments_take_no_gamma_off_its_line() -> None:
    """They are outliers to a robust line, which all gammas then lie above alike."""
    shown = []
    for seed in range(20):
        generator, slowed = np.random.default_rng(seed), []
        for group in tasks(DRAFTER, GAMMAS, [World(cell=0.005)] * 8, seed):
            times = {}
            for gamma, part in group.evidence.times.items():
                factor = np.where(generator.random(part.names.size) < 0.05, 1.5, 1.0)
                draft_s, verify_s = part.draft_s * factor, part.verify_s * factor
                times[gamma] = replace(part, draft_s=draft_s, verify_s=verify_s)
            slowed.append((group.key, replace(group.evidence, times=times)))
        shown.append(bool(shared_misfits(slowed)))
    assert np.mean(shown) <= 0.2  # held against the robust line nearly always


def test_a_time_that_is_none_tells_nothing() -> None:
    (group,) = tasks(DRAFTER, GAMMAS, [World()], 0)
    none = {
        gamma: replace(part, **dict.fromkeys(("draft_s", "verify_s"), 0.0 * part.draft_s))
        for gamma, part in group.evidence.times.items()
    }
    lines = RoundLines.of({**group.evidence.times, 4: none[4]}, group.evidence.plain)
    assert lines is not None
    assert np.isnan(lines.bend).all()
