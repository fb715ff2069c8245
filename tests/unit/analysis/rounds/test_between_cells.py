"""Do the intervals of measured speedups hold the truth where cells differ?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbench.analysis.fitted import GroupFit
from specbench.analysis.rounds.between_cells import led, with_cells
from specbench.theory.intervals import paired_ratio_of_ratios
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
