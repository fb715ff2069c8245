"""Greedy output is the baseline's and Hugging Face's, ids and length, whatever drafts it."""

from __future__ import annotations

import functools

import pytest

from specbench.engine.request import Generation, Request
from tests.lossless import greedy_faults
from tests.tiny import (
    ARCHITECTURES,
    alpha,
    hugging_face_greedy,
    language_model,
    noisy_copy,
    requests,
    run_cell,
    with_references,
)

LENGTH = 12
GAMMAS = (1, 2, 4, 8)
BATCH_SIZES = {1: 3, 3: 7, 8: 10}
"""Batch size and number of prompts: each has more prompts than slots, so slots are refilled."""

DRAFTERS = (
    "ngram",
    "ngram,match=first",
    "ngram,min=2,max=4",
    "model:near",
    "early-exit:1",
    "synthetic:0.6",
)


@functools.cache
def models():
    target = language_model("llama")
    return {"near": noisy_copy(target, 0.15), "same": target, "other": language_model(seed=9)}


@functools.cache
def prompts() -> tuple[Request, ...]:
    ready = with_references(language_model("llama"), requests(10), LENGTH + max(GAMMAS) + 1)
    return tuple(ready)


@functools.cache
def reference(stop_tokens: tuple[int, ...] = (), length: int = LENGTH) -> list[list[int]]:
    return hugging_face_greedy(language_model("llama"), prompts(), length, stop_tokens)


def cell(spec: str | None, batch_size: int = 3, **options) -> Generation:
    batch = options.pop("batch", prompts()[: BATCH_SIZES[batch_size]])
    options.setdefault("max_new_tokens", LENGTH)
    return run_cell(
        language_model("llama"), spec, batch, batch_size=batch_size, models=models(), **options
    )


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
def test_the_baseline_is_generate(batch_size):
    outputs = cell(None, batch_size).outputs
    assert greedy_faults(outputs, reference()[: len(outputs)]) == []


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("spec", DRAFTERS)
def test_every_drafter_gamma_and_batch_size(spec, gamma, batch_size):
    generation = cell(spec, batch_size, gamma=gamma)
    assert greedy_faults(generation.outputs, reference()[: len(generation.outputs)]) == []
    assert 0 < alpha(generation) < 1
    longest = max(generation.rounds["num_drafted"])
    assert longest == gamma or (spec.endswith("first") and 1 < longest < gamma)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_drafter_that_is_the_target_is_always_accepted(gamma):
    generation = cell("model:same", gamma=gamma)
    assert greedy_faults(generation.outputs, reference()[:7]) == []
    assert generation.rounds["num_accepted"] == [gamma] * len(generation.rounds["step"])


@pytest.mark.parametrize("gamma", GAMMAS)
def test_a_drafter_that_is_always_wrong_costs_no_token(gamma):
    generation = cell("synthetic:0", gamma=gamma)
    assert greedy_faults(generation.outputs, reference()[:7]) == []
    assert set(generation.rounds["num_accepted"]) == {0}
    assert set(generation.rounds["num_emitted"]) == {1}


def test_an_unrelated_drafter_costs_no_token():
    generation = cell("model:other", gamma=4)
    assert greedy_faults(generation.outputs, reference()[:7]) == []
    assert alpha(generation) < 0.2


@pytest.mark.parametrize("spec", [None, *DRAFTERS, "model:same"])
def test_a_stop_token_cuts_inside_a_draft(spec):
    stops = tuple({output[position] for output in reference()[:3] for position in (4, 9)})
    expected = reference(stops)[:7]
    assert {len(output) for output in expected} > {LENGTH}, "some must stop, some must not"
    generation = cell(spec, gamma=0 if spec is None else 4, stop_tokens=stops)
    assert greedy_faults(generation.outputs, expected) == []
    for output, reason in zip(generation.outputs, generation.requests["stop_reason"], strict=True):
        assert reason == ("stop" if output[-1] in stops else "length")
    if spec == "model:same":
        emitted, accepted = (generation.rounds[f"num_{what}"] for what in ("emitted", "accepted"))
        assert any(e < a + 1 for e, a in zip(emitted, accepted, strict=True))
        assert set(accepted) == {4}, "acceptance counts are not cut"


def test_a_stop_token_that_comes_first_ends_the_request_before_any_round():
    first = reference()[0][0]
    expected = reference((first,))[:7]
    generation = cell("model:near", gamma=2, stop_tokens=[first])
    assert expected[0] == [first]
    assert greedy_faults(generation.outputs, expected) == []
    assert 0 not in generation.rounds["request"]


@pytest.mark.parametrize("spec", [None, "ngram", "model:near", "early-exit:1", "synthetic:0.6"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_outputs(spec, length):
    generation = cell(spec, gamma=0 if spec is None else 4, max_new_tokens=length)
    assert generation.outputs == [output[:length] for output in reference()[:7]]
    assert (len(generation.rounds["step"]) == 0) == (length == 1)


@pytest.mark.parametrize("spec", [None, "ngram", "model:near", "early-exit:1", "synthetic:0.6"])
def test_fewer_prompts_than_slots(spec):
    generation = cell(spec, 8, gamma=0 if spec is None else 4, batch=prompts()[:2])
    assert greedy_faults(generation.outputs, reference()[:2]) == []
    assert max(generation.rounds["active_rows"]) == 2


def test_prompts_of_one_token():
    batch = [Request(f"one{token}", "c", [token]) for token in (5, 6, 7)]
    expected = hugging_face_greedy(language_model("llama"), batch, LENGTH)
    for spec in (None, "ngram", "model:near", "early-exit:1"):
        outputs = cell(spec, gamma=0 if spec is None else 3, batch=batch).outputs
        assert greedy_faults(outputs, expected) == []


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_architecture(kind):
    target = language_model(kind)
    near = {"near": noisy_copy(target, 0.1)}
    batch = requests(4, seed=3)
    expected = hugging_face_greedy(target, batch, 10)
    for spec, gamma in ((None, 0), ("ngram", 3), ("model:near", 3), ("early-exit:1", 2)):
        for batch_size, count in ((1, 2), (3, 4)):
            generation = run_cell(
                target,
                spec,
                batch[:count],
                gamma=gamma,
                batch_size=batch_size,
                max_new_tokens=10,
                models=near,
            )
            assert greedy_faults(generation.outputs, expected[:count]) == [], (spec, batch_size)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_both_attention_implementations(kind, attention):
    target = language_model(kind, attn_implementation=attention)
    batch = requests(4, seed=5)
    assert target.model.config._attn_implementation == attention
    expected = hugging_face_greedy(target, batch, 10)
    for spec, gamma in ((None, 0), ("early-exit:1", 3)):
        generation = run_cell(target, spec, batch, gamma=gamma, batch_size=3, max_new_tokens=10)
        assert greedy_faults(generation.outputs, expected) == []


def test_tied_embeddings():
    target = language_model("qwen2", tie_word_embeddings=True)
    batch = requests(4, seed=5)
    expected = hugging_face_greedy(target, batch, 10)
    generation = run_cell(target, "early-exit:1", batch, gamma=3, batch_size=3, max_new_tokens=10)
    assert greedy_faults(generation.outputs, expected) == []


@pytest.mark.parametrize("spec", [None, "ngram", "early-exit:1", "model:near,tree=24,topk=3"])
def test_a_window_of_its_own_making_that_the_text_fills_changes_nothing(spec):
    """GPT-Neo's: slots of a tree reach beyond the window, positions do not."""
    target = language_model("gpt_neo", window_size=24)
    batch = [request for request in requests(8, seed=5) if len(request.token_ids) < 12][:4]
    longest = max(len(request.token_ids) for request in batch)
    length = target.context_limit - longest - 4
    expected = hugging_face_greedy(target, batch, length)
    near = {"near": noisy_copy(target, 0.1)}
    generation = run_cell(
        target,
        spec,
        batch,
        gamma=0 if spec is None else 3,
        batch_size=3,
        max_new_tokens=length,
        models=near,
    )
    assert greedy_faults(generation.outputs, expected) == []
