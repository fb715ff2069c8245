"""What the training loop needs to know of a kind of drafter.

A kind gives its module, how it guesses on a batch (one set of logits per draft step, beside the
target's logits at the same places) and how it is saved. Loss and kept-out acceptance are the same
for all kinds and live here: the loss is the soft cross-entropy between the target's distribution
and the drafter's, which at its minimum makes q equal to p and so alpha equal to one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from specbench.models.target import LanguageModel
from specbench.training.batches import Batch

STEP_WEIGHT = 0.8
"""A token one step further ahead counts so much less: it is evaluated less often."""


@dataclass(frozen=True)
class Guess:
    """A drafter's guesses, one step of a draft, at M places of a batch.

    Attributes:
        logits: [M, K] over the draft vocabulary.
        rows: [M] the sample of each place.
        places: [M] where in the sample the target's state lies whose logits are guessed.
        starts: [M] where in the sample the draft began; the same draft in every step.
        extra_loss: what else the kind wants to be small.
    """

    logits: Tensor
    rows: Tensor
    places: Tensor
    starts: Tensor
    extra_loss: Tensor | None = None


@dataclass(frozen=True)
class Acceptance:
    """Kept-out acceptance of each draft step, given that the steps before it were accepted.

    Attributes:
        greedy: chance that the drafter's first choice is the target's.
        overlap: mean of sum_x min(p, q) at temperature 1.
    """

    greedy: list[float]
    overlap: list[float]


class Trainee(ABC):
    """A drafter in training.

    Args:
        target: its target, frozen.
        ids: [K] token ids of the draft vocabulary, most frequent first.

    Attributes:
        columns: [K] token ids that the columns of ``Guess.logits`` stand for.
    """

    kind: ClassVar[str]
    num_steps: ClassVar[int]
    learning_rate: ClassVar[float] = 1e-3
    module: nn.Module

    def __init__(self, target: LanguageModel, ids: Tensor) -> None:
        self.target = target
        self.last_layer: int = target.config.num_hidden_layers
        output = target.model.get_output_embeddings()
        self.head: Tensor = output.weight.detach().float()  # [V, H]
        self.embedding: Tensor = target.model.get_input_embeddings().weight.detach()
        self.use_columns(ids)

    def use_columns(self, ids: Tensor) -> None:
        """Guess among these tokens from now on."""
        self.columns = ids
        self.head_rows = self.head[ids].contiguous()  # [K, H]

    @classmethod
    def layers_of(cls, target: LanguageModel) -> tuple[int, ...]:
        """The target's states that training reads."""
        return (target.config.num_hidden_layers,)

    @abstractmethod
    def guesses(self, batch: Batch) -> list[Guess]:
        """One guess per draft step."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write weights and config in the format that the drafter of this kind loads."""

    def loss(self, batch: Batch) -> Tensor:
        """Weighted sum over the draft steps of the soft cross-entropy, and what a kind adds."""
        total = torch.zeros(())
        asked = batch.is_answer[:, 1:]  # the state at a place decides the token after it
        with torch.no_grad():
            states = batch.states[self.last_layer][asked]
            p = torch.softmax(states @ self.head_rows.T, dim=-1)  # [places asked, K]
        index = asked.flatten().cumsum(0).view(asked.shape) - 1
        for step, guess in enumerate(self.guesses(batch)):
            truth = p[index[guess.rows, guess.places]]  # [M, K]
            loss = nn.functional.cross_entropy(guess.logits, truth)
            if guess.extra_loss is not None:
                loss = loss + guess.extra_loss
            total = total + loss * STEP_WEIGHT**step
        return total

    @torch.inference_mode()
    def acceptance(self, batches: Sequence[Batch]) -> Acceptance:
        """Acceptance on kept-out batches, exact over the whole vocabulary."""
        hits = torch.zeros(2, self.num_steps)
        trials = torch.zeros(2, self.num_steps)
        for batch in batches:
            alive = torch.ones_like(batch.tokens, dtype=torch.bool)  # drafts accepted so far
            for step, guess in enumerate(self.guesses(batch)):
                states = batch.states[self.last_layer][guess.rows, guess.places]
                p = torch.softmax(states @ self.head.T, dim=-1)  # [M, V]
                q = torch.softmax(guess.logits, dim=-1)  # [M, K]
                match = p.argmax(dim=-1) == self.columns[q.argmax(dim=-1)]
                overlap = torch.minimum(p[:, self.columns], q).sum(dim=-1)
                greedy = batch.temperatures[guess.rows] == 0
                still = alive[guess.rows, guess.starts]
                hits[0, step] += (match & still & greedy).sum()
                trials[0, step] += (still & greedy).sum()
                hits[1, step] += overlap[~greedy].sum()
                trials[1, step] += (~greedy).sum()
                alive[guess.rows, guess.starts] = still & match
        return Acceptance(*(hits / trials.clamp(min=1)).tolist())
