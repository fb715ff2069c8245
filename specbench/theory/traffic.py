"""Bytes that a forward must move and operations it must do: what no kernel can save.

A forward reads its weights once, whatever the number of its tokens, and of a mixture of experts
those that at least one token is sent to. It reads the keys and values of every row up to the row's
own length (of a sliding window its last ones, of an encoder-decoder those of the source too) and
writes those of its new tokens. Activations and logits are left out: a kernel can keep them on chip.
What a real forward moves is this or more. Here stand the parts of it that a model has;
:mod:`specbench.records.traffic` adds them up over the steps of a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OPERATIONS_PER_WEIGHT = 2
"""A multiplication and an addition per weight and token."""


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
