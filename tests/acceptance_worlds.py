"""Simulated rounds whose acceptance is known, all simulations of a kind at once.

A world draws the chance of every round and depth; rounds are independent given those, except in
:func:`replayed_text`, where all gammas go over the same text as they do at temperature 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbench.theory.acceptance import Counts, Sample
from specbench.theory.iid_test import iid_test
from tests.replays import replay

Numbers = NDArray[np.float64]
Chances = Callable[[int], Any]
"""Depth 0, 1, ... -> chances that broadcast to [simulations, clusters, rounds]."""

World = Callable[[np.random.Generator, tuple[int, int, int], int], Chances]
"""(generator, shape, gamma) -> chances of the rounds of one gamma."""

DECAY = np.linspace(0.75, 0.35, 8)


def iid(alpha: float) -> World:
    """One alpha for everything."""
    return lambda generator, shape, gamma: lambda depth: alpha


def decaying(alphas: Sequence[float] | Numbers = DECAY) -> World:
    """An alpha for every depth."""
    return lambda generator, shape, gamma: lambda depth: alphas[depth]


def beta_rounds(mean: float, sd: float) -> World:
    """Alpha drawn per round."""
    weight = mean * (1 - mean) / sd**2 - 1

    def world(generator: np.random.Generator, shape: tuple[int, int, int], gamma: int) -> Chances:
        drawn = generator.beta(mean * weight, (1 - mean) * weight, shape)
        return lambda depth: drawn

    return world


def beta_prompts(mean: float, sd: float) -> World:
    """Alpha drawn per prompt, the same for all gammas of a simulation; i.i.d. within a prompt."""
    weight = mean * (1 - mean) / sd**2 - 1
    kept: dict[tuple[int, int], Numbers] = {}

    def world(generator: np.random.Generator, shape: tuple[int, int, int], gamma: int) -> Chances:
        if shape[:2] not in kept:
            kept[shape[:2]] = generator.beta(mean * weight, (1 - mean) * weight, shape[:2])
        return lambda depth: kept[shape[:2]][..., None]

    return world


def independent_rounds(
    world: World, simulations: int, clusters: int, rounds: int, gammas: Sequence[int], seed: int
) -> Iterator[Sample]:
    """Samples of independent rounds, `rounds` of them per cluster and gamma."""
    generator = np.random.default_rng(seed)
    shape = (simulations, clusters, rounds)
    drawn = {}
    for gamma in gammas:
        chances, alive = world(generator, shape, gamma), np.ones(shape, dtype=np.bool_)
        accepted, evaluated = np.zeros((2, simulations, clusters, gamma))
        for depth in range(gamma):
            evaluated[..., depth] = alive.sum(axis=-1)
            alive &= generator.random(shape, dtype=np.float32) < chances(depth)
            accepted[..., depth] = alive.sum(axis=-1)
        drawn[gamma] = (accepted, evaluated)
    return _samples(drawn, simulations, clusters)


def replayed_text(
    alpha: float, simulations: int, clusters: int, tokens: int, gammas: Sequence[int], seed: int
) -> Iterator[Sample]:
    """Samples of temperature 0: matches drawn once per position of a text, i.i.d., and replayed
    for every gamma. Texts are half as long to one and a half times as long as `tokens`."""
    generator = np.random.default_rng(seed)
    count, longest = simulations * clusters, tokens * 3 // 2
    matches = generator.random((count, longest + max(gammas))) < alpha
    ends = generator.integers(tokens // 2, longest + 1, count).tolist()
    drawn = {}
    for gamma in gammas:
        counts = replay(list(matches), gamma, ends)
        drawn[gamma] = tuple(part.reshape(simulations, clusters, gamma) for part in counts)
    return _samples(drawn, simulations, clusters)


def _samples(drawn: Any, simulations: int, clusters: int) -> Iterator[Sample]:
    names = np.array([f"prompt-{number:03d}" for number in range(clusters)])
    for run in range(simulations):
        yield {
            gamma: Counts(names, accepted[run], evaluated[run])
            for gamma, (accepted, evaluated) in drawn.items()
        }


def true_tokens(alphas: Sequence[float] | Numbers) -> float:
    """Tokens per round of these alphas by depth."""
    return 1.0 + float(np.cumprod(alphas).sum())


def beta_tokens(mean: float, sd: float, gamma: int) -> float:
    """Tokens per round where alpha is beta-distributed between rounds: by its moments."""
    weight = mean * (1 - mean) / sd**2 - 1
    return true_tokens([(mean * weight + i) / (weight + i) for i in range(gamma)])


def counts_of(names: ArrayLike, accepted: ArrayLike, evaluated: ArrayLike) -> Counts:
    """Counts from anything array-like."""
    return Counts(
        np.asarray(names, dtype=np.str_),
        np.asarray(accepted, dtype=np.float64),
        np.asarray(evaluated, dtype=np.float64),
    )


def rejected(samples: Iterable[Sample]) -> float:
    """Share of samples whose p-value is at most 5%."""
    p_values = [iid_test(sample).p_value for sample in samples]
    return float(np.mean([p is not None and p <= 0.05 for p in p_values]))
