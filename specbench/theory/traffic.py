"""Bytes that a forward must move and operations it must do: what no kernel can save.

A forward reads its weights once, whatever the number of its tokens, and of a mixture of experts
those that at least one token is sent to. It reads the keys and values of every row up to the row's
own length (of a sliding window its last ones, of an encoder-decoder those of the source too) and
writes those of its new tokens. Activations and logits are left out: a kernel can keep them on chip.
What a real forward moves is this or more.

>>> model = Traffic(weight_bytes=1000, kv_bytes=2)
>>> model.forward([10, 20], new=3)       # two rows, three new tokens each
Bytes(weights=1000, lookups=0, kv_read=60, kv_written=12)
>>> model.forward([10, 20], new=3).total
1072
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

OPERATIONS_PER_WEIGHT = 2
"""A multiplication and an addition per weight and token."""


class Bytes(NamedTuple):
    """What one forward moves. Whole numbers but for the experts' expected weights."""

    weights: float
    lookups: float
    kv_read: float
    kv_written: float

    @property
    def total(self) -> float:
        return sum(self)


@dataclass(frozen=True)
class Experts:
    """The experts of all layers of a model.

    Attributes:
        num_bytes: of all of them.
        count: per layer.
        active: that a token is sent to, per layer.
    """

    num_bytes: float = 0
    count: int = 0
    active: int = 0

    def read(self, tokens: Any) -> Any:
        """Bytes of the experts that a forward over so many tokens is expected to touch.

        A token misses an expert with probability 1 - active / count. Tokens count as independent
        and experts as equally popular: real routing is neither, and touches fewer.

        Args:
            tokens: of all rows together; a number or an array.
        """
        if not self.count:
            return 0
        return self.num_bytes * (1 - (1 - self.active / self.count) ** tokens)


NO_EXPERTS = Experts()


@dataclass(frozen=True)
class Window:
    """Layers in which a token sees itself and the ``size - 1`` tokens before it."""

    size: int
    kv_bytes: float


@dataclass(frozen=True)
class Traffic:
    """What forwards of one model move and compute.

    Attributes:
        weight_bytes: that every forward reads, experts apart.
        kv_bytes: keys and values of a token, in the layers that see all tokens.
        experts: of which a forward reads some.
        lookup_bytes: of an embedding that a token looks up; 0 where it is the output layer too,
            which is read anyway.
        windows: layers that see the last tokens only.
        source_kv_bytes: cached keys and values of a source token, which cross-attention reads.
        multiplied: weights that each token is multiplied with.
        attention_flops: operations per pair of a new token and a token that it sees.
    """

    weight_bytes: float
    kv_bytes: float
    experts: Experts = NO_EXPERTS
    lookup_bytes: float = 0
    windows: tuple[Window, ...] = ()
    source_kv_bytes: float = 0
    multiplied: float = 0
    attention_flops: float = 0

    @property
    def kv_bytes_per_token(self) -> float:
        """Keys and values that a token adds to a row's cache."""
        return self.kv_bytes + sum(window.kv_bytes for window in self.windows)

    def forward(
        self, cached: Sequence[int], new: int = 1, source: Sequence[int] | None = None
    ) -> Bytes:
        """Bytes of one forward.

        Args:
            cached: of each row the tokens in its cache before the forward.
            new: tokens that each row reads; the first sees the cached ones and itself.
            source: of each row the tokens of its source, for cross-attention.
        """
        tokens = new * len(cached)
        read = sum(self.row_read(length) for length in cached)
        return Bytes(
            weights=self.weight_bytes + self.experts.read(tokens),
            lookups=self.lookup_bytes * tokens,
            kv_read=read + self.source_kv_bytes * sum(source or ()),
            kv_written=self.kv_bytes_per_token * tokens,
        )

    def row_read(self, cached: int) -> float:
        """Bytes of keys and values that a row with so many cached tokens reads in a forward."""
        windowed = sum(part.kv_bytes * min(cached, part.size - 1) for part in self.windows)
        return self.kv_bytes * cached + windowed

    def flops(self, cached: Sequence[int], new: int = 1) -> float:
        """Operations of one forward; windows and sources count as if all tokens were seen."""
        tokens = new * len(cached)
        pairs = new * sum(cached) + len(cached) * new * (new + 1) // 2
        return OPERATIONS_PER_WEIGHT * self.multiplied * tokens + self.attention_flops * pairs


def round_bytes(
    target: Traffic, drafter: Traffic | None, cached: Sequence[int], gamma: int
) -> float:
    """Bytes of a round: gamma draft steps of one token, then the target over gamma + 1.

    Args:
        target, drafter: both know all committed tokens but the last; None: drafts cost nothing.
        cached: of each row the tokens in both caches.
        gamma: tokens that are drafted.
    """
    verify = target.forward(cached, gamma + 1).total
    if drafter is None:
        return verify
    return verify + sum(
        drafter.forward([length + step for length in cached]).total for step in range(gamma)
    )
