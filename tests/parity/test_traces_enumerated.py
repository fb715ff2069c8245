"""Above temperature 0 a trace has the loop's expectation, exactly: over all texts there can be.

A target of three tokens has few texts. Each is traced and replayed, and counts with the chance that
the target writes it. Beside that the rounds of the loop are written out from p and q alone, every
draft, acceptance and residual with its chance. Both are sums without sampling noise, so that an
error of a thousandth is seen.
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

import numpy as np
import pytest
import torch

from specbench.engine.teacher import Judged, read_lesson, trace
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams, warp
from specbench.theory.replay import replay_drafts
from tests.tiny import language_model, make_drafter, noisy_copy

VOCAB, PROMPT, FIRST = 3, (0, 1, 2, 2, 0, 1), 2
POSITIONS, LONGEST = 3, 3
WARM = SamplingParams(0.8)
SPECS = ("model:near", "early-exit:1", "ngram", "ngram,match=first")

Tokens = tuple[int, ...]


class Counts(NamedTuple):
    """Expected rounds, and accepted and evaluated tokens at each position of a round."""

    rounds: float
    accepted: np.ndarray
    evaluated: np.ndarray

    def far_from(self, other: Counts) -> float:
        """The largest difference."""
        pairs = zip(self, other, strict=True)
        return max(float(np.abs(np.subtract(one, two)).max()) for one, two in pairs)


@functools.cache
def target() -> LanguageModel:
    return language_model("llama", vocab_size=VOCAB, seed=4)


@functools.cache
def models() -> dict[str, LanguageModel]:
    return {"near": noisy_copy(target(), 0.5)}


@functools.cache
def traced(spec: str) -> tuple[np.ndarray, tuple[Judged, ...]]:
    """All texts: the chance of each, and its trace."""
    drafter = make_drafter(target(), spec, models())
    chances, judged = [], []
    for rest in itertools.product(range(VOCAB), repeat=POSITIONS + LONGEST - 1):
        lesson = read_lesson(target(), PROMPT, [FIRST, *rest], POSITIONS, (), WARM)
        chances.append(float(lesson.p.gather(1, lesson.following[:, None]).double().prod()))
        judged.append(trace(drafter, lesson, LONGEST, WARM))
    assert sum(chances) == pytest.approx(1.0, abs=1e-5)
    return np.array(chances), tuple(judged)


def replayed(spec: str, gamma: int, walk: str = "accept", count: str = "overlap") -> Counts:
    """The expectation over all texts, walked by one part of the traces and counted by another."""
    chances, judged = traced(spec)
    drafts, worth = ([getattr(one, part).numpy() for one in judged] for part in (walk, count))
    rounds, accepted, evaluated = replay_drafts(drafts, gamma, worth=worth)
    return Counts(float(chances @ rounds), chances @ accepted, chances @ evaluated)


@functools.cache
def distribution(model: LanguageModel, tokens: Tokens) -> np.ndarray:
    """p or q after some tokens, by a forward of its own."""
    with torch.no_grad():
        logits = model.model(torch.tensor([tokens])).logits[0, -1, :VOCAB]
    return warp(logits, WARM).double().numpy()


def guessed(spec: str, committed: Tokens, gamma: int, accepted: Tokens) -> np.ndarray | None:
    """q of the next token of a draft that began behind ``committed``; None where it has ended."""
    drafter = make_drafter(target(), spec, models())
    if not spec.startswith("ngram"):
        return distribution(drafter.model, committed + accepted)
    draft = drafter._continue(drafter._new_index(), list(committed), gamma)
    assert draft[: len(accepted)] == list(accepted)
    return np.eye(VOCAB)[draft[len(accepted)]] if len(draft) > len(accepted) else None


@functools.cache
def written_out(spec: str, gamma: int) -> Counts:
    """The loop's rounds, each with its chance."""
    rounds, accepted, evaluated = np.zeros(1), np.zeros(gamma), np.zeros(gamma)
    start = (*PROMPT, FIRST)

    def play(committed: Tokens, chance: float) -> None:
        if len(committed) - len(start) < POSITIONS and chance > 0:
            rounds[0] += chance
            draft(committed, (), chance)

    def draft(committed: Tokens, taken: Tokens, chance: float) -> None:
        p, depth = distribution(target(), committed + taken), len(taken)
        q = guessed(spec, committed, gamma, taken) if depth < gamma else None
        both = np.zeros(VOCAB) if q is None else np.minimum(p, q)
        if q is not None:
            evaluated[depth] += chance
            accepted[depth] += chance * both.sum()
        for token in range(VOCAB):
            if both[token] > 0:
                draft(committed, (*taken, token), chance * both[token])
            play((*committed, *taken, token), chance * (p - both)[token])

    play(start, 1.0)
    return Counts(float(rounds[0]), accepted, evaluated)


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("spec", SPECS)
def test_the_expectation_is_the_loop_s(spec: str, gamma: int) -> None:
    truth = written_out(spec, gamma)
    assert 0.05 < truth.accepted.sum() / truth.evaluated.sum() < 0.95
    assert replayed(spec, gamma).far_from(truth) < 1e-5
    assert replayed(spec, gamma, count="accept").far_from(truth) < 1e-5


def test_planted_faults_are_seen() -> None:
    """Rounds walked by the overlap, and a trace that is one position late."""
    truth, (chances, judged) = written_out("model:near", 2), traced("model:near")
    assert replayed("model:near", 2, walk="overlap").far_from(truth) > 1e-3
    late = [np.roll(one.accept.numpy(), 1, axis=0) for one in judged]
    rounds, accepted, evaluated = replay_drafts(late, 2)
    found = Counts(float(chances @ rounds), chances @ accepted, chances @ evaluated)
    assert found.far_from(truth) > 1e-3


@pytest.mark.parametrize("spec", ["ngram", "ngram,match=first"])
def test_one_hot_drafts_are_not_accepted_more_often_than_the_largest_p(spec: str) -> None:
    """Not even where the mean over all positions is smaller: they are drafted at easy ones."""
    _, judged = traced(spec)
    for one in judged:
        drafted = ~np.isnan(one.accept.numpy())
        assert (one.overlap.numpy()[drafted] <= one.max_p.numpy()[drafted]).all()
    for gamma in (1, 2, 3):
        truth, most = written_out(spec, gamma), replayed(spec, gamma, count="max_p")
        assert truth.accepted.sum() < most.accepted.sum() < most.evaluated.sum()


def test_a_sampled_draft_has_no_such_bound() -> None:
    assert all(one.max_p is None for one in traced("model:near")[1])
