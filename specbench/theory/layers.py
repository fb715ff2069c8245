"""The layers of a language model in numbers: their weights, and what a token leaves in the cache.

Weights are counted as published: matrices by their two sides, and vectors (norms and biases) of a
layer together.

>>> Attention(heads=4, kv_heads=2, head_dim=8).cached   # keys and values of two heads
32
>>> Stored(4, group=128, scale_bits=32).num_bytes(1024)  # 4 bits each, and eight scales
544
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Stored:
    """How weights are stored.

    Attributes:
        bits: of a weight.
        group: weights that share a scale; None where there are no scales.
        scale_bits: of a group's scale and zero point together.
    """

    bits: int
    group: int | None = None
    scale_bits: int = 0

    def num_bytes(self, count: int) -> int:
        """Bytes of so many weights, their scales included; the last byte and group may be part."""
        scales = 0 if self.group is None else -(-count // self.group) * self.scale_bits
        return -(-(count * self.bits + scales) // 8)


SIXTEEN_BITS = Stored(16)


@dataclass(frozen=True)
class Latent:
    """Keys and values as one short vector per token (DeepSeek-V2, arXiv 2405.04434).

    Attributes:
        rank: of that vector, beside which the token's rotated key of ``rope_dim`` is kept.
        rope_dim, nope_dim: parts of a head's query and key, with and without position.
        value_dim: of a head.
        query_rank: of the queries' own bottleneck; None: there is none.
    """

    rank: int
    rope_dim: int
    nope_dim: int
    value_dim: int
    query_rank: int | None = None


@dataclass(frozen=True)
class Attention:
    """Attention of one layer.

    Attributes:
        heads, kv_heads: of queries, and of keys and values; fewer are shared by groups.
        head_dim: of both; of a latent one it is not used.
        window: tokens that a token sees, itself included; None: all.
        latent: how keys and values are compressed; None: they are not.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    latent: Latent | None = None

    def query_weights(self, hidden: int) -> int:
        """Matrices that a new token meets on its own behalf: of queries and of the output."""
        if self.latent is None:
            return 2 * hidden * self.heads * self.head_dim
        kind, query = self.latent, self.latent.nope_dim + self.latent.rope_dim
        output = self.heads * kind.value_dim * hidden
        if kind.query_rank is None:
            return hidden * self.heads * query + output
        return kind.query_rank * (hidden + self.heads * query) + output

    def kv_weights(self, hidden: int) -> int:
        """Matrices that make keys and values."""
        if self.latent is None:
            return 2 * hidden * self.kv_heads * self.head_dim
        kind = self.latent
        expanded = self.heads * (kind.nope_dim + kind.value_dim)
        return hidden * (kind.rank + kind.rope_dim) + kind.rank * expanded

    @property
    def cached(self) -> int:
        """Numbers that a token adds to the cache."""
        if self.latent is not None:
            return self.latent.rank + self.latent.rope_dim
        return 2 * self.kv_heads * self.head_dim

    @property
    def flops(self) -> int:
        """Operations per pair of tokens: a score, and a share of the value."""
        if self.latent is not None:
            return 2 * self.heads * (2 * self.latent.rank + self.latent.rope_dim)
        return 4 * self.heads * self.head_dim


@dataclass(frozen=True)
class Mlp:
    """A dense feed-forward layer; three matrices where it is gated, else two."""

    width: int
    matrices: int = 3

    def weights(self, hidden: int) -> int:
        return self.matrices * hidden * self.width


@dataclass(frozen=True)
class Mixture:
    """A mixture of experts.

    Attributes:
        count, active: experts there are, and that a token is sent to.
        width: of one expert.
        shared_width: of the experts that every token goes through, together.
        matrices: of an expert.
    """

    count: int
    active: int
    width: int
    shared_width: int = 0
    matrices: int = 3

    def expert_weights(self, hidden: int) -> int:
        return self.count * self.matrices * hidden * self.width

    def common_weights(self, hidden: int) -> int:
        """The router, and what every token goes through."""
        return hidden * self.count + self.matrices * hidden * self.shared_width


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        attention: over the text.
        mlp: dense, or experts.
        vectors: weights in norms and biases.
        cross: attention over a source whose keys and values are made once, before decoding.
    """

    attention: Attention
    mlp: Mlp | Mixture
    vectors: int
    cross: Attention | None = None

    def common_weights(self, hidden: int) -> int:
        """Matrices that every forward of decoding reads."""
        count = self.attention.query_weights(hidden) + self.attention.kv_weights(hidden)
        if self.cross is not None:
            count += self.cross.query_weights(hidden)
        if isinstance(self.mlp, Mlp):
            return count + self.mlp.weights(hidden)
        return count + self.mlp.common_weights(hidden)

    def expert_weights(self, hidden: int) -> int:
        return 0 if isinstance(self.mlp, Mlp) else self.mlp.expert_weights(hidden)

    def weights(self, hidden: int) -> int:
        """All matrices."""
        once = self.cross.kv_weights(hidden) if self.cross is not None else 0
        return self.common_weights(hidden) + self.expert_weights(hidden) + once
