"""A cache for decoders that attend to a source beside their own text (T5, BART, Marian).

A source is read once: what each decoder layer makes of it, keys and values of every source token,
is kept beside the row's own and goes where the row goes. Rolling back leaves it alone. Sources of a
batch differ in length: shorter ones are padded behind their end, and :attr:`Sources.padding` says
where, so that no row sees what is not its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import Cache, EncoderDecoderCache

from specbench.measure.transfer import to_device
from specbench.models.cache import RowCache, Snapshot


@dataclass
class SourceLayer:
    """What one decoder layer reads of sources: [B, H, longest source, D] each."""

    keys: Tensor
    values: Tensor

    @property
    def bytes_per_token(self) -> int:
        """Of one row's source."""
        _, heads, _, width = self.keys.shape
        return 2 * heads * width * self.keys.element_size()


@dataclass(frozen=True)
class SourceSnapshot(Snapshot):
    """K/V of one row, and of its source: per layer [1, H, source, D]."""

    source: tuple[SourceLayer, ...] = ()


class Sources(Cache):
    """Keys and values of each row's source.

    Attributes:
        layers: per decoder layer those of all rows, as long as the longest source is.
        lengths: [B] tokens of each row's source; 0 where a row never had one.
        padding: [B, longest] true behind a source's end; None before the first source.
    """

    def __init__(self, num_rows: int) -> None:
        super().__init__(layers=[])
        self.layers: list[SourceLayer] = []
        self.lengths = [0] * num_rows
        self.padding: Tensor | None = None

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Keep what a layer makes of the only row's source, [1, H, P, D]; layers come in order."""
        self.layers[layer_idx:] = [SourceLayer(key_states, value_states)]
        self._measure([key_states.shape[2]], key_states.device)
        return key_states, value_states

    def take(self, row: int) -> tuple[SourceLayer, ...]:
        """A copy of one row's source."""
        own = (slice(row, row + 1), slice(None), slice(0, self.lengths[row]))
        return tuple(
            SourceLayer(layer.keys[own].clone(), layer.values[own].clone()) for layer in self.layers
        )

    def put(self, row: int, source: Sequence[SourceLayer]) -> None:
        """Give a row another source; there is room for the longest one that is left, no more."""
        keys = source[0].keys
        lengths = list(self.lengths)
        lengths[row] = keys.shape[2]
        longest = max(lengths)
        if not self.layers:
            empty = keys.new_zeros(len(lengths), keys.shape[1], 0, keys.shape[3])
            self.layers = [SourceLayer(empty, empty) for _ in source]
        for layer, own in zip(self.layers, source, strict=True):
            layer.keys = _with_row(layer.keys, row, own.keys, longest)
            layer.values = _with_row(layer.values, row, own.values, longest)
        self._measure(lengths, keys.device)

    def _measure(self, lengths: list[int], device: torch.device) -> None:
        self.lengths = lengths
        places = torch.arange(max(lengths), device=device)
        self.padding = places >= to_device(lengths, device)[:, None]


class SourceCache(RowCache):
    """A :class:`RowCache` whose rows have sources. Steps over it are not captured."""

    def __init__(self, num_rows: int, num_slots: int) -> None:
        super().__init__(num_rows, num_slots)
        self.sources = Sources(num_rows)

    def snapshot(self, row: int, length: int) -> SourceSnapshot:
        own = super().snapshot(row, length)
        return SourceSnapshot(own.keys, own.values, self.sources.take(row))

    def restore(self, row: int, snapshot: Snapshot) -> None:
        assert isinstance(snapshot, SourceSnapshot)
        super().restore(row, snapshot)
        self.sources.put(row, snapshot.source)


class DecoderCache(EncoderDecoderCache):
    """Both caches as transformers' decoders take them.

    Args:
        cache: of the rows.
        known: whether sources have been read; if not, the forward reads one.
    """

    def __init__(self, cache: SourceCache, known: bool) -> None:
        super().__init__(cache, Sources(0))  # it would count the tokens of sources
        self.cross_attention_cache = cache.sources
        self.is_updated = dict.fromkeys(range(len(cache.sources.layers) if known else 0), True)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """None of all rows: where tokens stand is told by specbench.models.decoder_positions."""
        return 0


def _with_row(kept: Tensor, row: int, own: Tensor, longest: int) -> Tensor:
    """Tensors [B, H, L, D] with ``longest`` places, of which a row gets [1, H, P, D]."""
    if kept.shape[2] != longest:
        kept = pad(kept, (0, 0, 0, longest - kept.shape[2]))
    kept[row, :, : own.shape[2]] = own[0]
    return kept
