"""Bytes and operations of one forward at a time: what sums over many steps are held against.

>>> model = Traffic(weight_bytes=1000, kv_bytes=2)
>>> forward(model, [10, 20], new=3)       # two rows, three new tokens each
Bytes(weights=1000, lookups=0, kv_read=60, kv_written=12)
>>> forward(model, [10, 20], new=3).total
1072
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from specbench.theory.traffic import OPERATIONS_PER_WEIGHT, Traffic


class Bytes(NamedTuple):
    """What one forward moves. Whole numbers but for the experts' expected weights."""

    weights: float
    lookups: float
    kv_read: float
    kv_written: float

    @property
    def total(self) -> float:
        return sum(self)


def forward(
    model: Traffic, cached: Sequence[int], new: int = 1, source: Sequence[int] = ()
) -> Bytes:
    """Bytes of one forward.

    Args:
        cached: of each row the tokens in its cache before the forward.
        new: tokens that each row reads; the first sees the cached ones and itself.
        source: of each row the tokens of its source, for cross-attention.
    """
    tokens = new * len(cached)
    return Bytes(
        weights=model.weight_bytes + model.experts.read(tokens),
        lookups=model.lookup_bytes * tokens,
        kv_read=sum(_row(model, length) for length in cached) + model.source_kv_bytes * sum(source),
        kv_written=model.kv_bytes_per_token * tokens,
    )


def flops(model: Traffic, cached: Sequence[int], new: int = 1) -> float:
    """Operations of one forward; windows and sources count as if all tokens were seen."""
    tokens = new * len(cached)
    pairs = new * sum(cached) + len(cached) * new * (new + 1) // 2
    return OPERATIONS_PER_WEIGHT * model.multiplied * tokens + model.attention_flops * pairs


def _row(model: Traffic, cached: int) -> float:
    """Keys and values that a row with so many cached tokens reads."""
    windowed = sum(part.kv_bytes * min(cached, part.size - 1) for part in model.windows)
    return model.kv_bytes * cached + windowed
