"""A language model's architecture in numbers, and what follows: parameters, bytes, operations.

Layers are given one by one, so that dense and sparse layers, or full attention and windows, may
alternate. Which numbers a transformers config means says specbench.models.description.

>>> from specbench.theory.layers import Mlp
>>> layer = Layer(Attention(heads=4, kv_heads=2, head_dim=8), Mlp(width=48), vectors=64)
>>> model = Architecture(hidden=32, vocabulary=61, layers=(layer,) * 2, vectors=32)
>>> model.parameters
19424
>>> model.traffic().weight_bytes   # 16 bits each; the input embedding is looked up
34944
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from specbench.theory.layers import SIXTEEN_BITS, Attention, Layer, Mixture, Stored
from specbench.theory.traffic import NO_EXPERTS, Experts, Traffic, Window


@dataclass(frozen=True)
class Architecture:
    """A decoder, or an encoder-decoder.

    Attributes:
        hidden: width of a state.
        vocabulary: rows of the embedding and of the output layer.
        layers: that decoding goes through.
        encoder: layers that read a source once.
        tied: the embedding is the output layer too.
        vectors, encoder_vectors: weights of the final norm and of tables that a forward reads.
        stored: how embedding, output layer and vectors are stored.
        matrices: how those of layers are; None: the same way.
        kv_bits: of a number in the cache.
    """

    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    encoder: tuple[Layer, ...] = ()
    tied: bool = False
    vectors: int = 0
    encoder_vectors: int = 0
    stored: Stored = SIXTEEN_BITS
    matrices: Stored | None = None
    kv_bits: int = 16

    @property
    def parameters(self) -> int:
        """All weights, the encoder's too; tied ones once."""
        return sum(self._weights()) + sum(self._vectors())

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights: what they take in memory."""
        matrices, embeddings = self._weights()
        plain = embeddings + sum(self._vectors())
        return self._in_layers.num_bytes(matrices) + self.stored.num_bytes(plain)

    def traffic(self) -> Traffic:
        """What a forward of decoding moves and computes."""
        common = sum(layer.common_weights(self.hidden) for layer in self.layers)
        decoder_vectors, _ = self._vectors()
        head = self.vocabulary * self.hidden
        full = [layer for layer in self.layers if layer.attention.window is None]
        return Traffic(
            weight_bytes=self._in_layers.num_bytes(common)
            + self.stored.num_bytes(head + decoder_vectors),
            kv_bytes=sum(self._kv(layer.attention) for layer in full),
            experts=self._experts(),
            lookup_bytes=0 if self.tied else self.stored.num_bytes(self.hidden),
            windows=self._windows(),
            source_kv_bytes=sum(self._kv(layer.cross) for layer in self.layers if layer.cross),
            multiplied=common + head + self._active_expert_weights(),
            attention_flops=sum(layer.attention.flops for layer in self.layers),
        )

    @property
    def _in_layers(self) -> Stored:
        return self.matrices or self.stored

    def _weights(self) -> tuple[int, int]:
        """Weights in matrices of layers, and in embedding and output layer."""
        inside = sum(layer.weights(self.hidden) for layer in (*self.layers, *self.encoder))
        return inside, self.vocabulary * self.hidden * (1 if self.tied else 2)

    def _vectors(self) -> tuple[int, int]:
        """Weights in vectors of the decoder and of the encoder."""
        return (
            self.vectors + sum(layer.vectors for layer in self.layers),
            self.encoder_vectors + sum(layer.vectors for layer in self.encoder),
        )

    def _kv(self, attention: Attention) -> int:
        return attention.cached * self.kv_bits // 8

    def _windows(self) -> tuple[Window, ...]:
        sizes = sorted(
            (layer.attention.window, self._kv(layer.attention))
            for layer in self.layers
            if layer.attention.window is not None
        )
        return tuple(
            Window(size, sum(kv for _, kv in group))
            for size, group in groupby(sizes, key=lambda pair: pair[0])
        )

    def _experts(self) -> Experts:
        """Of all layers together.

        Raises:
            ValueError: layers route differently, so that no one number of experts describes them.
        """
        mixtures = [layer.mlp for layer in self.layers if isinstance(layer.mlp, Mixture)]
        if not mixtures:
            return NO_EXPERTS
        routing = {(mixture.count, mixture.active) for mixture in mixtures}
        if len(routing) > 1:
            raise ValueError(f"experts are routed differently in different layers: {routing}")
        count = sum(mixture.expert_weights(self.hidden) for mixture in mixtures)
        return Experts(self._in_layers.num_bytes(count), *routing.pop())

    def _active_expert_weights(self) -> int:
        return sum(
            layer.mlp.active * layer.mlp.matrices * self.hidden * layer.mlp.width
            for layer in self.layers
            if isinstance(layer.mlp, Mixture)
        )
