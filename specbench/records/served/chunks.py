"""The streams of a cell's requests: when chunks arrived, and how many tokens they held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specbench.records.steps import Columns, Numbers, numbers, values


@dataclass(frozen=True)
class Chunks:
    """The streams of a cell: arrays [requests], and the chunks' own lists.

    Attributes:
        decode_s: from the first chunk to the last.
        decode_tokens: those after the first chunk; a chunk of untold size counts as its first one.
        tokens: per chunk; None where the server told them for no more than whole answers.
        arrived_s: per chunk, since the window began.
    """

    decode_s: Numbers
    decode_tokens: Numbers
    tokens: Sequence[Sequence[int]] | None
    arrived_s: Sequence[Sequence[float]]

    @classmethod
    def of(cls, requests: Columns) -> Chunks:
        """The streams in a table of requests."""
        arrived, told = values(requests, "chunk_s"), values(requests, "chunk_tokens")
        tokens = None if any(sizes is None for sizes in told) else told
        first = [1] * len(arrived) if tokens is None else [sizes[0] for sizes in tokens]
        return cls(
            decode_s=numbers(requests, "decode_s"),
            decode_tokens=numbers(requests, "num_tokens") - np.array(first, dtype=np.float64),
            tokens=tokens,
            arrived_s=arrived,
        )

    @property
    def rounds(self) -> int | None:
        """Chunks after the first of each answer; None where their sizes are not told."""
        return None if self.tokens is None else sum(len(sizes) - 1 for sizes in self.tokens)

    @property
    def itl_s(self) -> float | None:
        """Time per output token after the first chunk."""
        tokens = float(self.decode_tokens.sum())
        return float(self.decode_s.sum()) / tokens if tokens else None

    def arrived_by(self, end_s: float) -> int | None:
        """Tokens that had arrived at a time; None where the chunks' sizes are not told."""
        if self.tokens is None:
            return None
        pairs = (
            (at, size)
            for times, sizes in zip(self.arrived_s, self.tokens, strict=True)
            for at, size in zip(times, sizes, strict=True)
        )
        return sum(size for at, size in pairs if at <= end_s)


Served = tuple[Columns, Mapping[str, Any]]
"""The requests of a cell, and what its record keeps of the server."""

Streams = tuple[Columns, Chunks]
"""The requests of a cell, and their streams."""
