"""Above temperature 0 a trace tells the loop's alpha and tau, within what chance allows.

Text and loop are two samples of the same target: their estimates are compared with the standard
error that both have by conversation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from specbench.drafters.base import Guess, Text
from specbench.models.language_model import LanguageModel
from specbench.records.trace_summary import drafts_by_request, summarize_trace
from specbench.sampling.warp import SamplingParams
from specbench.theory.replay import replay_drafts
from tests import published
from tests.tiny import copies, language_model, make_drafter, noisy_copy, run_cell
from tests.tracing import trace_columns

PROMPT = (3, 1, 4, 1, 5, 2, 6, 3, 1, 4)
CONVERSATIONS, LENGTH, LONGEST = 400, 10, 3
SOUND, BROKEN = 3.5, 6.0
"""Standard errors between two sound estimates, seeds being fixed, and to one that is wrong."""

SPECS = ("model:near", "early-exit:1", "ngram", "medusa:{}/medusa", "eagle:{}/eagle")
COOL = SamplingParams(0.7, top_k=6)


@functools.cache
def target() -> LanguageModel:
    return language_model("llama", vocab_size=8, seed=4)


@functools.cache
def models() -> dict[str, LanguageModel]:
    return {"near": noisy_copy(target(), 0.5)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("heads")
    published.write_medusa(made / "medusa", target())
    published.write_eagle(made / "eagle", target())
    return made


@functools.cache
def text() -> list[list[int]]:
    batch = copies(PROMPT, CONVERSATIONS)
    generation = run_cell(
        target(), None, batch, batch_size=50, sampling=COOL, max_new_tokens=LENGTH
    )
    return generation.outputs


@functools.cache
def traced(spec: str):
    batch = copies(PROMPT, CONVERSATIONS)
    return trace_columns(target(), spec, batch, text(), LONGEST, sampling=COOL, models=models())


@functools.cache
def looped(spec: str, gamma: int) -> np.ndarray:
    """rounds, accepted and evaluated [3, conversations] of a loop with other random numbers."""
    generation = run_cell(
        target(),
        spec,
        copies(PROMPT, CONVERSATIONS),
        gamma=gamma,
        batch_size=50,
        sampling=COOL,
        max_new_tokens=LENGTH,
        seed=1,
        models=models(),
    )
    request = np.array(generation.rounds["request"])
    columns = [np.ones(len(request))]
    columns += [np.array(generation.rounds[f"num_{name}"]) for name in ("accepted", "evaluated")]
    return np.array([np.bincount(request, column, CONVERSATIONS) for column in columns])


def apart(one: np.ndarray, other: np.ndarray, bottom: int) -> float:
    """Standard errors between accepted / row ``bottom`` of two samples."""
    return abs(ratio(one, bottom) - ratio(other, bottom)) / math.hypot(
        error(one, bottom), error(other, bottom)
    )


def ratio(sample: np.ndarray, bottom: int) -> float:
    return float(sample[1].sum() / sample[bottom].sum())


def error(sample: np.ndarray, bottom: int) -> float:
    residuals = sample[1] - ratio(sample, bottom) * sample[bottom]
    return float(np.sqrt((residuals**2).sum()) / sample[bottom].sum())


def sums(replayed) -> np.ndarray:
    rounds, accepted, evaluated = replayed
    return np.array([rounds, accepted.sum(axis=1), evaluated.sum(axis=1)])


@pytest.mark.parametrize("spec", SPECS)
def test_alpha_and_tau_are_those_of_the_loop(folder, spec):
    spec = spec.format(folder)
    drafts = drafts_by_request(traced(spec), LONGEST)
    for gamma in (1, 2, 3):
        loop = looped(spec, gamma)
        assert 0.05 < ratio(loop, 2) < 0.95
        by_overlap, by_text = drafts.replay(gamma), replay_drafts(drafts.accept, gamma)
        for replayed in (by_overlap, by_text):
            assert apart(sums(replayed), loop, 2) < SOUND, gamma  # alpha
            assert apart(sums(replayed), loop, 0) < SOUND, gamma  # tau


def test_counting_by_overlap_has_less_noise(folder):
    for spec in ("model:near", "ngram"):
        drafts = drafts_by_request(traced(spec), LONGEST)
        by_overlap, by_text = (
            sums(drafts.replay(2)),
            sums(replay_drafts(drafts.accept, 2)),
        )
        assert error(by_overlap, 2) < error(by_text, 2)


@pytest.mark.parametrize("fault", ["a guess too late", "q at another temperature"])
def test_planted_faults_are_seen(monkeypatch, fault):
    drafter = make_drafter(target(), "model:near", models())
    guesses = drafter.guesses

    def wrong(text: Text, gamma: int, sampling: SamplingParams) -> Iterator[Guess]:
        if fault == "q at another temperature":
            yield from guesses(text, gamma, SamplingParams(2.5))
        else:
            for guess in guesses(text, gamma, sampling):
                yield Guess(probs=guess.probs.roll(1, dims=0))

    monkeypatch.setattr(drafter, "guesses", wrong)
    batch = copies(PROMPT, CONVERSATIONS)
    columns = trace_columns(target(), drafter, batch, text(), LONGEST, sampling=COOL)
    replayed = drafts_by_request(columns, LONGEST).replay(2)
    assert apart(sums(replayed), looped("model:near", 2), 2) > BROKEN


def test_the_line_of_a_trace_holds_the_loop_s_numbers():
    fields = summarize_trace(traced("model:near"), LONGEST, (1, 2, 3))
    for traced_gamma in fields["by_gamma"]:
        loop = looped("model:near", traced_gamma["gamma"])
        low, high = traced_gamma["alpha_ci"]
        assert low < traced_gamma["alpha"] < high
        assert low - 3 * error(loop, 2) < ratio(loop, 2) < high + 3 * error(loop, 2)
        low, high = traced_gamma["tau_ci"]
        assert low - 3 * error(loop, 0) < 1 + ratio(loop, 0) < high + 3 * error(loop, 0)
    assert fields["num_positions"] == CONVERSATIONS * (LENGTH - 1)
    assert fields["alpha_text"] == pytest.approx(fields["alpha"], abs=0.03)
    assert fields["warnings"] == []
