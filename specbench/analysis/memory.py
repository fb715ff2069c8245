"""Sequences that fit into memory beside the weights, with and without a drafter.

What is left after the weights holds keys and values. Activations, the allocator's reserve and
whatever else lives there are not counted, so both numbers are upper bounds; their difference is
what the drafter costs. A drafter's weights are those that its step reads beyond the target's own,
as recorded: a head that reads the target's output layer is charged with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specbench.analysis.pooling import Group, Raw
from specbench.records.schema import CellRecord
from specbench.records.steps import numbers

_WITHIN_THE_TARGET = ("early-exit",)  # drafters whose weights and keys are the target's
_WITHOUT_A_CACHE = ("early-exit", "medusa", "ngram")


@dataclass(frozen=True)
class Memory:
    """What is recorded of one group; None where it is not.

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


def memory_of(group: Group, baselines: Sequence[Raw]) -> Memory:
    """What a group's cells and baselines recorded."""
    own = [cell for cells in group.cells.values() for cell in cells]
    kind = group.key.drafter.partition(":")[0].partition(",")[0]
    within = kind in _WITHIN_THE_TARGET
    lengths = [
        numbers(requests, "prompt_tokens") + numbers(requests, "num_tokens")
        for _, requests in baselines
    ]
    context = float(np.concatenate(lengths).mean()) if lengths else np.nan
    return Memory(
        capacity_bytes=next(
            (c.memory_capacity_bytes for c in own if c.memory_capacity_bytes), None
        ),
        weight_bytes=_cost(own, "weight_bytes"),
        kv_bytes_per_token=_cost([*group.baselines, *own], "kv_bytes_per_token"),
        drafter_weight_bytes=0.0 if within else _cost(own, "drafter_weight_bytes"),
        drafter_kv_bytes_per_token=0.0
        if kind in _WITHOUT_A_CACHE
        else _cost(own, "drafter_kv_bytes_per_token"),
        context=context if np.isfinite(context) else None,
    )


def _cost(cells: Sequence[CellRecord], name: str) -> float | None:
    values = [((cell.model_extra or {}).get("cost") or {}).get(name) for cell in cells]
    return next((float(value) for value in values if value is not None), None)
