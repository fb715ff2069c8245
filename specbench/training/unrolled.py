"""Training a head that reads its own outputs: a draft is unrolled over every place at once.

In use, step j of a draft sees the target's states up to where the draft began and the head's own
outputs of the steps before. In training all places begin a draft at once, so step j attends to

    keys of step 1 (the target's states) up to the place where its draft began,
    one key of each step 2..j: the one of its own draft.

Without this a head is trained on states that it never sees again after its first step (Zhang et
al. 2024, HASS; Li et al. 2025, EAGLE-3's training-time test).
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from specbench.training.batches import Batch
from specbench.training.trainee import Guess, Trainee


class UnrolledKeys:
    """Stands in for a cache: keys and values of all steps, one behind the other."""

    def __init__(self) -> None:
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Add a step's [B, heads, S, D]; returns those of all steps, [B, heads, steps S, D]."""
        self._keys.append(keys)
        self._values.append(values)
        return torch.cat(self._keys, dim=2), torch.cat(self._values, dim=2)


def unrolled_mask(width: int, step: int, device: torch.device | None = None) -> Tensor:
    """[1, 1, S, step S] what the inputs of a step (from 1) may see; input s began s - step + 1 ago.

    >>> unrolled_mask(3, 2)[0, 0].int().tolist()
    [[0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 1, 0], [1, 1, 0, 0, 0, 1]]
    """
    own = torch.arange(width, device=device)[:, None]
    keys = torch.arange(width, device=device)[None, :]
    parts = [keys <= own - (step - 1)]
    parts += [keys == own - (step - earlier) for earlier in range(2, step + 1)]
    return torch.cat(parts, dim=1)[None, None]


class UnrolledTrainee(Trainee):
    """A head of the EAGLE family.

    Input s of step j is the embedding of token s + 1 beside a state for token s: made of the
    target's own in step 1, the head's output of the step before from then on. Its output stands for
    the target's state of token s + 1 and so guesses token s + 2.
    """

    num_steps = 2

    @abstractmethod
    def enter(self, batch: Batch) -> Tensor:
        """The target's states as the head reads them in step 1, [B, S - 1, H]."""

    @abstractmethod
    def logits(self, outputs: Tensor) -> Tensor:
        """The head's outputs [M, H] to logits [M, K]."""

    def extra_loss(self, outputs: Tensor, states: Tensor) -> Tensor | None:
        """What outputs [M, H] are to have in common with the states that they stand for."""
        return None

    def guesses(self, batch: Batch) -> list[Guess]:
        found = []
        for step, outputs in enumerate(self.unroll(batch), 1):
            rows, starts = self.drafts(batch, step)
            guessed = outputs[rows, starts + step - 1]
            truth = batch.states[self.last_layer][rows, starts + step]
            extra = self.extra_loss(guessed, truth)
            found.append(Guess(self.logits(guessed), rows, starts, extra))
        return found

    def unroll(self, batch: Batch) -> list[Tensor]:
        """The head's outputs [B, S - 2, H] in every step."""
        width = batch.tokens.shape[1] - 2  # the last state has nothing after it to be compared with
        embeddings = self.embed(batch.tokens[:, 1 : width + 1])
        device = embeddings.device
        positions = torch.arange(width, device=device)[None].expand(len(embeddings), -1)
        keys = UnrolledKeys()
        inputs, found = self.enter(batch)[:, :width], []
        for step in range(1, self.num_steps + 1):
            mask = unrolled_mask(width, step, device)
            outputs = self.module(embeddings, inputs, positions, keys, mask)
            found.append(outputs)
            # input s goes on from the output of s - 1; input 0 has none and is never asked
            inputs = torch.cat((outputs[:, :1], outputs[:, :-1]), dim=1)
        return found
