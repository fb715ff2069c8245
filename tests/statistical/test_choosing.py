"""What the recommendation promises, over simulated worlds whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbench.analysis.acceptance.verdict import model_for
from specbench.analysis.recommending.choice import preferred
from tests.choice_worlds import Drafter, World, candidates, costing, recommended, tasks

GAMMAS = (1, 2, 3, 4, 6, 8)
FEW_GAMMAS = (1, 2, 4)
SIMULATIONS = 200
CELLS = 24


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


def test_a_run_without_any_gain_recommends_nothing() -> None:
    even = costing(Drafter(0.6), FEW_GAMMAS, 1.0)
    none = alone = 0
    for seed in range(60):
        found = candidates(tasks(even, FEW_GAMMAS, [World()] * CELLS, seed))
        none += not any(recommended(found))
        alone += any(recommended([replace(one, bound=one.ci[0]) for one in found if one.ci]))
    assert none >= 57
    assert alone >= 15  # each by itself would not do


def test_a_gain_is_found_among_many_cells() -> None:
    worth = costing(Drafter(0.6), FEW_GAMMAS, 1.3)
    runs = [candidates(tasks(worth, FEW_GAMMAS, [World()] * CELLS, seed)) for seed in range(4)]
    assert np.mean([gamma > 0 for found in runs for gamma in recommended(found)]) >= 0.97
