"""Sequences that fit into a device's memory beside the weights, with and without a drafter.

>>> memory = Memory(1000.0, 400.0, 2.0, 100.0, 0.5, 10.0)
>>> memory.sequences_without, memory.sequences_with
(30, 20)
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Memory:
    """What lies in memory. Whatever is not known is None.

    Activations, the allocator's reserve and whatever else lives there are not counted, so both
    numbers of sequences are upper bounds; their difference is what the drafter costs.

    Attributes:
        capacity_bytes: of the device.
        weight_bytes: of the target.
        kv_bytes_per_token: of the target, per sequence.
        drafter_weight_bytes: beyond the target's.
        drafter_kv_bytes_per_token: 0 for drafters without a cache of their own.
        context: mean tokens of a sequence at its end, prompt and answer. Where a run has several
            tasks, what is told of memory is told of the one whose sequences are longest.
    """

    capacity_bytes: float | None
    weight_bytes: float | None
    kv_bytes_per_token: float | None
    drafter_weight_bytes: float | None
    drafter_kv_bytes_per_token: float | None
    context: float | None

    @property
    def missing(self) -> tuple[str, ...]:
        """What is not known, in words."""
        words = {
            "the memory's capacity": self.capacity_bytes,
            "the target's bytes of weights": self.weight_bytes,
            "its bytes of keys and values per token": self.kv_bytes_per_token,
            "the drafter's bytes of weights": self.drafter_weight_bytes,
            "the drafter's bytes of keys and values per token": self.drafter_kv_bytes_per_token,
            "the length of sequences": self.context,
        }
        return tuple(name for name, value in words.items() if value is None)

    @property
    def sequences_without(self) -> int | None:
        """That fit without the drafter."""
        return self._sequences(0.0, 0.0)

    @property
    def sequences_with(self) -> int | None:
        """That fit beside it; at most so many where its keys and values are not known."""
        if self.drafter_weight_bytes is None:
            return None
        return self._sequences(self.drafter_weight_bytes, self.drafter_kv_bytes_per_token or 0.0)

    def _sequences(self, weights: float, kv_per_token: float) -> int | None:
        capacity, target = self.capacity_bytes, self.weight_bytes
        kv, context = self.kv_bytes_per_token, self.context
        if capacity is None or target is None or not kv or not context:
            return None
        return max(int((capacity - target - weights) // ((kv + kv_per_token) * context)), 0)
