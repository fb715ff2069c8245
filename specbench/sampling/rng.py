"""Random numbers that belong to a prompt and a position, not to a batch.

A uniform is keyed by (seed, repeat, prompt, stream, position). So a prompt gets the same numbers
alone or among others, in the first cell or after a resume. There is one stream per *use* (draft,
accept, residual): one number used twice, say to draw the draft and to decide its acceptance, would
bias the output.

>>> row = keyed_uniforms(0, 0, "prompt", "accept", 4)
>>> bool((row == keyed_uniforms(0, 0, "prompt", "accept", 9)[:4]).all())
True
"""

from __future__ import annotations

import hashlib
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Stream = Literal["draft", "accept", "residual"]
STREAMS: tuple[Stream, ...] = ("draft", "accept", "residual")


def keyed_uniforms(seed: int, repeat: int, prompt_id: str, stream: str, length: int) -> np.ndarray:
    """Uniforms in [0, 1) for positions 0..length-1 of one prompt and stream, float64 [length].

    Philox (Salmon et al. 2011) is counter-based: a longer request extends a shorter one.
    """
    name = f"{seed}/{repeat}/{prompt_id}/{stream}".encode()
    key = int.from_bytes(hashlib.blake2b(name, digest_size=16).digest(), "little")
    return np.random.Generator(np.random.Philox(key=key)).random(length)


class Uniforms:
    """The uniforms of every row of a batch: [B, streams, capacity], filled when a row begins."""

    def __init__(self, batch_size: int, capacity: int, device: torch.device | str = "cpu") -> None:
        self.capacity = capacity
        self._table = torch.zeros(
            batch_size, len(STREAMS), capacity, dtype=torch.float64, device=device
        )

    def begin(self, slot: int, seed: int, repeat: int, prompt_id: str) -> None:
        """Give a slot the numbers of the prompt that starts in it."""
        rows = [keyed_uniforms(seed, repeat, prompt_id, s, self.capacity) for s in STREAMS]
        self._table[slot] = torch.from_numpy(np.stack(rows)).to(self._table.device)

    def at(self, stream: Stream, positions: list[int], width: int = 1) -> Tensor:
        """Uniforms [B, width] at sequence positions positions[b], positions[b] + 1, ..."""
        rows = self._table[:, STREAMS.index(stream)]
        return torch.stack(
            [row[start : start + width] for row, start in zip(rows, positions, strict=True)]
        )
