"""The recorded overlap is the chance of acceptance, recomputed from the models themselves."""

from __future__ import annotations

import pytest
import torch

from specbench.sampling.warp import SamplingParams, warp
from tests.tiny import copies, language_model, noisy_copy, requests, run_cell

WARM = SamplingParams(0.8, top_k=15)


@torch.inference_mode()
def following(model, text: list[int]) -> torch.Tensor:
    return warp(model.model(torch.tensor([text]), use_cache=False).logits[0, -1], WARM)


def first_rounds(generation, batch):
    """(text before the round, overlap) of every request's first round."""
    rounds = generation.rounds
    for index, number in enumerate(rounds["round"]):
        if number == 0:
            owner = rounds["request"][index]
            text = [*batch[owner].token_ids, generation.outputs[owner][0]]
            yield index, text, rounds["overlap"][index]


def test_a_sampling_drafter_has_the_overlap_of_two_distributions():
    target = language_model("llama")
    near = noisy_copy(target, 0.3)
    batch = requests(6)
    generation = run_cell(
        target, "model:d", batch, gamma=3, batch_size=3, sampling=WARM, models={"d": near}
    )
    count = 0
    for _, text, overlap in first_rounds(generation, batch):
        beta = torch.minimum(following(target, text), following(near, text)).sum().item()
        assert overlap[0] == pytest.approx(beta, abs=1e-5)
        count += 1
    assert count == 6
    for overlap, evaluated in zip(
        generation.rounds["overlap"], generation.rounds["num_evaluated"], strict=True
    ):
        assert len(overlap) == evaluated
        assert all(0 <= value <= 1 + 1e-6 for value in overlap)


def test_a_one_hot_draft_has_the_targets_probability_of_it():
    target = language_model("llama")
    batch = requests(8)
    generation = run_cell(target, "ngram,max=1", batch, gamma=2, batch_size=3, sampling=WARM)
    checked = 0
    for index, text, overlap in first_rounds(generation, batch):
        if generation.rounds["num_drafted"][index]:
            last = max(at for at in range(len(text) - 1) if text[at] == text[-1])
            drafted = text[last + 1]
            assert overlap[0] == pytest.approx(following(target, text)[drafted].item(), abs=1e-5)
            checked += 1
        else:
            assert overlap == []
    assert checked > 0


def test_the_mean_overlap_is_the_acceptance_in_expectation():
    """Accepted minus overlap, summed over evaluated positions, is a martingale: |z| below 3.5."""
    target = language_model("llama", vocab_size=8, seed=4)
    models = {"d": noisy_copy(target, 0.5)}
    batch = copies([3, 1, 4, 1, 5], 60)
    for spec in ("model:d", "ngram,max=1", "early-exit:1"):
        rounds = run_cell(
            target,
            spec,
            batch,
            gamma=3,
            batch_size=30,
            max_new_tokens=24,
            sampling=SamplingParams(1.0),
            models=models,
        ).rounds
        excess = variance = 0.0
        for accepted, overlap in zip(rounds["num_accepted"], rounds["overlap"], strict=True):
            for position, beta in enumerate(overlap):
                excess += (position < accepted) - beta
                variance += beta * (1 - beta)
        assert variance > 50
        assert abs(excess) / variance**0.5 < 3.5
