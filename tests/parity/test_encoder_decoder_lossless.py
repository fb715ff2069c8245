"""Encoder-decoders: greedy output is Hugging Face's, ids and length, whatever drafts it.

Sources are ragged and there are more of them than slots, so that rows of one batch differ in the
length of source and output alike.
"""

from __future__ import annotations

import functools

import pytest

from specbench.engine.request import Generation, Request
from tests.lossless import greedy_faults, watch_caches
from tests.tiny import GREEDY, alpha, noisy_copy, requests, run_cell, with_references
from tests.tiny_seq2seq import KINDS, encoder_decoder, generate_greedily

LENGTH = 12
BATCH_SIZES = {1: 3, 3: 7, 8: 10}
"""Batch size and number of prompts."""
DRAFTERS = ("ngram", "ngram,match=first", "model:near", "model:near,gamma=auto", "synthetic:0.6")
MAIN = ("t5", "bart", "marian")


@functools.cache
def models(kind: str):
    target = encoder_decoder(kind)
    return {
        "near": noisy_copy(target, 0.15),
        "same": target,
        "other": encoder_decoder(kind, seed=9),
    }


@functools.cache
def prompts(kind: str) -> tuple[Request, ...]:
    return tuple(with_references(encoder_decoder(kind), requests(10), LENGTH + 9))


@functools.cache
def reference(kind: str, stop_tokens: tuple[int, ...] = ()) -> list[list[int]]:
    return generate_greedily(encoder_decoder(kind), prompts(kind), LENGTH, stop_tokens)


def cell(kind: str, spec: str | None, batch_size: int = 3, **options) -> Generation:
    batch = options.pop("batch", prompts(kind)[: BATCH_SIZES[batch_size]])
    options.setdefault("max_new_tokens", LENGTH)
    return run_cell(
        encoder_decoder(kind), spec, batch, batch_size=batch_size, models=models(kind), **options
    )


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_baseline_is_generate(kind, batch_size):
    outputs = cell(kind, None, batch_size).outputs
    assert greedy_faults(outputs, reference(kind)[: len(outputs)]) == []
    assert len({tuple(output) for output in outputs}) > len(outputs) / 2, "sources matter"


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("gamma", [1, 4])
@pytest.mark.parametrize("spec", DRAFTERS)
@pytest.mark.parametrize("kind", MAIN)
def test_every_drafter_gamma_and_batch_size(kind, spec, gamma, batch_size):
    generation = cell(kind, spec, batch_size, gamma=gamma)
    assert greedy_faults(generation.outputs, reference(kind)[: len(generation.outputs)]) == []
    assert 0 < alpha(generation) < 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_drafter_that_is_the_target_is_always_accepted(kind):
    generation = cell(kind, "model:same", gamma=3)
    assert greedy_faults(generation.outputs, reference(kind)[:7]) == []
    assert set(generation.rounds["num_accepted"]) == {3}


@pytest.mark.parametrize("spec", ["model:other", "synthetic:0"])
def test_a_drafter_that_is_mostly_wrong_costs_no_token(spec):
    generation = cell("t5", spec, gamma=4)
    assert greedy_faults(generation.outputs, reference("t5")[:7]) == []
    assert alpha(generation) < 0.2


@pytest.mark.parametrize("spec", [None, *DRAFTERS])
@pytest.mark.parametrize("kind", MAIN)
def test_a_stop_token_cuts_inside_a_draft(kind, spec):
    stops = tuple({output[position] for output in reference(kind)[:3] for position in (4, 9)})
    expected = reference(kind, stops)[:7]
    assert min(map(len, expected)) < LENGTH
    generation = cell(kind, spec, gamma=0 if spec is None else 4, stop_tokens=stops)
    assert greedy_faults(generation.outputs, expected) == []


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", MAIN)
def test_both_attention_implementations(kind, attention):
    target = encoder_decoder(kind, attn_implementation=attention)
    assert target.model.config._attn_implementation == attention
    batch = requests(4, seed=5)
    generation = run_cell(target, "ngram", batch, gamma=3, batch_size=3, max_new_tokens=10)
    assert greedy_faults(generation.outputs, generate_greedily(target, batch, 10)) == []


@pytest.mark.parametrize(
    ("kind", "layers"),
    [
        ("t5", {"num_layers": 1, "num_decoder_layers": 3}),
        ("bart", {"encoder_layers": 1, "decoder_layers": 3}),
        ("marian", {"encoder_layers": 3, "decoder_layers": 1}),
    ],
)
def test_encoder_and_decoder_of_different_depth(kind, layers):
    target, batch = encoder_decoder(kind, **layers), requests(4, seed=5)
    generation = run_cell(target, "ngram", batch, gamma=3, batch_size=3, max_new_tokens=10)
    # transformers makes a cache of as many layers as the encoder has
    expected = generate_greedily(target, batch, 10, use_cache=False)
    assert greedy_faults(generation.outputs, expected) == []


@pytest.mark.parametrize("kind", MAIN)
def test_keys_and_values_after_a_rollback_are_those_of_a_fresh_prefill(kind):
    watch, generation = watch_caches(
        encoder_decoder(kind),
        "model:near",
        prompts(kind)[:6],
        gamma=3,
        batch_size=3,
        sampling=GREEDY,
        models=models(kind),
    )
    assert watch.checked > 10
    assert watch.behind == 2, "some draft was accepted whole"
    assert max(watch.target_gap, watch.drafter_gap) < 1e-5
    assert 0 < alpha(generation) < 1


def test_what_is_recorded_of_a_source():
    """A source's tokens are the prompt's; the context is the decoder's: start token and output."""
    generation = cell("t5", "model:near", gamma=3)
    lengths = [len(request.token_ids) for request in prompts("t5")[:7]]
    assert generation.requests["prompt_tokens"] == lengths
    assert min(generation.requests["drafter_prefill_s"]) > 0
    rounds = zip(generation.rounds["context_length"], generation.rounds["position"], strict=True)
    assert all(context == position + 1 for context, position in rounds)


@pytest.mark.parametrize("kind", MAIN)
def test_the_model_itself_is_left_as_it_was(kind):
    target = encoder_decoder(kind)
    hooks = [m for m in target.model.modules() if m._forward_hooks or m._forward_pre_hooks]
    assert hooks == []
    assert generate_greedily(target, prompts(kind)[:2], LENGTH) == reference(kind)[:2]
