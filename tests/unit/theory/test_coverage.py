"""95% intervals cover the truth in 90 to 98% of simulated runs. Seeded: numbers never change."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from specbench.theory.clusters import time_blocks
from specbench.theory.intervals import (
    Interval,
    paired_ratio_of_ratios,
    product_of_ratios,
    ratio_interval,
)

RUNS = 600
CLUSTERS = [3, 6, 12, 24]
Numbers = NDArray[np.float64]


def covered(intervals: list[Interval | None], truth: float) -> float:
    assert all(interval is not None for interval in intervals)
    return float(np.mean([one is not None and one.low <= truth <= one.high for one in intervals]))


def rounds(
    generator: np.random.Generator, shape: tuple[int, int], alpha: float, spread: float, gamma: int
) -> tuple[Numbers, Numbers, Numbers]:
    """Accepted, evaluated and rounds per prompt [runs, prompts]: 10 to 30 rounds each.

    spread is the correlation of acceptances within a prompt: 0 is i.i.d., else alpha of a prompt is
    beta distributed.
    """
    chance = np.full(shape, alpha)
    if spread:
        weight = 1 / spread - 1
        chance = generator.beta(alpha * weight, (1 - alpha) * weight, shape)
    count = generator.integers(10, 31, shape)
    draws = generator.random((*shape, 30))
    chance = np.clip(chance, 1e-9, 1 - 1e-9)[..., None]
    accepted = np.minimum(np.floor(np.log(draws) / np.log(chance)), gamma)
    accepted[np.arange(30) >= count[..., None]] = np.nan
    evaluated = np.minimum(accepted + 1, gamma)
    return np.nansum(accepted, -1), np.nansum(evaluated, -1), count.astype(np.float64)


@pytest.mark.parametrize("clusters", CLUSTERS)
@pytest.mark.parametrize("spread", [0.0, 0.1])
@pytest.mark.parametrize(("alpha", "gamma"), [(0.5, 2), (0.8, 4)])
def test_alpha(clusters: int, spread: float, alpha: float, gamma: int) -> None:
    generator = np.random.default_rng(11)
    accepted, evaluated, _ = rounds(generator, (100_000, 1), alpha, spread, gamma)
    truth = accepted.sum() / evaluated.sum()
    accepted, evaluated, _ = rounds(generator, (RUNS, clusters), alpha, spread, gamma)
    intervals = [ratio_interval(*pair) for pair in zip(accepted, evaluated, strict=True)]
    assert 0.90 <= covered(intervals, truth) <= 0.98


UNEQUAL = {
    12: [16] * 4 + [64] * 4 + [256] * 3 + [1024],
    24: [16] * 8 + [64] * 8 + [256] * 6 + [1024] * 2,
}


@pytest.mark.parametrize("clusters", UNEQUAL)
@pytest.mark.parametrize("spread", [0.0, 0.15])
def test_conversations_of_very_unequal_length(clusters: int, spread: float) -> None:
    """Intervals that count 24 of them as 24 cover 90% of alphas and 87% of ratios of times."""
    generator = np.random.default_rng(15)
    alphas, ratios = [], []
    for _ in range(2 * RUNS):
        length = np.array(UNEQUAL[clusters])
        chance = np.full(clusters, 0.7)
        if spread:
            weight = 0.21 / spread**2 - 1
            chance = generator.beta(0.7 * weight, 0.3 * weight, clusters)
        alphas.append(ratio_interval(generator.binomial(length, chance), length))
        step = generator.lognormal(0.0, 0.1, clusters)
        drafts = 0.05 * step * generator.lognormal(-(0.05**2) / 2, 0.05, clusters)
        rounds = length / (1 + 2 * chance)
        ratios.append(paired_ratio_of_ratios(drafts * rounds, rounds, step * length, length))
    assert 0.92 <= covered(alphas, 0.7) <= 0.98
    assert 0.91 <= covered(ratios, 0.05) <= 0.98


@pytest.mark.parametrize("clusters", CLUSTERS)
def test_accepted_tokens_per_round(clusters: int) -> None:
    generator = np.random.default_rng(12)
    accepted, _, count = rounds(generator, (100_000, 1), 0.7, 0.1, 4)
    truth = accepted.sum() / count.sum()
    accepted, _, count = rounds(generator, (RUNS, clusters), 0.7, 0.1, 4)
    pairs = zip(accepted, count, strict=True)
    assert 0.90 <= covered([ratio_interval(*pair, upper=4) for pair in pairs], truth) <= 0.98


def speeds(generator: np.random.Generator, shape: tuple[int, int]) -> list[Numbers]:
    """Baseline seconds and tokens, then those of a cell: tokens per round vary, context too."""
    accepted, _, count = rounds(generator, shape, 0.7, 0.1, 4)
    context = generator.lognormal(0.0, 0.3, shape)  # slows both alike
    noise = generator.lognormal(0.0, 0.03, (2, *shape))
    tokens = accepted + count
    return [tokens * context * noise[0], tokens, count * 1.3 * context * noise[1], tokens]


@pytest.mark.parametrize("clusters", CLUSTERS)
def test_speedup_paired_by_prompt(clusters: int) -> None:
    generator = np.random.default_rng(13)
    base_s, base_tokens, own_s, own_tokens = (
        part.sum() for part in speeds(generator, (100_000, 1))
    )
    truth = (base_s / base_tokens) / (own_s / own_tokens)
    runs = zip(*speeds(generator, (RUNS, clusters)), strict=True)
    assert 0.90 <= covered([paired_ratio_of_ratios(*run) for run in runs], truth) <= 0.98


def batched(
    generator: np.random.Generator, prompts: int, spread: float, step_s: float
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """64 tokens per prompt through 4 slots that are refilled; counted while all are full.

    Returns tokens and rounds per prompt [prompts], seconds and ones per block [8].
    """
    slots, gamma, alpha = 4, 4, 0.7
    weight = 1 / spread - 1
    chance = generator.beta(alpha * weight, (1 - alpha) * weight, (prompts, 1))
    draws = generator.random((prompts, 64))
    accepted = np.minimum(np.floor(np.log(draws) / np.log(chance)), gamma)
    emitted = np.cumsum(accepted + 1, axis=1)
    count = (emitted < 64).sum(axis=1) + 1
    free = [0] * slots
    starts = []
    for rounds_needed in count:
        slot = free.index(min(free))
        starts.append(free[slot])
        free[slot] += rounds_needed
    full = min(free)  # steps with all slots full
    used = np.clip(full - np.array(starts), 0, count)
    before = np.concatenate([np.zeros((prompts, 1)), np.minimum(emitted, 64)], axis=1)
    tokens = before[np.arange(prompts), used]
    drift = 1 + 0.02 * np.sin(np.arange(full) / 40)
    seconds = step_s * drift * generator.lognormal(0.0, 0.05, full)
    return tokens, used.astype(np.float64), *time_blocks(seconds, np.ones(full))


@pytest.mark.parametrize("prompts", [8, 12, 24])
@pytest.mark.parametrize("spread", [1e-4, 0.05, 0.1])
def test_speedup_at_batch_4(prompts: int, spread: float) -> None:
    generator = np.random.default_rng(14)
    tokens, rounds_used, _, _ = batched(generator, 20_000, spread, 1.4)
    truth = tokens.sum() / rounds_used.sum() / 1.4
    intervals = []
    for _ in range(RUNS):
        tokens, used, seconds, steps = batched(generator, prompts, spread, 1.4)
        base = time_blocks(generator.lognormal(0.0, 0.05, 300), np.ones(300))
        intervals.append(product_of_ratios([(tokens, used), (steps, seconds), tuple(base)]))
    assert 0.90 <= covered(intervals, truth) <= 0.98
