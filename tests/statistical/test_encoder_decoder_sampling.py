"""Encoder-decoders: sampled output is distributed as the target's own, whatever its batch is.

Chi-square against the enumerated joint distribution, on a vocabulary of eight tokens. Two sources
of different length are asked in turn, so that rows of both stand in one batch.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pytest
import torch

from specbench.engine.request import Generation
from specbench.models.encoder_decoder import EncoderDecoder
from specbench.sampling.warp import SamplingParams
from tests.lossless import SOUND, joint_p_value, shaped
from tests.tiny import Words, alpha, copies, noisy_copy, run_cell
from tests.tiny_seq2seq import random_encoder_decoder

SOURCES = ((3, 1, 4, 1, 5, 2, 6, 3, 1, 4), (2, 7, 1))
DRAFTERS = ("ngram,min=1,max=2", "model:near")
MAIN = ("t5", "bart", "marian")
PLAIN = SamplingParams(1.0)
SHAPED = SamplingParams(1.3, top_k=6, top_p=0.9)


@functools.cache
def target(kind: str) -> EncoderDecoder:
    model = random_encoder_decoder(kind, vocab_size=8, seed=4)
    return EncoderDecoder(model, Words("abcdefgh"), f"tiny-{kind}")


@functools.cache
def models(kind: str):
    return {"near": noisy_copy(target(kind), 0.4)}


@functools.cache
@torch.inference_mode()
def joint(kind: str, source: Sequence[int], sampling: SamplingParams, length: int):
    """Probability of every output, from the model without any cache."""
    found = {(): 1.0}
    for _ in range(length):
        begun = [[*target(kind).start_tokens, *output] for output in found]
        logits = (
            target(kind)
            .model(
                input_ids=torch.tensor([source] * len(begun)),
                decoder_input_ids=torch.tensor(begun),
                use_cache=False,
            )
            .logits[:, -1]
        )
        found = {
            (*output, token): mass * probability
            for (output, mass), row in zip(
                found.items(), shaped(logits, sampling).tolist(), strict=True
            )
            for token, probability in enumerate(row)
        }
    return found


def p_values(
    kind: str, spec: str | None, gamma: int, sampling: SamplingParams, count: int, batch_size: int
) -> tuple[Generation, list[float]]:
    """Of many outputs of each source."""
    pairs = zip(*(copies(source, count) for source in SOURCES), strict=True)
    asked = [request for pair in pairs for request in pair]
    named = [
        type(request)(f"{request.prompt_id}/{index % 2}", request.conversation, request.token_ids)
        for index, request in enumerate(asked)
    ]
    generation = run_cell(
        target(kind),
        spec,
        named,
        gamma=gamma,
        batch_size=batch_size,
        sampling=sampling,
        max_new_tokens=3,
        models=models(kind),
    )
    outputs = [generation.outputs[which::2] for which in range(2)]
    return generation, [
        joint_p_value(found, joint(kind, source, sampling, 3))
        for found, source in zip(outputs, SOURCES, strict=True)
    ]


@pytest.mark.parametrize("kind", MAIN)
def test_the_baseline_samples_from_the_model(kind):
    _, values = p_values(kind, None, 0, PLAIN, 400, 8)
    assert min(values) > SOUND


@pytest.mark.parametrize("sampling", [PLAIN, SHAPED], ids=["plain", "shaped"])
@pytest.mark.parametrize("spec", DRAFTERS)
@pytest.mark.parametrize("kind", MAIN)
def test_speculation_samples_from_the_model(kind, spec, sampling):
    generation, values = p_values(kind, spec, 2, sampling, 400, 8)
    assert 0.1 < alpha(generation) < 0.95
    assert min(values) > SOUND


@pytest.mark.parametrize(("batch_size", "count"), [(1, 400), (3, 400)])
@pytest.mark.parametrize("spec", DRAFTERS)
def test_small_batches(spec, batch_size, count):
    _, values = p_values("t5", spec, 2, PLAIN, count, batch_size)
    assert min(values) > SOUND
