"""Sums of simulated rounds whose costs are known, without a run behind them.

Rounds draft gamma tokens each; times of a conversation's rounds differ by a factor of its own (its
context), by noise of each round, and by a factor of the cell they were measured in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from specbench.analysis.rounds.evidence import Evidence, TokenSums
from specbench.theory.acceptance import Sample
from specbench.theory.round_lines import RoundTimes, StepTimes

STEP_S = 0.02
"""T1 in seconds."""


@dataclass(frozen=True)
class World:
    """Costs in units of T1, and how much times vary (standard deviations of their logs)."""

    d0: float = 0.05
    c: float = 0.1
    v0: float = 0.97
    v_slope: float = 0.03
    o: float = 0.04
    context: float = 0.1  # between conversations
    noise: float = 0.1  # between rounds
    cell: float = 0.0  # between cells

    def round_time(self, gamma: int) -> float:
        """Of a round that drafts gamma tokens."""
        return self.d0 + self.c * gamma + self.v0 + self.v_slope * gamma + self.o

    def evidence(
        self, sample: Sample, generator: np.random.Generator
    ) -> tuple[Evidence, dict[int, float]]:
        """Sums with these costs for rounds of known acceptance, and the speedups that they make."""
        names = next(iter(sample.values())).names
        context = generator.lognormal(0.0, self.context, names.size)

        def seconds(cost: float, rounds: np.ndarray, cell: float) -> np.ndarray:
            spread = self.noise / np.sqrt(rounds)
            return (
                STEP_S
                * cost
                * cell
                * rounds
                * context
                * np.exp(spread * generator.normal(size=names.size))
            )

        times, tokens, speedups = {}, {}, {}
        for gamma, counts in sample.items():
            rounds, cell = counts.evaluated[:, 0], float(generator.lognormal(0.0, self.cell))
            lengths = np.zeros((names.size, gamma + 1))
            lengths[:, -1] = rounds
            times[gamma] = RoundTimes(
                names,
                lengths,
                seconds(self.d0 + self.c * gamma, rounds, cell),
                seconds(self.v0 + self.v_slope * gamma, rounds, cell),
                seconds(self.o, rounds, cell),
                np.zeros(names.size),
            )
            emitted = rounds + counts.accepted.sum(axis=1)
            tokens[gamma] = TokenSums(names, lengths, emitted)
        steps = np.full(names.size, 64.0)
        cells = generator.lognormal(0.0, self.cell, 2)
        both = [seconds(1.0, steps, float(cell)) for cell in cells]
        plain = StepTimes(names, sum(both), 2 * steps)
        for gamma, part in tokens.items():
            speed = part.emitted.sum() / times[gamma].seconds.sum()
            speedups[gamma] = float(speed * plain.step_s)
        return Evidence(
            sample,
            tokens,
            times,
            plain,
            np.array([part.sum() for part in both]) / steps.sum(),
            output=1e12,  # outputs without an end: nothing is cut
            paired=True,
        ), speedups


def exact(parts: Mapping[int, tuple[float, float, float]], clusters: int = 3) -> dict:
    """gamma -> rounds that all cost (draft, verify, other), 10 in each of some clusters."""
    rounds = np.full(clusters, 10.0)
    names = np.array([f"c{index}" for index in range(clusters)])
    return {
        gamma: RoundTimes(
            names,
            np.outer(rounds, np.eye(gamma + 1)[-1]),
            *(rounds * cost for cost in costs),
            np.zeros(clusters),
        )
        for gamma, costs in parts.items()
    }
