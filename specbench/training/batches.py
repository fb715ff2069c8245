"""Samples in memory, split into training and kept-out, and padded into batches."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.errors import SpecbenchError
from specbench.training.corpus import Corpus, Sample

_KEPT_OUT_SHARE = 25  # one prompt in so many
_CHECKED_TOKENS = 4_000


@dataclass(frozen=True)
class Batch:
    """Sequences side by side, padded on the right.

    Attributes:
        tokens: [B, S] ids.
        states: layer to [B, S - 1, H] float32: the target's states of all tokens but the last.
        is_asked: [B, S] which tokens a drafter has to guess: those of the answer but its first,
            which the target draws from the prompt alone; in training some of the prompt too.
        temperatures: [B].
    """

    tokens: Tensor
    states: dict[int, Tensor]
    is_asked: Tensor
    temperatures: Tensor

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        return Batch(
            self.tokens.to(device),
            {layer: states.to(device) for layer, states in self.states.items()},
            self.is_asked.to(device),
            self.temperatures.to(device),
        )


@dataclass(frozen=True)
class Split:
    """A corpus in memory; no prompt is in both halves."""

    training: list[Sample]
    kept_out: list[Sample]

    @classmethod
    def of(cls, corpus: Corpus, layers: Sequence[int], longest: int) -> Split:
        """Read a corpus; sequences are cut at ``longest`` tokens.

        Raises:
            SpecbenchError: too few samples for both halves.
        """
        split = cls([], [])
        for sample in corpus.samples(layers):
            cut = _cut(sample, longest)
            if len(cut.answer) > 1:
                (split.kept_out if _is_kept_out(cut) else split.training).append(cut)
        if not split.training or not split.kept_out:
            raise SpecbenchError(
                f"the corpus {corpus.folder} has {len(split.training)} samples to train on and "
                f"{len(split.kept_out)} kept out; both are needed",
                "Raise --tokens, or give more --outputs or more different --prompts",
            )
        return split

    @property
    def checked(self) -> list[Sample]:
        """The kept-out answers that acceptance is measured on: some thousand tokens, from all."""
        drawn = list(self.kept_out)
        random.Random(0).shuffle(drawn)
        tokens = 0
        for count, sample in enumerate(drawn, 1):
            tokens += len(sample.answer)
            if tokens > _CHECKED_TOKENS:
                return drawn[:count]
        return drawn


def training_batches(
    samples: Sequence[Sample], tokens_per_batch: int, seed: int, skip: int = 0
) -> Iterator[Batch]:
    """Batches without end, of sequences of similar length, in an order drawn from the seed.

    Prompts are learned from like answers: what the target would say is known at every token, and
    the more of it a drafter has seen, the less it learns its answers by heart. But only as many of
    a prompt's last tokens as its answer has: a long prompt must not outweigh what is to be drafted.

    Args:
        samples: to learn from.
        tokens_per_batch: at most so many, padding included, or one sample.
        seed: of the order.
        skip: batches that a resumed training has had already.
    """
    epoch = 0
    while True:
        rng = random.Random(f"{seed}/{epoch}")
        groups = _grouped(samples, tokens_per_batch, rng)
        rng.shuffle(groups)
        for group in groups:
            if skip:
                skip -= 1
            else:
                yield padded(group, ask_prompts=True)
        epoch += 1


def padded(samples: Sequence[Sample], *, ask_prompts: bool = False) -> Batch:
    """One batch of the given samples; ``ask_prompts``: the ends of their prompts, as long as their
    answers, are to be guessed as well."""
    width = max(len(sample.tokens) for sample in samples)
    tokens = torch.zeros(len(samples), width, dtype=torch.long)
    is_asked = torch.zeros(len(samples), width, dtype=torch.bool)
    layers = samples[0].states
    states = {
        layer: torch.zeros(len(samples), width - 1, tensor.shape[1])
        for layer, tensor in layers.items()
    }
    for row, sample in enumerate(samples):
        length = len(sample.tokens)
        tokens[row, :length] = torch.tensor(sample.tokens)
        begin = sample.prompt_length + 1
        if ask_prompts:
            begin = max(1, begin - len(sample.answer))
        is_asked[row, begin:length] = True
        for layer, tensor in sample.states.items():
            states[layer][row, : length - 1] = tensor.float()
    temperatures = torch.tensor([sample.temperature for sample in samples])
    return Batch(tokens, states, is_asked, temperatures)


def _grouped(
    samples: Sequence[Sample], tokens_per_batch: int, rng: random.Random
) -> list[list[Sample]]:
    """Neighbours in length, so that padding is small; chance decides among equals."""
    ordered = sorted(samples, key=lambda sample: len(sample.tokens) + 24 * rng.random())
    groups: list[list[Sample]] = [[]]
    width = 0
    for sample in ordered:
        width = max(width, len(sample.tokens))
        if groups[-1] and (len(groups[-1]) + 1) * width > tokens_per_batch:
            groups.append([])
            width = len(sample.tokens)
        groups[-1].append(sample)
    return groups


def _cut(sample: Sample, longest: int) -> Sample:
    if len(sample.tokens) <= longest:
        return sample
    states = {layer: tensor[: longest - 1] for layer, tensor in sample.states.items()}
    return Sample(sample.tokens[:longest], sample.prompt_length, sample.temperature, states)


def _is_kept_out(sample: Sample) -> bool:
    """Decided by the prompt alone, so that another answer to it is on the same side."""
    prompt = repr(sample.tokens[: sample.prompt_length]).encode()
    return int(hashlib.sha256(prompt).hexdigest(), 16) % _KEPT_OUT_SHARE == 0
