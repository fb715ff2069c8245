"""Do the intervals of directly measured costs hold the truth where cells differ?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from specbench.analysis.rounds.costs import Costs
from specbench.analysis.rounds.evidence import evidence_of
from specbench.theory.round_lines import RoundLines, between_cells
from specbench.theory.scatter import Scatter
from tests.cost_worlds import STEP_S, World

GAMMAS = (1, 2, 3, 4, 6, 8)
ROUNDS = 20
WORLD = World(d0=0.0)


def tables(gamma: int, context: np.ndarray, cell: float, generator: np.random.Generator) -> Any:
    """Rounds and requests of a cell: each conversation does ROUNDS rounds."""
    rounds, owners = ROUNDS * context.size, np.repeat(np.arange(context.size), ROUNDS)
    factor = STEP_S * context[owners] * cell * generator.lognormal(0.0, WORLD.noise, rounds)
    verify = WORLD.v0 + WORLD.v_slope * gamma if gamma else 1.0
    names = [f"c{number}" for number in range(context.size)]
    whole = {"position": np.arange(rounds), "slot": np.zeros(rounds, dtype=int)}
    counts = {"num_drafted": gamma, "draft_levels": gamma, "num_evaluated": gamma}
    counts |= {"num_accepted": 0, "num_emitted": 1, "active_rows": 1, "num_verified": gamma + 1}
    columns = {
        **whole,
        **{name: np.full(rounds, value) for name, value in counts.items()},
        "request": owners,
        "step": np.arange(rounds),
        "round": np.tile(np.arange(ROUNDS), context.size),
        "context_length": np.full(rounds, 100),
        "draft_s": WORLD.c * gamma * factor,
        "verify_s": verify * factor,
        "other_s": (WORLD.o if gamma else 0.0) * factor,
        "replayed": np.zeros(rounds, dtype=bool),
    }
    return columns, {"prompt_id": names, "conversation": names}


@pytest.mark.parametrize("cell", [0.0, 0.02])
@pytest.mark.parametrize("conversations", [8, 24])
def test_intervals_cover_where_cells_differ(conversations: int, cell: float) -> None:
    generator, inside = np.random.default_rng(conversations), []
    for _ in range(100):
        context = generator.lognormal(0.0, WORLD.context, conversations)
        cells = generator.lognormal(0.0, cell, len(GAMMAS) + 2)
        raw = {g: tables(g, context, at, generator) for g, at in zip(GAMMAS, cells, strict=False)}
        baselines = [tables(0, context, at, generator) for at in cells[-2:]]
        evidence = evidence_of(raw, baselines, 1)
        assert evidence is not None
        lines = RoundLines.of(evidence.times, evidence.plain)
        costs = Costs(raw, baselines, 1, between_cells(lines, evidence.plain_cells))
        ends = [costs.drafter_step()[1], costs.round_interval(1), costs.round_interval(8)]
        truth = [WORLD.c, WORLD.round_time(1), WORLD.round_time(8)]
        inside.append([low <= at <= high for (low, high), at in zip(ends, truth, strict=True)])
    shares = np.mean(inside, axis=0)
    assert (shares >= 0.90).all(), shares  # by conversations alone 0.3 to 0.6 at 2%
    assert shares.mean() <= 0.985, shares


def test_nothing_that_tells_how_cells_differ_leaves_the_interval() -> None:
    generator, context = np.random.default_rng(0), np.ones(8)
    raw = {2: tables(2, context, 1.0, generator)}
    plain = tables(0, context, 1.0, generator)
    alone = Costs(raw, [plain], 1).round_interval(2)
    apart = Costs(raw, [plain], 1, Scatter(0.05**2, 100)).round_interval(2)
    assert alone is not None
    assert apart is not None
    assert between_cells(None, np.ones(1)) is None
    assert np.log(apart[1] / apart[0]) / 2 == pytest.approx(1.98 * 0.05 * 2**0.5, rel=0.05)
    assert np.log(alone[1] / alone[0]) < 0.1
