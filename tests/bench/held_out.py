"""Do the intervals of costs and of predicted speedups hold what they promise?

Simulated runs of six gammas with known acceptance and costs. How often the 95% intervals of d0, c,
v0, v's slope and o hold the truth, and how often the 95% prediction interval of a gamma that was
left out holds the speedup measured there: gammas between the others, and those at either end, which
are extrapolated. Beside it how far off the extended model and the closed form are.

    python -m tests.bench.held_out --simulations 200
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
import typer

from specbench.analysis.prediction.held_out import HeldOut, predict
from specbench.theory.cost_model import fit_costs
from tests.acceptance_worlds import beta_prompts, beta_rounds, decaying, iid, independent_rounds
from tests.cost_worlds import World

GAMMAS = (1, 2, 3, 4, 6, 8)
ROUNDS = 20  # per prompt and gamma
PROMPTS = (8, 24, 60)
CELLS = (0.0, 0.01, 0.03)  # how much cells differ that were measured one after the other
WORLD = World()
COSTS = {"d0": WORLD.d0, "c": WORLD.c, "v0": WORLD.v0, "v_slope": WORLD.v_slope, "o": WORLD.o}
ACCEPTANCE = {
    "one alpha": iid(0.7),
    "alpha from 0.75 to 0.35": decaying(),
    "alpha beta between rounds": beta_rounds(0.7, 0.2),
    "alpha beta between prompts": beta_prompts(0.7, 0.12),
}


def costs(prompts: int, cell: float, simulations: int) -> bool:
    """Print how often the intervals of the costs hold the truth; whether that is 90 to 99%."""
    generator, world = np.random.default_rng(1), replace(WORLD, cell=cell)
    inside = dict.fromkeys(COSTS, 0)
    for sample in independent_rounds(iid(0.7), simulations, prompts, ROUNDS, GAMMAS, seed=1):
        evidence, _ = world.evidence(sample, generator)
        found = fit_costs(evidence.times, evidence.plain, evidence.plain_cells)
        assert found is not None
        for name, truth in COSTS.items():
            low, high = getattr(found, name).ci
            inside[name] += low <= truth <= high
    shares = {name: hits / simulations for name, hits in inside.items()}
    told = ", ".join(f"{name} {share:.1%}" for name, share in shares.items())
    print(
        f"{prompts} prompts, cells differ by {cell:.0%}: the truth is inside the interval of {told}"
    )
    return all(0.90 <= share <= 0.99 for share in shares.values())


def predictions(kind: str, prompts: int, cell: float, simulations: int) -> bool:
    """Print how often measurements lie inside, and errors; whether between others it is 90-99%."""
    generator = np.random.default_rng(2)
    world = replace(WORLD, cell=cell)
    found: list[HeldOut] = []
    samples = independent_rounds(ACCEPTANCE[kind], simulations, prompts, ROUNDS, GAMMAS, seed=2)
    for sample in samples:
        predicted = predict(*world.evidence(sample, generator))
        assert predicted is not None
        found += predicted.cells
    between = [one for one in found if not one.extrapolated]
    ends = [one for one in found if one.extrapolated]
    inside = [float(np.mean([one.inside is True for one in part])) for part in (between, ends)]
    own, closed = (
        np.abs([getattr(one, name) for one in found]) for name in ("error", "error_closed_form")
    )
    print(
        f"{kind}, {prompts} prompts, cells differ by {cell:.0%}: inside {inside[0]:.1%}, "
        f"extrapolated {inside[1]:.1%}; error, median (worst): extended {np.median(own):.1%} "
        f"({own.max():.0%}), closed form {np.median(closed):.1%} ({closed.max():.0%})",
        flush=True,
    )
    return 0.90 <= inside[0] <= 0.99


def main(
    simulations: Annotated[int, typer.Option(help="Of each kind.")] = 200,
) -> None:
    """Print all shares; exit 1 if one is not what it should be."""
    held = [costs(prompts, cell, simulations) for prompts in PROMPTS for cell in CELLS]
    held += [
        predictions(kind, prompts, cell, simulations)
        for kind in ACCEPTANCE
        for prompts in PROMPTS
        for cell in CELLS
    ]
    raise typer.Exit(not all(held))


if __name__ == "__main__":
    typer.run(main)
