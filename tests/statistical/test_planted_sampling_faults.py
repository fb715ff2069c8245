"""The check of sampling is seen to fail: faults are planted in the rule and its random numbers.

Outputs are held against the enumerated joint distribution by a chi-square test.
"""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch

from specbench.drafters import _chain
from specbench.engine import speculative
from specbench.models.language_model import LanguageModel
from specbench.sampling import verify
from specbench.sampling.rng import Uniforms
from specbench.sampling.warp import SamplingParams, sample, warp
from tests.lossless import BROKEN, SOUND, enumerated_joint, joint_p_value
from tests.tiny import OncePerPrompt, alpha, copies, language_model, noisy_copy, run_cell

PROMPT = (3, 1, 4, 1, 5, 2, 6, 3, 1, 4)
COOL = SamplingParams(0.7)


@functools.cache
def target() -> LanguageModel:
    return language_model("llama", vocab_size=8, seed=4)


@functools.cache
def models() -> dict[str, LanguageModel]:
    return {"near": OncePerPrompt(noisy_copy(target(), 0.5)), "same": OncePerPrompt(target())}


@functools.cache
def joint(sampling: SamplingParams):
    return enumerated_joint(target(), PROMPT, sampling, 3)


def sampled(spec: str, sampling: SamplingParams = COOL, count: int = 1200):
    return run_cell(
        target(),
        spec,
        copies(PROMPT, count),
        gamma=2,
        batch_size=64,
        sampling=sampling,
        max_new_tokens=3,
        models=models(),
    )


def p_value(spec: str, sampling: SamplingParams = COOL) -> float:
    """The sampling test in small."""
    return joint_p_value(sampled(spec, sampling).outputs, joint(sampling))


@pytest.mark.parametrize("spec", ["ngram,max=2", "model:near", "early-exit:1"])
def test_without_a_fault_the_chi_square_passes(spec):
    assert p_value(spec) > SOUND


@pytest.mark.parametrize("spec", ["ngram,max=2", "model:near", "early-exit:1"])
def test_residual_skipped(monkeypatch, spec):
    """The correction token is sampled from p."""
    monkeypatch.setattr(verify, "_residual", lambda p_next, *_: p_next)
    assert p_value(spec) < BROKEN


def test_residual_without_its_negative_part_cut(monkeypatch):
    def faulty(p_next, tokens, lengths, q, num_accepted):
        at = num_accepted.clamp(max=tokens.shape[1] - 1)
        residual = (p_next - q[torch.arange(len(at)), at]).abs()
        return torch.where((num_accepted < lengths)[:, None], residual, p_next)

    monkeypatch.setattr(verify, "_residual", faulty)
    assert p_value("model:near") < BROKEN


@pytest.mark.parametrize("spec", ["ngram,max=2", "model:near"])
def test_target_warped_at_another_temperature(monkeypatch, spec):
    monkeypatch.setattr(
        speculative, "warp", lambda logits, params: warp(logits, replace(params, temperature=1.0))
    )
    assert p_value(spec) < BROKEN


def test_top_p_missing_on_the_target(monkeypatch):
    nucleus = SamplingParams(1.0, top_p=0.8)
    assert p_value("model:near", nucleus) > SOUND
    monkeypatch.setattr(
        speculative, "warp", lambda logits, params: warp(logits, replace(params, top_p=1.0))
    )
    assert p_value("model:near", nucleus) < BROKEN


def test_drafter_reports_another_distribution_than_it_drew_from(monkeypatch):
    """Drawn at temperature 1.4, reported at 0.7."""
    monkeypatch.setattr(_chain, "sample", lambda q, uniforms: sample(q.sqrt(), uniforms))
    assert p_value("model:near") < BROKEN


def test_drafter_warped_at_another_temperature(monkeypatch):
    """Legal, since it reports what it drew from; but then drafting with the target misses."""
    assert alpha(sampled("model:same")) == 1
    monkeypatch.setattr(
        _chain, "warp", lambda logits, params: warp(logits, replace(params, temperature=1.4))
    )
    assert alpha(sampled("model:same")) < 0.95
    assert p_value("model:near") > SOUND


def test_greedy_draft_reported_as_sampled(monkeypatch):
    """Deterministic drafts with the softmax as q instead of a one-hot."""
    monkeypatch.setattr(_chain, "sample", lambda q, uniforms: q.argmax(dim=-1))
    assert p_value("model:near") < BROKEN


def test_one_uniform_for_draft_and_acceptance(monkeypatch):
    sound = Uniforms.at
    monkeypatch.setattr(
        Uniforms,
        "at",
        lambda self, stream, positions, width=1: sound(
            self, "draft" if stream == "accept" else stream, positions, width
        ),
    )
    assert p_value("model:near") < BROKEN


def test_one_uniform_for_acceptance_and_residual(monkeypatch):
    sound = Uniforms.at
    monkeypatch.setattr(
        Uniforms,
        "at",
        lambda self, stream, positions, width=1: sound(
            self, "accept" if stream == "residual" else stream, positions, width
        ),
    )
    assert p_value("ngram,max=2") < BROKEN


def test_one_uniform_for_all_positions(monkeypatch):
    sound = Uniforms.at

    def faulty(self, stream, positions, width=1):
        return sound(self, stream, [0] * len(positions)).expand(-1, width)

    monkeypatch.setattr(Uniforms, "at", faulty)
    assert p_value("model:near") < BROKEN


def test_every_draft_accepted(monkeypatch):
    sound = speculative.verify_sampled

    def faulty(p, tokens, lengths, q, accept, residual):
        return sound(p, tokens, lengths, q, torch.zeros_like(accept), residual)

    monkeypatch.setattr(speculative, "verify_sampled", faulty)
    assert p_value("model:near") < BROKEN


def test_p_and_q_swapped_in_the_rule(monkeypatch):
    sound = speculative.verify_sampled

    def faulty(p, tokens, lengths, q, accept, residual):
        swapped = torch.cat([q, p[:, -1:]], dim=1)
        return sound(swapped, tokens, lengths, p[:, :-1], accept, residual)

    monkeypatch.setattr(speculative, "verify_sampled", faulty)
    assert p_value("model:near") < BROKEN
