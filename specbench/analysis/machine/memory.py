"""What a group's cells recorded of memory; see :mod:`specbench.theory.capacity`.

A drafter's weights are those that it holds beyond the target's; of older records those that its
step reads: a head that reads the target's output layer is charged with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specbench.analysis.machine.measured import cost_of
from specbench.analysis.pooling import Group, Raw
from specbench.records.spec_text import kind_of
from specbench.records.steps import numbers
from specbench.theory.capacity import Memory

__all__ = ["Memory", "memory_of"]

_WITHIN_THE_TARGET = ("early-exit",)  # drafters whose weights and keys are the target's
_WITHOUT_A_CACHE = ("early-exit", "medusa", "ngram")


def memory_of(group: Group, baselines: Sequence[Raw]) -> Memory:
    """What a group's cells and baselines recorded."""
    own = [cell for cells in group.cells.values() for cell in cells]
    kind = kind_of(group.key.drafter)
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
        weight_bytes=cost_of(own, "weight_held_bytes", "weight_bytes"),
        kv_bytes_per_token=cost_of([*group.baselines, *own], "kv_bytes_per_token"),
        drafter_weight_bytes=0.0
        if within
        else cost_of(own, "drafter_held_bytes", "drafter_weight_bytes"),
        drafter_kv_bytes_per_token=0.0
        if kind in _WITHOUT_A_CACHE
        else cost_of(own, "drafter_kv_bytes_per_token"),
        context=context if np.isfinite(context) else None,
    )
