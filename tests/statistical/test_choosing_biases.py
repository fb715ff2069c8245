"""What the recommendation promises where its models are off, over simulated worlds."""

from __future__ import annotations

import numpy as np
import pytest

from specbench.analysis.acceptance import model_for
from specbench.analysis.recommending.clock import LineClock
from specbench.analysis.recommending.speeds import speeds_of
from tests.choice_worlds import Drafter, World

GAMMAS = (1, 2, 3, 4, 6, 8)


def test_a_round_takes_the_step_of_the_conversations_that_need_it() -> None:
    """Slow conversations that accept less do a larger share of the rounds at long gammas."""
    world = World(prompts=1500, slower=2.0, noise=0.05, cell=0.0, model=model_for)
    drafter = Drafter(0.65, spread=0.15)
    (group,) = world.setting("code", {"x": drafter}, GAMMAS, np.random.default_rng(1))
    (speed,), _ = speeds_of([group])
    assert isinstance(speed.clock, LineClock)
    fitted = speed.clock.seconds(GAMMAS, np.ones(speed.clusters.size))
    times = [group.evidence.times[gamma] for gamma in GAMMAS]
    measured = [part.seconds.sum() / part.rounds.sum() for part in times]
    assert fitted == pytest.approx(np.array(measured), rel=0.003)  # one step for all: 0.94 to 1.05
