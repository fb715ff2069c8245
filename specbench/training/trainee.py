"""What the training loop needs to know of a kind of drafter.

A kind gives its module, how it guesses on a batch (one set of logits per draft step, beside the
target's logits at the same places) and how it is saved. Loss and kept-out acceptance are the same
for all kinds and live here: the loss is the soft cross-entropy between the target's distribution
and the drafter's, which at its minimum makes q equal to p and so alpha equal to one.

A draft that starts at place s knows the tokens up to s + 1 and the target's states up to s. Its
step j (from 1) guesses token s + 1 + j, which the state at place s + j decides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from specbench.models.language_model import LanguageModel
from specbench.models.output_layer import plain_output_weight
from specbench.training.batches import Batch

STEP_WEIGHT = 0.8
"""A token one step further ahead counts so much less: it is evaluated less often."""


@dataclass(frozen=True)
class Guess:
    """A drafter's guesses in one step of M drafts.

    Attributes:
        logits: [M, K] over the draft vocabulary.
        rows, starts: [M] the sample of each draft and the place in it where the draft started.
        extra_loss: what else the kind wants to be small.
    """

    logits: Tensor
    rows: Tensor
    starts: Tensor
    extra_loss: Tensor | None = None


@dataclass(frozen=True)
class Acceptance:
    """Kept-out acceptance of each draft step, given that the steps before it were accepted.

    Attributes:
        greedy: chance that the drafter's first choice is the target's, on greedy answers.
        overlap: mean of sum_x min(p, q) at temperature 1, on answers sampled at temperature 1.

    A step that no kept-out answer tells anything about is None.
    """

    greedy: list[float | None]
    overlap: list[float | None]


class Trainee(ABC):
    """A drafter in training, on its target's device.

    Args:
        target: its target, frozen.
        ids: [K] token ids of the draft vocabulary, most frequent first.

    Attributes:
        module: what is trained, float32.
        goes_on: whether ``module`` has the weights of an earlier training.
        columns: [K] token ids that the columns of ``Guess.logits`` stand for.
    """

    kind: ClassVar[str]
    num_steps: int
    learning_rate: ClassVar[float] = 1e-3
    uses_ranking: ClassVar[bool] = True
    """Whether the drafter can cut the target's output layer by a ranking of tokens."""
    module: nn.Module
    goes_on: bool = False

    def __init__(self, target: LanguageModel, ids: Tensor) -> None:
        self.target = target
        self.device = target.device
        self.last_layer: int = target.config.num_hidden_layers
        output = target.model.get_output_embeddings()
        bias = getattr(output, "bias", None)
        weight = plain_output_weight(target.model, target.name, "training a drafter for it")
        self.head: Tensor = weight.detach().float()  # [V, H]
        self.head_bias: Tensor | None = None if bias is None else bias.detach().float()
        self.use_columns(ids)

    def use_columns(self, ids: Tensor) -> None:
        """Guess among these tokens from now on."""
        self.columns = ids.to(self.device)
        self.head_rows = self.head[self.columns].contiguous()  # [K, H]
        self.bias_rows = None if self.head_bias is None else self.head_bias[self.columns]

    def layers(self) -> tuple[int, ...]:
        """The target's states that training reads."""
        return (self.last_layer,)

    def prepare(self, batch: Batch) -> None:
        """Set what initial weights should know of the data; called before training, each time it
        begins or goes on, with the same batch."""

    @abstractmethod
    def start_from(self, name: str) -> None:
        """Take the weights, and sizes, of a checkpoint of this kind: a folder or a hub name.

        Raises:
            SpecbenchError: not found, of another kind or for another target.
        """

    @abstractmethod
    def guesses(self, batch: Batch) -> list[Guess]:
        """One guess per draft step, of the drafts that :meth:`drafts` names."""

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write weights, in bfloat16, and config in the format that the drafter loads."""

    def embed(self, tokens: Tensor) -> Tensor:
        """The target's embeddings [B, S, H] of tokens [B, S]."""
        with torch.no_grad():
            embeddings: Tensor = self.target.model.get_input_embeddings()(tokens).float()
        return embeddings

    def head_logits(self, states: Tensor) -> Tensor:
        """States [..., H] through the target's output layer to logits [..., K]."""
        return nn.functional.linear(states, self.head_rows, self.bias_rows)

    @staticmethod
    def drafts(batch: Batch, step: int) -> tuple[Tensor, Tensor]:
        """Rows and starts [M] of the drafts whose step (from 1) guesses a token that there is.

        A drafter is asked first for the token after the answer's first, which the target samples
        from the prompt alone.
        """
        width = batch.tokens.shape[1]
        asked_first = batch.is_asked[:, 2 : width + 1 - step]
        rows, starts = (asked_first & batch.is_asked[:, 1 + step :]).nonzero(as_tuple=True)
        return rows, starts

    def loss(self, batch: Batch) -> Tensor:
        """Weighted sum over the draft steps of the soft cross-entropy, and what a kind adds."""
        total = torch.zeros((), device=batch.tokens.device)
        asked = batch.is_asked[:, 1:]  # the state at a place decides the token after it
        with torch.no_grad():
            states = batch.states[self.last_layer][asked]
            p = torch.softmax(self.head_logits(states), dim=-1)  # [places asked, K]
        index = asked.flatten().cumsum(0).view(asked.shape) - 1
        for step, guess in enumerate(self.guesses(batch), 1):
            if len(guess.rows) == 0:  # all answers are shorter than a draft
                continue
            truth = p[index[guess.rows, guess.starts + step]]  # [M, K]
            loss = nn.functional.cross_entropy(guess.logits, truth)
            if guess.extra_loss is not None:
                loss = loss + guess.extra_loss
            total = total + loss * STEP_WEIGHT ** (step - 1)
        return total

    @torch.inference_mode()
    def acceptance(self, batches: Sequence[Batch]) -> Acceptance:
        """Acceptance on kept-out batches, over the whole vocabulary.

        A greedy draft goes on while its tokens are the text's. A sampled one reaches the text's
        next token x, which was drawn from p, with weight min(1, q(x) / p(x)): the mean under that
        weight is the mean over accepted drafts.
        """
        sums = torch.zeros(2, 2, self.num_steps)  # [greedy or overlap, hits or weights, steps]
        for batch in batches:
            weights = torch.ones(batch.tokens.shape, device=batch.tokens.device)  # of each draft
            for step, guess in enumerate(self.guesses(batch), 1):
                rows, starts = guess.rows, guess.starts
                states = batch.states[self.last_layer][rows, starts + step]
                logits = nn.functional.linear(states, self.head, self.head_bias)
                p = torch.softmax(logits, dim=-1)  # [M, V]
                q = torch.zeros_like(p)
                q[:, self.columns] = torch.softmax(guess.logits, dim=-1)
                text = batch.tokens[rows, starts + step + 1][:, None]
                match = (p.argmax(dim=-1) == q.argmax(dim=-1)).float()
                overlap = torch.minimum(p, q).sum(dim=-1)
                reached = (q.gather(1, text) / p.gather(1, text))[:, 0].nan_to_num(0.0).clamp(max=1)
                weight = weights[rows, starts]
                for part, temperature, hits in ((0, 0.0, match), (1, 1.0, overlap)):
                    counted = batch.temperatures[rows] == temperature
                    sums[part, 0, step - 1] += (hits * weight)[counted].sum().cpu()
                    sums[part, 1, step - 1] += weight[counted].sum().cpu()
                greedy = batch.temperatures[rows] == 0
                weights[rows, starts] = weight * torch.where(greedy, match, reached)
        means = [
            [hit / count if count > 0 else None for hit, count in zip(*part, strict=True)]
            for part in sums.tolist()
        ]
        return Acceptance(*means)
