"""What training computes over whole batches, computed one draft at a time and step by step.

The words of ``specbench.training.trainee``: a draft that starts at place s knows the tokens up to
s + 1 and the target's states up to s; its step j guesses token s + 1 + j.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from specbench.models.cache import RowCache
from specbench.models.language_model import LanguageModel
from specbench.training.answering import Answering
from specbench.training.batches import Batch, padded
from specbench.training.corpus import Sample
from specbench.training.session import KINDS
from specbench.training.trainee import Trainee
from specbench.training.unrolled import UnrolledTrainee
from tests.tiny import VOCAB, language_model, requests

KIND_NAMES = tuple(sorted(KINDS))


def target() -> LanguageModel:
    """Six layers, so that EAGLE-3's three features differ."""
    return language_model("llama", num_hidden_layers=6)


@functools.cache
def answers(
    count: int = 6, length: int = 9, temperatures: tuple[float, ...] = (0.0, 1.0), seed: int = 0
) -> tuple[Sample, ...]:
    """Answers of a tiny target, cut to different lengths, with float32 states of every layer."""
    model = target()
    answering = Answering(
        model,
        batch_size=3,
        max_new_tokens=length,
        layers=(),
        generator=torch.Generator().manual_seed(seed),
    )
    prompts = [list(request.token_ids) for request in requests(count, seed=seed)]
    heat = [temperatures[index % len(temperatures)] for index in range(count)]
    found = answering.answer(prompts, heat)
    for index, sample in enumerate(found):
        sample.tokens = sample.tokens[: len(sample.tokens) - index % 4]
        sample.states = full_states(model, sample.tokens[:-1])
    return tuple(found)


@torch.no_grad()
def full_states(model: LanguageModel, tokens: Sequence[int]) -> dict[int, Tensor]:
    """All layers' states [n, H] from transformers' own forward, without any cache."""
    outputs = model.model(torch.tensor([list(tokens)]), use_cache=False, output_hidden_states=True)
    return {layer: states[0].clone() for layer, states in enumerate(outputs.hidden_states)}


def trainee(kind: str, vocab: int = 40, seed: int = 0, num_steps: int | None = None) -> Trainee:
    """A trainee whose weights are random throughout, so that nothing is hidden by zeros."""
    model = target()
    torch.manual_seed(seed)
    made = KINDS[kind](model, torch.randperm(VOCAB)[:vocab])
    if num_steps is not None:
        made.num_steps = num_steps
    with torch.no_grad():
        for weight in made.module.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 1 / weight.shape[-1] ** 0.5)
            elif kind == "model":
                weight.fill_(3.0)
    return made


def batch(samples: Sequence[Sample]) -> Batch:
    return padded(samples)


def starts(sample: Sample, step: int) -> list[int]:
    """Where a drafter is asked: its first token is the answer's second; the guess must exist."""
    first = sample.prompt_length - 1
    return [s for s in range(first, len(sample.tokens)) if s + 1 + step < len(sample.tokens)]


@torch.no_grad()
def target_logits(sample: Sample) -> Tensor:
    """[n, V] after each token."""
    logits: Tensor = target().model(torch.tensor([sample.tokens]), use_cache=False).logits[0]
    return logits


def draft(made: Trainee, sample: Sample, start: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Logits [K] of each step and, for EAGLE, the state [H] that it stands for."""
    states = {layer: tensor[None] for layer, tensor in sample.states.items()}
    if made.kind == "medusa":
        for head in made.module:
            yield made.head_rows @ head(states[made.last_layer][0, start]), None
    elif made.kind == "model":
        outputs = made.module(torch.tensor([sample.tokens[: start + 2]]), use_cache=False)
        yield outputs.logits[0, -1, made.columns], None
    else:
        for output in eagle_draft(made, sample, start):
            logits = made.head_rows @ output if made.kind == "eagle" else made.module.logits(output)
            yield logits, output if made.kind == "eagle" else None


def eagle_draft(made: Trainee, sample: Sample, start: int) -> Iterator[Tensor]:
    """The head's outputs [H] in every step: a prefill of the true pairs, then one pair a step."""
    assert isinstance(made, UnrolledTrainee)
    embed = made.target.model.get_input_embeddings()
    tokens, last = torch.tensor([sample.tokens]), made.last_layer
    if made.kind == "eagle":
        inputs = sample.states[last][None]
    else:
        features = [sample.states[layer] for layer in (2, 3, 3)]  # of 6 layers
        inputs = made.module.fc(torch.cat(features, dim=-1))[None]
    cache = RowCache(1, start + 1 + made.num_steps)
    inputs, begin = inputs[:, : start + 1], 0
    for _ in range(made.num_steps):
        width = inputs.shape[1]
        extent = cache.expect([begin], width, torch.device("cpu"))
        positions = torch.arange(begin, begin + width)[None]
        mask = (torch.arange(extent) <= positions[0, :, None])[None, None]
        pairs = embed(tokens[:, begin + 1 : begin + width + 1])
        outputs = made.module(pairs, inputs, positions, cache, mask)
        inputs, begin = outputs[:, -1:], begin + width
        yield outputs[0, -1]
