"""A key/value cache in which every row has its own length.

K/V of the token at position t lies in slot t. A forward writes its tokens to the slots that each
row's start says and attends to slots up to its own position, so

* rows of one batch may have different lengths, with no padding between their tokens;
* rolling back is *nothing*: the next forward just starts earlier and overwrites.

Who knows how long a row is? The caller, who passes ``starts`` with each forward. The cache holds
no length of its own that could go stale.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import Cache

from specbench.measure.transfer import to_device
from specbench.models.capture import Steps, StepShape
from specbench.models.extents import round_up


@dataclass(frozen=True)
class Snapshot:
    """K/V of one row up to some length: per layer [1, H, length, D]."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    @property
    def num_bytes(self) -> int:
        return sum(t.numel() * t.element_size() for t in self.keys + self.values)


class RowCache(Cache):
    """K/V of a batch: per layer [B, H, capacity, D], allocated at the first forward.

    Args:
        num_rows: B.
        num_slots: tokens that a row can hold.
        steps: captured over this memory, or None: every forward runs as it is, over exactly the
            slots that are filled.
    """

    def __init__(self, num_rows: int, num_slots: int, steps: Steps | None = None) -> None:
        super().__init__(layers=[])
        self.num_rows = num_rows
        self.num_slots = num_slots
        self.steps = steps
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self._extent = 0
        self._common_start: int | None = None
        self._slots: Tensor | None = None
        self._rows: Tensor | None = None

    @property
    def bytes_per_token(self) -> float | None:
        """Of one row's keys and values, all layers together; None before the first forward."""
        stored = [*self.keys, *self.values]
        if not stored:
            return None
        return sum(t.numel() * t.element_size() for t in stored) / (self.num_rows * self.num_slots)

    def expect(self, starts: Sequence[int], width: int, device: torch.device) -> int:
        """Say where the next forward's tokens go; returns how many slots attention will see.

        Args:
            starts: [B] the slot of each row's first new token.
            width: new tokens per row.
        """
        self._extent = self._last(starts, width)
        if len(set(starts)) == 1:
            self._common_start = starts[0]
        else:
            self._common_start = None
            offsets = torch.arange(width, device=device)
            self._scatter(to_device(starts, device)[:, None] + offsets)
        return self._extent

    def run(
        self,
        model: str,
        form: Hashable,
        function: Callable[..., Sequence[Tensor]],
        starts: Sequence[int],
        tokens: Tensor,
        *inputs: Tensor,
    ) -> Sequence[Tensor]:
        """A forward over this cache: as it is, or through its captured steps.

        Args:
            model: whose forward it is, by name.
            form: whatever else decides which tensors go in and come out.
            function: called with starts [B] on the device, the slots that attention is to cover,
                tokens and inputs; writes K/V by :meth:`update`.
            starts: [B] the slot of each row's first new token.
            tokens: [B, S].
            inputs: whatever else varies, of fixed shapes.

        Raises:
            ValueError: a row would go beyond the last slot.
        """
        width, device = tokens.shape[1], tokens.device
        if self.steps is None:
            extent = self.expect(starts, width, device)
            return function(to_device(starts, device), extent, tokens, *inputs)
        extent = round_up(self._last(starts, width))

        def step(start: Tensor, *given: Tensor) -> Sequence[Tensor]:
            self._expect_at(start, width, extent)
            return function(start, extent, *given)

        shape = StepShape(model, width, extent, form)
        return self.steps.run(shape, step, to_device(starts, device), tokens, *inputs)

    def _expect_at(self, start: Tensor, width: int, extent: int) -> None:
        """As :meth:`expect`, but nothing here depends on the numbers in start [B]."""
        self._extent = extent
        self._common_start = None
        self._scatter(start[:, None] + torch.arange(width, device=start.device))

    def _last(self, starts: Sequence[int], width: int) -> int:
        """How many slots are filled by ``width`` tokens per row from starts."""
        last = max(starts) + width
        if last > self.num_slots:
            raise ValueError(f"slot {last - 1} is beyond the cache's {self.num_slots} slots")
        return last

    def _scatter(self, slots: Tensor) -> None:
        """Write the next forward's tokens to slots [B, S]."""
        self._slots = slots
        self._rows = torch.arange(self.num_rows, device=slots.device)[:, None]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        """Write [B, H, S, D] to the expected slots; returns the filled part [B, H, extent, D]."""
        while len(self.keys) <= layer_idx:
            self.keys.append(self._allocate(key_states))
            self.values.append(self._allocate(value_states))
        keys, values = self.keys[layer_idx], self.values[layer_idx]
        if self._common_start is not None:
            new = slice(self._common_start, self._extent)
            keys[:, :, new] = key_states
            values[:, :, new] = value_states
        else:
            assert self._rows is not None
            assert self._slots is not None
            rows, slots = self._rows.to(keys.device), self._slots.to(keys.device)
            keys[rows, :, slots] = key_states.transpose(1, 2)
            values[rows, :, slots] = value_states.transpose(1, 2)
        return keys[:, :, : self._extent], values[:, :, : self._extent]

    @property
    def all_seen(self) -> bool:
        """Whether the next forward is over one token per row, which sees all slots covered."""
        return self._common_start is not None and self._extent == self._common_start + 1

    def keep_path(self, starts: Sequence[int], paths: Tensor) -> None:
        """Move the accepted nodes of a tree to where their positions want them.

        Args:
            starts: [B] the slot of each row's root; node j lies j slots behind it.
            paths: [B, M] node numbers, the root first; the m-th goes to the m-th slot from the
                root's on. What a row does not need may repeat its last node.
        """
        if not self.keys:
            return
        roots = to_device(starts, paths.device)[:, None]
        rows = torch.arange(self.num_rows, device=paths.device)[:, None]
        old, new = roots + paths, roots + torch.arange(paths.shape[1], device=paths.device)
        for stored in (*self.keys, *self.values):
            row, source, place = (at.to(stored.device) for at in (rows, old, new))
            stored[row, :, place] = stored[row, :, source]  # read as a whole before it is written

    def snapshot(self, row: int, length: int) -> Snapshot:
        """A copy of one row's first ``length`` slots."""
        return Snapshot(
            tuple(keys[row : row + 1, :, :length].clone() for keys in self.keys),
            tuple(values[row : row + 1, :, :length].clone() for values in self.values),
        )

    def restore(self, row: int, snapshot: Snapshot) -> None:
        """Put a snapshot into a row; the row may hold anything before."""
        for layer, (keys, values) in enumerate(zip(snapshot.keys, snapshot.values, strict=True)):
            while len(self.keys) <= layer:
                self.keys.append(self._allocate(keys))
                self.values.append(self._allocate(values))
            self.keys[layer][row, :, : keys.shape[2]] = keys[0]
            self.values[layer][row, :, : values.shape[2]] = values[0]

    @torch.inference_mode()
    def clear(self) -> None:
        """Zeros, as in a new cache; the memory stays where it is."""
        for stored in (*self.keys, *self.values):
            stored.zero_()

    def free(self) -> None:
        """Give the memory back, even if somebody still holds the cache, which is of no more use."""
        self.keys, self.values, self.steps = [], [], None

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """The longest row's slots in use: some models size their masks by it before ignoring it."""
        return self._extent

    def _allocate(self, like: Tensor) -> Tensor:
        _, heads, _, width = like.shape
        return like.new_zeros(self.num_rows, heads, self.num_slots, width)
