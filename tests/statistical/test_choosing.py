"""What the recommendation promises, over simulated worlds whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from specbench.analysis.acceptance import model_for
from specbench.analysis.fit import GroupFit
from specbench.analysis.recommending.candidates import Candidate, field_of
from specbench.analysis.recommending.choice import choose, preferred
from specbench.analysis.recommending.speeds import speeds_of
from tests.choice_worlds import Drafter, World, costing

GAMMAS = (1, 2, 3, 4, 6, 8)
SIMULATIONS = 200
CELLS = 24


def candidates(groups: Sequence[GroupFit]) -> tuple[Candidate, ...]:
    speeds, scatter = speeds_of(groups)
    return field_of(groups, speeds, scatter, max_gamma=16).candidates


@pytest.mark.parametrize(
    ("drafter", "world"),
    [
        (Drafter(0.8, spread=0.0, c=0.1), World()),
        (Drafter(0.55, spread=0.15, c=0.02), World(model=model_for)),
    ],
)
def test_the_gamma_chosen_on_the_fit_is_as_good_as_the_best(drafter: Drafter, world: World) -> None:
    truth = {gamma: drafter.speedup(gamma) for gamma in range(1, 9)}
    good = {gamma for gamma, speedup in truth.items() if speedup >= 0.99 * max(truth.values())}
    generator, fitted, raw = np.random.default_rng(1), 0, 0
    for _ in range(SIMULATIONS):
        (group,) = world.setting("code", {"x": drafter}, GAMMAS, generator)
        fitted += preferred(candidates([group])).gamma in good
        raw += max(group.points, key=lambda point: point.speedup or 0.0).gamma in good
    assert fitted >= 0.95 * SIMULATIONS
    assert raw < 0.9 * SIMULATIONS  # else there would be no need of a fit


@pytest.mark.parametrize(
    ("drafter", "world"),
    [
        (Drafter(0.85, spread=0.0, c=0.03, jump=0.3), World()),
        (Drafter(0.8, spread=0.0, c=0.03, jump=0.15), World()),
    ],
)
def test_a_verify_time_that_jumps_is_seen(drafter: Drafter, world: World) -> None:
    truth = {gamma: drafter.speedup(gamma) for gamma in range(1, 9)}
    good = {gamma for gamma, speedup in truth.items() if speedup >= 0.99 * max(truth.values())}
    generator, fitted, raw = np.random.default_rng(2), 0, 0
    for _ in range(60):
        (group,) = world.setting("code", {"x": drafter}, GAMMAS, generator)
        fitted += preferred(candidates([group])).gamma in good
        raw += max(group.points, key=lambda point: point.speedup or 0.0).gamma in good
    assert fitted >= 0.85 * 60  # on lines alone 0.2 to 0.6
    assert fitted > raw


def recommended(drafter: Drafter, seed: int) -> tuple[list[int], list[int]]:
    """Gammas recommended in a run of CELLS tasks, and if each went by its own interval."""
    generator, world = np.random.default_rng(seed), World()
    groups = [
        group
        for cell in range(CELLS)
        for group in world.setting(f"task {cell}", {"x": drafter}, (1, 2, 4), generator)
    ]
    by_task: dict[str, list[Candidate]] = {}
    for candidate in candidates(groups):
        by_task.setdefault(candidate.setting.task, []).append(candidate)
    alone = [
        [replace(candidate, bound=candidate.ci[0]) for candidate in found if candidate.ci]
        for found in by_task.values()
    ]
    return (
        [choose(found).gamma for found in by_task.values()],
        [choose(found).gamma for found in alone],
    )


def test_a_run_without_any_gain_recommends_nothing() -> None:
    even = costing(Drafter(0.6), (1, 2, 4), 1.0)
    runs = [recommended(even, seed) for seed in range(60)]
    assert sum(not any(together) for together, _ in runs) >= 57
    assert sum(any(alone) for _, alone in runs) >= 15  # each by itself would not do


def test_a_gain_is_found_among_many_cells() -> None:
    runs = [recommended(costing(Drafter(0.6), (1, 2, 4), 1.3), seed) for seed in range(4)]
    assert np.mean([gamma > 0 for together, _ in runs for gamma in together]) >= 0.97
