"""Random numbers that belong to a prompt and a position, not to a batch.

A uniform is keyed by (seed, repeat, prompt, stream, position). So a prompt gets the same numbers
alone or among others, in the first cell or after a resume. There is one stream per *use* (draft,
accept, residual): one number used twice, say to draw the draft and to decide its acceptance, would
bias the output. In a tree the accept stream has a number for every sibling, the first child's being
the stream's own: a tree of only children uses a chain's numbers.

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

from specbench.measure.transfer import send

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
    """The uniforms of every row of a batch, [B, capacity] per stream, filled when a row begins.

    They stay on the host, which knows the positions; what a round needs is sent.
    """

    def __init__(self, batch_size: int, capacity: int, device: torch.device | str = "cpu") -> None:
        self.capacity = capacity
        self._keys: list[tuple[int, int, str] | None] = [None] * batch_size
        self._tables: dict[str, Tensor] = {}
        self._device = torch.device(device)
        for stream in STREAMS:
            self._table(stream)

    def begin(self, slot: int, seed: int, repeat: int, prompt_id: str) -> None:
        """Give a slot the numbers of the prompt that starts in it."""
        self._keys[slot] = (seed, repeat, prompt_id)
        for name in self._tables:
            self._fill(name, slot)

    def at(
        self, stream: Stream, positions: list[int], width: int = 1, *, sibling: int = 0
    ) -> Tensor:
        """Uniforms [B, width] at sequence positions positions[b], positions[b] + 1, ...

        Args:
            stream: what they are for.
            positions: [B] of the first one.
            width: how many per row.
            sibling: which child of a node they are for; the first, 0, has the stream itself.
        """
        rows = self._table(f"{stream}/{sibling}" if sibling else stream)
        chosen = [row[start : start + width] for row, start in zip(rows, positions, strict=True)]
        return send(torch.stack(chosen), self._device)

    def _table(self, name: str) -> Tensor:
        """[B, capacity]; made when first asked for, so that chains have no siblings' numbers."""
        if name not in self._tables:
            shape = (len(self._keys), self.capacity)
            self._tables[name] = torch.zeros(shape, dtype=torch.float64)
            for slot in range(len(self._keys)):
                self._fill(name, slot)
        return self._tables[name]

    def _fill(self, name: str, slot: int) -> None:
        key = self._keys[slot]
        if key is not None:
            numbers = keyed_uniforms(*key, name, self.capacity)
            self._tables[name][slot] = torch.from_numpy(numbers)
