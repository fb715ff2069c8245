"""Attention while a draft is unrolled over every place of a sequence at once.

In use, step j of a draft sees the target's states up to where the draft began and the head's own
outputs of the steps before. In training all places begin a draft at once, so step j attends to

    keys of step 1 (the target's states) up to the place where its draft began,
    one key of each step 2..j: the one of its own draft.

Without this a head is trained on states that it never sees again after its first step (Zhang et
al. 2024, HASS; Li et al. 2025, EAGLE-3's training-time test).
"""

from __future__ import annotations

import torch
from torch import Tensor


class UnrolledKeys:
    """Stands in for a cache: keys and values of all steps, one behind the other."""

    def __init__(self) -> None:
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []

    def update(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """Add a step's [B, heads, S, D]; returns those of all steps, [B, heads, steps S, D]."""
        self._keys.append(keys)
        self._values.append(values)
        return torch.cat(self._keys, dim=2), torch.cat(self._values, dim=2)


def unrolled_mask(width: int, step: int) -> Tensor:
    """[1, 1, S, step S] what the inputs of a step (from 1) may see; input s began s - step + 1 ago.

    >>> unrolled_mask(3, 2)[0, 0].int().tolist()
    [[0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 1, 0], [1, 1, 0, 0, 0, 1]]
    """
    own = torch.arange(width)[:, None]
    keys = torch.arange(width)[None, :]
    parts = [keys <= own - (step - 1)]
    parts += [keys == own - (step - earlier) for earlier in range(2, step + 1)]
    return torch.cat(parts, dim=1)[None, None]
