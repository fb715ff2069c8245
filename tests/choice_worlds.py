"""Fitted groups of simulated runs whose best choice is known, built from sums, without a run.

Acceptance is i.i.d. within a conversation, or within a round; conversations differ in alpha and in
speed, cells in speed. What the analysis sees is what it sees of a real run of batch size 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import stats

from specbench.analysis.acceptance.verdict import Acceptance
from specbench.analysis.fitted import GammaFit, GroupFit
from specbench.analysis.pooling import GroupKey, Setting
from specbench.analysis.recommending.candidates import Candidate, field_of
from specbench.analysis.recommending.choice import Choice, choose
from specbench.analysis.recommending.run_speeds import speeds_of
from specbench.analysis.rounds.evidence import Evidence, TokenSums
from specbench.analysis.rounds.model import RoundModel, RoundShape
from specbench.theory.acceptance import Counts, Iid, Sample
from specbench.theory.iid_test import IidTest
from specbench.theory.round_lines import RoundTimes, StepTimes

Groups = list[GroupFit]

STEP_S = 0.02
TOKENS = 64


SLOW = 0.15
"""In units of T1: what a width that no kernel fits costs."""


@dataclass(frozen=True)
class Drafter:
    """What a drafter is like, in units of T1.

    Attributes:
        alpha: mean over conversations.
        spread: standard deviation between them.
        by_round: standard deviation between the rounds of a conversation.
        d0, c, v0, v_slope, o: costs of a round.
        jump: added to rounds that draft more than four tokens.
        slow_at: the draft length whose rounds alone take SLOW longer; 0 is none.
    """

    alpha: float
    spread: float = 0.1
    by_round: float = 0.0
    d0: float = 0.0
    c: float = 0.05
    v0: float = 1.0
    v_slope: float = 0.02
    o: float = 0.03
    jump: float = 0.0
    slow_at: int = 0

    def round_time(self, gamma: int) -> float:
        """Of a round of gamma tokens."""
        jump = (self.jump if gamma > 4 else 0.0) + SLOW * (gamma == self.slow_at)
        return self.d0 + self.c * gamma + self.v0 + self.v_slope * gamma + self.o + jump

    def chances(self, prompts: int, generator: np.random.Generator) -> Any:
        """Alpha of each conversation."""
        if not self.spread:
            return np.full(prompts, self.alpha)
        return generator.beta(*_beta(self.alpha, self.spread), prompts)

    def speedup(self, gamma: int, slower: float = 0.0) -> float:
        """The true one, in a world of so much slower conversations."""
        tokens = tokens_per_round(self.alpha, self.spread, self.by_round, gamma, slower)
        return tokens / self.round_time(gamma)


def _beta(mean: Any, sd: float) -> tuple[Any, Any]:
    """Its two parameters."""
    weight = mean * (1 - mean) / sd**2 - 1
    return mean * weight, (1 - mean) * weight


@functools.cache
def tokens_per_round(
    alpha: float, spread: float, by_round: float, gamma: int, slower: float
) -> float:
    """Tokens put out per round, each conversation counted with its step: exact.

    The mean of rounds that an answer takes, m(n) = 1 + sum of P(k tokens) m(n - k), over
    conversations of alphas at the middles of 400 equal parts of the Beta.
    """
    alphas = np.array([alpha])
    if spread:
        alphas = stats.beta.ppf((np.arange(400) + 0.5) / 400, *_beta(alpha, spread))
    survival = [np.ones_like(alphas)]
    for depth in range(gamma):
        accepted = alphas
        if by_round:
            first, second = _beta(alphas, by_round)
            accepted = (first + depth) / (first + second + depth)
        survival.append(survival[-1] * accepted)
    chances = [one - other for one, other in pairwise([*survival, np.zeros_like(alphas)])]
    rounds = np.zeros((TOKENS, alphas.size))
    for left in range(1, TOKENS):
        rounds[left] = 1.0 + sum(
            chance * rounds[max(left - k - 1, 0)] for k, chance in enumerate(chances)
        )
    steps = np.exp(-slower * (alphas - alpha))
    return float((TOKENS - 1.0) * steps.mean() / (rounds[TOKENS - 1] * steps).mean())


def costing(drafter: Drafter, gammas: Sequence[int], best: float, slower: float = 0.0) -> Drafter:
    """The same drafter with o such that its fastest gamma has this true speedup."""
    low, high = -0.9, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        fastest = max(replace(drafter, o=middle).speedup(gamma, slower) for gamma in gammas)
        low, high = (middle, high) if fastest > best else (low, middle)
    return replace(drafter, o=low)


@dataclass(frozen=True)
class World:
    """How times vary: standard deviations of logs.

    Attributes:
        prompts: conversations.
        context: between conversations.
        slower: by how much the log time of a conversation rises as its alpha falls by 1.
        noise: between rounds.
        cell: between cells.
        model: fits acceptance; None is one alpha.
    """

    prompts: int = 24
    context: float = 0.1
    slower: float = 0.0
    noise: float = 0.1
    cell: float = 0.005
    model: Callable[[Sample], Any] = Iid.fit

    def setting(
        self,
        task: str,
        drafters: dict[str, Drafter],
        gammas: Sequence[int],
        generator: np.random.Generator,
    ) -> list[GroupFit]:
        """The groups of one setting, which share conversations and baselines."""
        names = np.array([f"{task}-{number:04d}" for number in range(self.prompts)])
        alphas = {d: one.chances(self.prompts, generator) for d, one in drafters.items()}
        first = next(iter(drafters))
        context = generator.lognormal(0.0, self.context, self.prompts)
        context *= np.exp(-self.slower * (alphas[first] - drafters[first].alpha))
        steps = np.full(self.prompts, TOKENS - 1.0)
        both = [self._seconds(1.0, steps, context, generator) for _ in range(2)]
        plain = StepTimes(names, sum(both), 2 * steps)
        cells = np.array([part.sum() / steps.sum() for part in both])
        floor = float(cells.max() / cells.min() - 1.0)
        found = []
        for name, drafter in drafters.items():
            drawn = {g: _rounds(g, alphas[name], drafter.by_round, generator) for g in gammas}
            sample = {gamma: Counts(names, *counts[:2]) for gamma, counts in drawn.items()}
            tokens, times = {}, {}
            for gamma, (_, evaluated, emitted) in drawn.items():
                rounds = evaluated[:, 0]
                lengths = np.zeros((self.prompts, gamma + 1))
                lengths[:, -1] = rounds
                time = self._seconds(drafter.round_time(gamma), rounds, context, generator)
                share = drafter.c * gamma / drafter.round_time(gamma)
                tokens[gamma] = TokenSums(names, lengths, emitted)
                times[gamma] = RoundTimes(
                    names, lengths, share * time, (1 - share) * time, 0 * time, 0 * time
                )
            evidence = Evidence(sample, tokens, times, plain, cells, TOKENS - 1.0, True)
            found.append(group_of(task, name, evidence, floor, self.model(sample)))
        return found

    def _seconds(self, cost: float, rounds: Any, context: Any, generator: Any) -> Any:
        noise = self.noise / np.sqrt(rounds) * generator.normal(size=rounds.size)
        cell = self.cell * generator.normal()
        return STEP_S * cost * rounds * context * np.exp(noise + cell)


def _rounds(
    gamma: int, chances: Any, by_round: float, generator: np.random.Generator
) -> tuple[Any, Any, Any]:
    """Accepted and evaluated [conversations, gamma], and tokens put out, of answers of one length.

    Rounds are drawn until the answer is full; what the last one drafted too much is cut.
    """
    shape = (chances.size, TOKENS)
    of_round = np.broadcast_to(chances[:, None], shape)
    if by_round:
        of_round = generator.beta(*_beta(of_round, by_round))
    hits = generator.random((*shape, gamma)) < of_round[..., None]
    accepted = np.cumprod(hits, axis=2)
    committed = accepted.sum(axis=2) + 1
    before = np.cumsum(committed, axis=1) - committed
    used = before < TOKENS - 1
    evaluated = np.concatenate([np.ones_like(accepted[..., :1]), accepted[..., :-1]], axis=2)
    sums = [(part * used[..., None]).sum(axis=1).astype(float) for part in (accepted, evaluated)]
    return sums[0], sums[1], np.full(chances.size, TOKENS - 1.0)


def group_of(task: str, name: str, evidence: Evidence, floor: float, model: Any) -> GroupFit:
    """A fitted group as far as choosing needs it."""
    points = []
    for gamma, part in evidence.tokens.items():
        speed = part.emitted.sum() / evidence.times[gamma].seconds.sum()
        points.append(point_of(gamma, float(speed * evidence.plain.step_s), floor))
    shapes = {gamma: RoundShape((*(0.0,) * gamma, 1.0), 0.0, 1.0, 0.0) for gamma in evidence.times}
    acceptance = Acceptance(
        0.5, (), IidTest(0.0, None, evidence.plain.names.size, 2), None, None, model
    )
    return GroupFit(
        key=GroupKey(Setting(task, 0.0, 1, "simulated", "native", 0, 1.0), name),
        draft_form="chain",
        alpha=0.5,
        alpha_ci=None,
        c=0.05,
        c_ci=None,
        step_s=evidence.plain.step_s,
        overhead=0.0,
        noise_floor=floor,
        num_prompts=evidence.plain.names.size,
        model=RoundModel(0.5, 0.05, shapes),
        points=tuple(points),
        warnings=(),
        acceptance=acceptance,
        evidence=evidence,
    )


def point_of(gamma: int, speedup: float, floor: float | None) -> GammaFit:
    """A measured gamma of which little but the speedup is known."""
    nothing = dict.fromkeys(GammaFit.__dataclass_fields__)
    known = {"gamma": gamma, "num_cells": 1, "num_rounds": 1, "speedup": speedup}
    return GammaFit(**{**nothing, **known, "noise_floor": floor, "lossless": "identical"})


def tasks(drafter: Drafter, gammas: Sequence[int], worlds: Sequence[World], seed: int) -> Groups:
    """The groups of a run of one drafter: a task in each world."""
    generator = np.random.default_rng(seed)
    return [
        group
        for number, world in enumerate(worlds)
        for group in world.setting(f"task {number:02d}", {"x": drafter}, gammas, generator)
    ]


def candidates(groups: Groups) -> tuple[Candidate, ...]:
    """All that a run lets one choose from."""
    return field_of(groups, *speeds_of(groups), max_gamma=16).candidates


def choices(found: Sequence[Candidate]) -> list[Choice]:
    """What is recommended in each setting; a gamma of 0 is plain decoding."""
    by_setting: dict[Setting, list[Candidate]] = {}
    for candidate in found:
        by_setting.setdefault(candidate.setting, []).append(candidate)
    return [choose(here) for here in by_setting.values()]


def recommended(found: Sequence[Candidate]) -> list[int]:
    """The gamma recommended in each setting; 0 is plain decoding."""
    return [choice.gamma for choice in choices(found)]
