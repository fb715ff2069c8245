"""Does the test of i.i.d. acceptance hold its level, and do the chosen models predict?

1,000 simulations each: how often i.i.d. acceptance is rejected at 5%, with independent rounds and
with gammas that replay the same text; how often acceptance that is not i.i.d. is rejected, and how
far off the chosen model is at a gamma that it has not seen; what the overdispersion estimate says.

    python -m tests.bench.acceptance_models --simulations 1000
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import numpy as np
import typer

from specbench.theory.iid_test import iid_test
from specbench.theory.model_choice import choose_model
from specbench.theory.overdispersion import overdispersion
from tests.acceptance_worlds import (
    DECAY,
    World,
    beta_prompts,
    beta_rounds,
    beta_tokens,
    decaying,
    iid,
    independent_rounds,
    rejected,
    replayed_text,
    true_tokens,
)

GAMMAS = (1, 2, 4, 8)
CLUSTERS = (6, 12, 24, 60)
ROUNDS = 1500  # per gamma, over all prompts


def level(simulations: int) -> bool:
    """Print how often i.i.d. acceptance is rejected; whether that is 3 to 7% from 12 prompts on."""
    held = True
    for clusters in CLUSTERS:
        for alpha in (0.5, 0.8):
            rounds = ROUNDS // clusters
            apart = independent_rounds(iid(alpha), simulations, clusters, rounds, GAMMAS, seed=1)
            text = replayed_text(alpha, simulations, clusters, 64, GAMMAS, seed=2)
            found = rejected(apart), rejected(text)
            print(
                f"i.i.d., alpha = {alpha}, {clusters} prompts: rejected {found[0]:.1%} of "
                f"independent rounds, {found[1]:.1%} of replayed texts",
                flush=True,
            )
            held &= all(share <= 0.07 and (share >= 0.03 or clusters < 12) for share in found)
    return held


def predictions(
    what: str, world: World, truth: float, unseen: int, within: float, simulations: int
) -> bool:
    """Print how often one alpha is rejected and how well a gamma that was left out is predicted."""
    held = True
    for clusters in CLUSTERS:
        rounds = ROUNDS // clusters
        gammas = sorted({1, 2, 3, 4, 6, 8} - {unseen} if unseen != 8 else {1, 2, 3, 4, 6, 8})
        p_rejected, near, won = 0, 0, Counter[str]()
        worst: list[float] = []
        for sample in independent_rounds(world, simulations, clusters, rounds, gammas, seed=3):
            p_value = iid_test(sample).p_value
            p_rejected += p_value is not None and p_value <= 0.05
            choice = choose_model(sample)
            assert choice is not None
            tokens = choice.winner.expected_tokens(unseen)
            won[choice.winner.name] += 1
            error = abs((tokens or np.nan) / truth - 1)
            near += error <= within
            worst.append(error)
        print(
            f"{what}, {clusters} prompts: rejected {p_rejected / simulations:.1%}, tau at gamma = "
            f"{unseen} within {within:.0%} in {near / simulations:.1%} (median error "
            f"{np.median(worst):.2%}), chosen {dict(won)}",
            flush=True,
        )
        held &= clusters < 12 or (p_rejected > 0.9 * simulations and near >= 0.9 * simulations)
    return held


def spread(simulations: int) -> bool:
    """Print what is said of prompts that differ; whether it is true."""
    held = True
    for clusters in CLUSTERS:
        for sd, world in ((0.1, beta_prompts(0.7, 0.1)), (0.0, iid(0.7)), (0.0, decaying())):
            samples = independent_rounds(
                world, simulations, clusters, ROUNDS // clusters, GAMMAS, seed=4
            )
            found = [(overdispersion(sample), iid_test(sample).p_value) for sample in samples]
            told = [one for one, _ in found if one is not None]
            mean = float(np.sqrt(np.mean([one.sd**2 for one in told])))
            covered = float(np.mean([one.low <= sd <= one.high for one in told]))
            share = float(np.mean([p is not None and p <= 0.05 for _, p in found]))
            print(
                f"prompts that differ by {sd}, {clusters} prompts: sd {mean:.3f}, interval covers "
                f"{covered:.1%}, one alpha rejected {share:.1%}",
                flush=True,
            )
            held &= abs(mean - sd) < 0.02
    return held


def main(
    simulations: Annotated[int, typer.Option(help="Of each kind.")] = 1000,
) -> None:
    """Print all shares; exit 1 if one is not what it should be."""
    held = level(simulations)
    for sd in (0.2, 0.25):
        world, truth = beta_rounds(0.7, sd), beta_tokens(0.7, sd, 6)
        held &= predictions(f"alpha beta, sd {sd}", world, truth, 6, 0.02, simulations)
    truth = true_tokens(DECAY)
    held &= predictions("alpha from 0.75 to 0.35", decaying(), truth, 8, 0.03, simulations)
    held &= spread(simulations)
    raise typer.Exit(not held)


if __name__ == "__main__":
    typer.run(main)
