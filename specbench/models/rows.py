"""The sequences of a batch: what is committed in each slot, and nothing about how it got there.

The host keeps the tokens; a forward gets a small tensor of the last few. Slot b's committed tokens
are the prompt and the output so far, and the target's cache holds all of them *but the last*, which
every forward reads first. Where an encoder reads the prompt, a decoder's start tokens stand in its
place. An empty slot holds two padding tokens so that shapes stay fixed.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specbench.measure.transfer import to_device
from specbench.sampling.rng import Uniforms


def up_to_stop(tokens: list[int], stop_tokens: Set[int]) -> list[int]:
    """Tokens up to the first that is a stop token, that one included; all if none is.

    >>> up_to_stop([5, 2, 7], {2})
    [5, 2]
    """
    stop = next((index for index, token in enumerate(tokens) if token in stop_tokens), None)
    return tokens if stop is None else tokens[: stop + 1]


@dataclass
class Row:
    """One slot's sequence.

    Attributes:
        tokens: prompt, or start tokens, and output so far.
        prompt_length: how many of them are no output.
        prompt_id: key of the row's random numbers.
        reference: a recorded greedy output of the same prompt, for replaying drafters; or empty.
        active: whether a prompt is being continued.
        source: the prompt where an encoder reads it; or empty.
    """

    tokens: list[int] = field(default_factory=lambda: [0, 0])
    prompt_length: int = 2
    prompt_id: str = ""
    reference: list[int] = field(default_factory=list)
    active: bool = False
    source: list[int] = field(default_factory=list)

    @property
    def prompt(self) -> list[int]:
        """What the models were asked."""
        return self.source or self.tokens[: self.prompt_length]

    @property
    def text(self) -> list[int]:
        """All that there is to copy from, the latest last; not to be changed."""
        return self.source + self.tokens if self.source else self.tokens

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_length :]


class Rows:
    """A batch of slots.

    Args:
        batch_size: slots, B.
        capacity: the most tokens a row may ever hold, drafts included.
        device: where tensors of tokens go.
    """

    def __init__(self, batch_size: int, capacity: int, device: torch.device) -> None:
        self.device = device
        self.slots = [Row() for _ in range(batch_size)]
        self.uniforms = Uniforms(batch_size, capacity, device)

    def __getitem__(self, slot: int) -> Row:
        return self.slots[slot]

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def lengths(self) -> list[int]:
        """[B] committed tokens, prompt included."""
        return [len(row.tokens) for row in self.slots]

    @property
    def num_active(self) -> int:
        return sum(row.active for row in self.slots)

    def last_tokens(self, width: int = 1) -> Tensor:
        """[B, width] the last committed tokens of every row; a shorter row is padded behind."""
        tokens = [row.tokens[-width:] for row in self.slots]
        padded = [row + [0] * (width - len(row)) for row in tokens]
        return to_device(padded, self.device)
