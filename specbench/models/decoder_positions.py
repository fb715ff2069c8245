"""How decoders that count tokens themselves are told where each row's tokens stand.

The decoders of T5 and BART take no positions: they number the new tokens of a batch from one length
on, which rows of different lengths have not in common. So for the time of one forward a hook puts
in what belongs to each row:

* BART, mBART and Marian add a vector of the position to that of the token. The hook answers for the
  table of these vectors.
* T5 adds a bias to attention scores, by how far the key is behind the query. The hook hands it to
  the first layer, which is asked for it, and from which all others take it.

Outside these forwards the model is as it was.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class DecoderPositions(Protocol):
    """Where the tokens of a forward stand."""

    def told(self, positions: Tensor, extent: int) -> AbstractContextManager[Any]:
        """While this is open, forwards are over tokens at positions [B, S] and slots 0..extent-1,
        each of which holds the token at its own position."""


class AddedPositions:
    """Vectors of positions, learned (BART, mBART) or sinusoidal (Marian)."""

    def __init__(self, decoder: nn.Module) -> None:
        self._table: Any = decoder.embed_positions
        self._offset = getattr(self._table, "offset", 0)  # BART's first two rows mean nothing

    def told(self, positions: Tensor, extent: int) -> AbstractContextManager[Any]:
        def answer(*_: object) -> Tensor:
            return nn.functional.embedding(positions + self._offset, self._table.weight)

        return self._table.register_forward_hook(answer)  # type: ignore[no-any-return]


class RelativeBias:
    """T5's bias: one number per head and bucket of distances (Raffel et al. 2020, section 2.1)."""

    def __init__(self, decoder: nn.Module) -> None:
        self._attention: Any = decoder.get_submodule("block.0.layer.0.SelfAttention")

    def told(self, positions: Tensor, extent: int) -> AbstractContextManager[Any]:
        def give(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            return args, {**kwargs, "position_bias": self._bias(positions, extent)}

        return self._attention.register_forward_pre_hook(  # type: ignore[no-any-return]
            give, with_kwargs=True
        )

    def _bias(self, positions: Tensor, extent: int) -> Tensor:
        """[B, H, S, extent] of queries at positions [B, S]."""
        attention = self._attention
        slots = torch.arange(extent, device=positions.device)
        buckets = attention._relative_position_bucket(
            slots - positions[:, :, None],
            bidirectional=False,
            num_buckets=attention.relative_attention_num_buckets,
            max_distance=attention.relative_attention_max_distance,
        )
        bias: Tensor = attention.relative_attention_bias(buckets)
        return bias.permute(0, 3, 1, 2)


POSITIONS: dict[str, type[AddedPositions] | type[RelativeBias]] = {
    "bart": AddedPositions,
    "marian": AddedPositions,
    "mbart": AddedPositions,
    "mt5": RelativeBias,
    "t5": RelativeBias,
}
"""By model type: those of :data:`specbench.weights.kinds.ENCODER_DECODERS`."""
