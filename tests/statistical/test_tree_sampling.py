"""Sampled output of tree drafts is distributed as the target's own, as for chains."""

from __future__ import annotations

import functools

import pytest

from specbench.engine.request import Generation
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams
from tests.lossless import SOUND, enumerated_joint, joint_p_value
from tests.tiny import (
    OncePerPrompt,
    alpha,
    copies,
    language_model,
    noisy_copy,
    requests,
    run_cell,
)

PROMPT = (3, 1, 4, 1, 5, 2, 6, 3, 1, 4)
WARPS = {
    "cool": SamplingParams(0.7),
    "plain": SamplingParams(1.0),
    "top-k": SamplingParams(1.0, top_k=4),
    "top-p": SamplingParams(1.0, top_p=0.8),
    "both": SamplingParams(0.7, top_k=6, top_p=0.9),
}
TREES = ("model:near,tree=8", "model:near,tree=6,topk=2", "model:near,tree=14,topk=3")


@functools.cache
def target() -> LanguageModel:
    return language_model("llama", vocab_size=8, seed=4)


@functools.cache
def models() -> dict[str, LanguageModel]:
    return {"near": OncePerPrompt(noisy_copy(target(), 0.5)), "same": OncePerPrompt(target())}


@functools.cache
def joint(sampling: SamplingParams, length: int, stop_tokens: tuple[int, ...] = ()):
    return enumerated_joint(target(), PROMPT, sampling, length, stop_tokens)


def sampled(
    spec: str, gamma: int, warp: str, *, count: int = 800, batch_size: int = 48, **options
) -> tuple[Generation, float]:
    length = max(3, gamma + 1)
    generation = run_cell(
        target(),
        spec,
        copies(PROMPT, count),
        gamma=gamma,
        batch_size=batch_size,
        sampling=WARPS[warp],
        max_new_tokens=length,
        models=models(),
        **options,
    )
    stops = tuple(options.get("stop_tokens", ()))
    return generation, joint_p_value(generation.outputs, joint(WARPS[warp], length, stops))


@pytest.mark.parametrize(
    ("spec", "warp"),
    [*((TREES[2], warp) for warp in WARPS), *((tree, "cool") for tree in TREES[:2])],
)
def test_trees_sample_from_the_model(spec, warp):
    generation, p_value = sampled(spec, 2, warp)
    assert 0.3 < alpha(generation) < 1
    assert p_value > SOUND


@pytest.mark.parametrize(("gamma", "warp"), [(1, "plain"), (3, "cool"), (3, "top-p")])
def test_other_depths(gamma, warp):
    _, p_value = sampled(TREES[2], gamma, warp)
    assert p_value > SOUND


@pytest.mark.parametrize(("batch_size", "count"), [(1, 200), (3, 400)])
def test_small_batches(batch_size, count):
    _, p_value = sampled(TREES[2], 2, "plain", count=count, batch_size=batch_size)
    assert p_value > SOUND


def test_a_stop_token_does_not_bias_what_comes_before_it():
    generation, p_value = sampled(TREES[2], 3, "plain", stop_tokens=[1, 5])
    assert len({len(output) for output in generation.outputs}) == 4
    assert p_value > SOUND


def test_more_children_accept_more():
    """Chosen children: what is accepted on a level is the sum of their p."""
    few, _ = sampled("model:same,tree=3,topk=1", 2, "plain", count=200)
    more, _ = sampled("model:same,tree=14,topk=3", 2, "plain", count=200)
    assert alpha(more) > alpha(few) + 0.15


@pytest.mark.parametrize("warp", ["plain", "both"])
def test_a_row_does_not_depend_on_its_batch(warp):
    """Float32: the same tokens for the same seed, in any slot and company, in any order."""
    big = language_model("llama")
    near = {"near": noisy_copy(big, 0.3)}
    batch = requests(9)

    def outputs(batch_size: int, order: list[int]) -> dict[str, list[int]]:
        chosen = [batch[index] for index in order]
        generation = run_cell(
            big,
            "model:near,tree=12,topk=4",
            chosen,
            gamma=3,
            batch_size=batch_size,
            sampling=WARPS[warp],
            max_new_tokens=10,
            models=near,
        )
        ids = [request.prompt_id for request in chosen]
        return dict(zip(ids, generation.outputs, strict=True))

    alone = outputs(1, list(range(9)))
    assert outputs(3, [8, 2, 5, 0, 7, 1, 3, 6, 4]) == alone
    assert outputs(8, list(range(9))[::-1]) == alone
