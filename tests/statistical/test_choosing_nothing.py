"""Without a gain anywhere nothing is recommended, however little a run tells of its noise."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.choice_worlds import Drafter, World, candidates, costing, recommended, tasks

GAMMAS = (1, 2, 4)
SIMULATIONS = 30
QUIET, NOISY = World(cell=0.003), World(cell=0.04)


@pytest.mark.parametrize(
    ("drafter", "worlds"),
    [
        (Drafter(0.6, spread=0.0), [NOISY, QUIET, QUIET] * 8),
        (Drafter(0.6, spread=0.15), [World(prompts=8, cell=0.01)] * 24),
    ],
    ids=["a machine that is busy now and then", "few prompts"],
)
def test_nothing_is_recommended(drafter: Drafter, worlds: Sequence[World]) -> None:
    even = costing(drafter, GAMMAS, 1.0)
    found = [
        recommended(candidates(tasks(even, GAMMAS, worlds, seed))) for seed in range(SIMULATIONS)
    ]
    assert sum(not any(gammas) for gammas in found) >= 0.95 * SIMULATIONS
