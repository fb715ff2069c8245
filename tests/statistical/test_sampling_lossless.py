"""Sampled output is distributed as the target's own: chi-square against the enumerated joint.

The vocabulary has eight tokens, so that the probability of every output of three or four tokens can
be had from the model itself, without cache, drafter or specbench's sampling. Thousands of requests
share one prompt and differ in their name, which keys their random numbers.
"""

from __future__ import annotations

import functools

import pytest

from specbench.engine.request import Generation
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams
from tests.lossless import SOUND, enumerated_joint, joint_p_value
from tests.tiny import (
    OncePerPrompt,
    Words,
    alpha,
    copies,
    language_model,
    noisy_copy,
    requests,
    run_cell,
    with_head,
)

PROMPT = (3, 1, 4, 1, 5, 2, 6, 3, 1, 4)
DRAFTERS = ("ngram,min=1,max=2", "model:near", "early-exit:1")
WARPS = {
    "cool": SamplingParams(0.7),
    "plain": SamplingParams(1.0),
    "hot": SamplingParams(1.5),
    "top-k": SamplingParams(1.0, top_k=4),
    "top-p": SamplingParams(1.0, top_p=0.8),
    "all": SamplingParams(1.3, top_k=6, top_p=0.9),
}
PAIRS = [(1, "cool"), (1, "all"), (2, "plain"), (2, "top-k"), (3, "hot"), (3, "top-p")]


@functools.cache
def target() -> LanguageModel:
    model = language_model("llama", vocab_size=8, seed=4).model
    return LanguageModel(model, Words("abcdefgh"), "tiny")


@functools.cache
def models() -> dict[str, LanguageModel]:
    padded = {"narrow": with_head(target(), 6), "wide": with_head(target(), 12)}
    found = {"near": noisy_copy(target(), 0.5), "same": target(), **padded}
    return {name: OncePerPrompt(model) for name, model in found.items()}


@functools.cache
def joint(sampling: SamplingParams, length: int, stop_tokens: tuple[int, ...] = ()):
    return enumerated_joint(target(), PROMPT, sampling, length, stop_tokens)


def sampled(
    spec: str | None, gamma: int, warp: str, *, count: int = 800, batch_size: int = 48, **options
) -> tuple[Generation, float]:
    """Many outputs of one prompt, long enough that every draft position counts; their p-value."""
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


@pytest.mark.parametrize("warp", WARPS)
def test_the_baseline_samples_from_the_model(warp):
    _, p_value = sampled(None, 0, warp)
    assert p_value > SOUND


@pytest.mark.parametrize(("gamma", "warp"), PAIRS)
@pytest.mark.parametrize("spec", DRAFTERS)
def test_speculation_samples_from_the_model(spec, gamma, warp):
    generation, p_value = sampled(spec, gamma, warp)
    assert 0.1 < alpha(generation) < 0.95
    assert p_value > SOUND


@pytest.mark.parametrize(("batch_size", "count"), [(1, 200), (3, 400), (8, 400)])
@pytest.mark.parametrize("spec", DRAFTERS)
def test_small_batches(spec, batch_size, count):
    _, p_value = sampled(spec, 2, "plain", count=count, batch_size=batch_size)
    assert p_value > SOUND


@pytest.mark.parametrize("spec", [None, *DRAFTERS])
def test_a_stop_token_does_not_bias_what_comes_before_it(spec):
    generation, p_value = sampled(spec, 0 if spec is None else 3, "plain", stop_tokens=[1, 5])
    assert len({len(output) for output in generation.outputs}) == (3 if spec is None else 4)
    assert p_value > SOUND


@pytest.mark.parametrize("spec", ["model:narrow", "model:wide"])
def test_a_drafter_with_a_head_of_another_width(spec):
    """The target's ids that a narrow head lacks are never drafted, a wide one's extra ids neither:
    what is left is the target's own distribution on the ids that both have."""
    generation, p_value = sampled(spec, 2, "plain")
    assert 0.1 < alpha(generation) <= 1
    assert (alpha(generation) == 1) == (spec == "model:wide")
    assert p_value > SOUND


def test_drafting_with_the_target_itself_is_always_accepted():
    generation, p_value = sampled("model:same", 3, "all")
    assert alpha(generation) == 1
    assert p_value > SOUND


@pytest.mark.parametrize("seed", [1])
def test_another_seed_gives_another_sound_sample(seed):
    generation, p_value = sampled("model:near", 2, "plain", seed=seed)
    usual, _ = sampled("model:near", 2, "plain", count=300)
    same = [a == b for a, b in zip(generation.outputs, usual.outputs, strict=False)]
    assert sum(same) / len(same) < 0.2
    assert p_value > SOUND


@pytest.mark.parametrize("warp", ["plain", "all"])
@pytest.mark.parametrize("spec", [None, *DRAFTERS])
def test_a_row_does_not_depend_on_its_batch(spec, warp):
    """Float32: the same tokens for the same seed, in any slot and company, in any order."""
    big = language_model("llama")
    near = {"near": noisy_copy(big, 0.3)}
    batch = requests(9)

    def outputs(batch_size: int, order: list[int]) -> dict[str, list[int]]:
        chosen = [batch[index] for index in order]
        generation = run_cell(
            big,
            spec,
            chosen,
            gamma=0 if spec is None else 3,
            batch_size=batch_size,
            sampling=WARPS[warp],
            max_new_tokens=10,
            models=near,
        )
        ids = [request.prompt_id for request in chosen]
        return dict(zip(ids, generation.outputs, strict=True))

    alone = outputs(1, list(range(9)))
    assert outputs(3, list(range(9))) == alone
    assert outputs(3, [8, 2, 5, 0, 7, 1, 3, 6, 4]) == alone
    assert outputs(8, list(range(9))[::-1]) == alone
