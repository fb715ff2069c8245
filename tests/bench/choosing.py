"""Does the recommendation hold what it promises?

Simulated runs whose truth is known. How often the chosen gamma is within 1% of the best one, beside
that of the highest measured speedup; how often a run without any gain recommends nothing, and
whether it is sure of that; and how often intervals of fitted speedups hold the truth.

    python -m tests.bench.choosing --simulations 200
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, NamedTuple

import numpy as np
import typer

from specbench.analysis.acceptance.verdict import model_for
from specbench.analysis.recommending.choice import preferred
from tests.choice_worlds import Drafter, World, candidates, choices, costing, tasks

GAMMAS = (1, 2, 3, 4, 6, 8)
FEW_GAMMAS = (1, 2, 4)
CLOSE, PROMISED = 0.01, 0.95


class Case(NamedTuple):
    """A drafter, and a world for each task of a run."""

    drafter: Drafter
    worlds: list[World]


def world(**known: float) -> World:
    """One in which acceptance is modelled as in a real run."""
    return World(**known, model=model_for)  # type: ignore[arg-type]


BEST = {
    "one alpha": Case(Drafter(0.75, spread=0.0, c=0.08), [world()]),
    "alpha differs between conversations": Case(Drafter(0.6, spread=0.15, c=0.03), [world()]),
    "alpha differs between rounds": Case(Drafter(0.7, spread=0.0, by_round=0.2), [world()]),
    "cells differ by 2%": Case(Drafter(0.75, spread=0.0, c=0.08), [world(cell=0.02)]),
    "slow conversations accept less": Case(
        Drafter(0.65, spread=0.15), [world(context=0.4, slower=1.5)]
    ),
    "verify jumps by 0.3": Case(Drafter(0.85, spread=0.0, c=0.03, jump=0.3), [world()]),
    "verify is slow at one gamma": Case(Drafter(0.75, spread=0.0, c=0.08, slow_at=3), [world()]),
    "verify jumps by 0.15": Case(Drafter(0.8, spread=0.0, c=0.03, jump=0.15), [world()]),
}
NOTHING = {
    "24 tasks": Case(Drafter(0.6), [World()] * 24),
    "24 tasks, cells of a third differ by 4%": Case(
        Drafter(0.6, spread=0.0), [World(cell=0.04), World(cell=0.003), World(cell=0.003)] * 8
    ),
    "24 tasks of 8 prompts": Case(Drafter(0.6, spread=0.15), [World(prompts=8, cell=0.01)] * 24),
    "6 tasks of 200 prompts, alpha differs between them": Case(
        Drafter(0.65, spread=0.2, c=0.03), [world(prompts=200, context=0.2, cell=0.003)] * 6
    ),
    "8 tasks of 100 prompts, slow ones accept less": Case(
        Drafter(0.65, spread=0.15, c=0.03),
        [world(prompts=100, context=0.3, slower=1.5, cell=0.003)] * 8,
    ),
}


def best(name: str, case: Case, simulations: int) -> bool:
    """Print how often the best gamma is chosen, give or take CLOSE."""
    drafter, (only,) = case
    truth = {gamma: drafter.speedup(gamma, only.slower) for gamma in range(1, 9)}
    loss = {gamma: 1.0 - speedup / max(truth.values()) for gamma, speedup in truth.items()}
    fitted: Counter[int] = Counter()
    raw, inside = 0, []
    for seed in range(simulations):
        groups = tasks(drafter, GAMMAS, [only], seed)
        found = candidates(groups)
        fitted[preferred(found).gamma] += 1
        raw += loss[max(groups[0].points, key=lambda point: point.speedup or 0.0).gamma] <= CLOSE
        inside += [one.ci[0] <= truth[one.gamma] <= one.ci[1] for one in found if one.ci]
    good = sum(count for gamma, count in fitted.items() if loss[gamma] <= CLOSE)
    mean = sum(count * loss[gamma] for gamma, count in fitted.items()) / simulations
    print(
        f"{name}: within 1% of the best {good / simulations:.1%}, by the highest measured speedup "
        f"{raw / simulations:.1%}; loss {mean:.2%}; intervals hold the truth {np.mean(inside):.1%}",
        flush=True,
    )
    return good >= PROMISED * simulations


def nothing(name: str, case: Case, simulations: int) -> bool:
    """Print how often nothing is recommended where the best gamma gains nothing."""
    slower = case.worlds[0].slower
    even = costing(case.drafter, FEW_GAMMAS, 1.0, slower)
    none, decided = 0, []
    for seed in range(simulations):
        made = choices(candidates(tasks(even, FEW_GAMMAS, case.worlds, seed)))
        none += not any(choice.gamma for choice in made)
        decided += [choice.decided for choice in made if not choice.gamma]
    print(
        f'no gain, {name}: nothing recommended {none / simulations:.1%}; of "do not '
        f'speculate" {np.mean(decided):.0%} without a question mark',
        flush=True,
    )
    return none >= PROMISED * simulations


def main(
    simulations: Annotated[int, typer.Option(help="Of each kind; half as many of 24 tasks.")] = 200,
) -> None:
    """Print all shares; exit 1 if one is not what it should be."""
    held = [best(name, case, simulations) for name, case in BEST.items()]
    held += [nothing(name, case, simulations // 2) for name, case in NOTHING.items()]
    raise typer.Exit(not all(held))


if __name__ == "__main__":
    typer.run(main)
