"""Medusa heads: small residual networks on one state, each guessing one token further ahead.

Head i (from 0) reads the target's last state at position t, after the final norm, and predicts the
token at t + 2 + i; the target's own head predicts t + 1. (Cai et al. 2024, arXiv 2401.10774.)
Parameters are named as in published checkpoints: ``{head}.{layer}.linear.weight`` and, where heads
bring an output layer of their own, ``{head}.{num_layers}.weight``.
"""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn


class ResBlock(nn.Module):
    """x + SiLU(Wx + b); made with W and b zero, so that training starts from the target's state."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(hidden_size, hidden_size)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, states: Tensor) -> Tensor:
        return states + nn.functional.silu(self.linear(states))


class MedusaHeads(nn.ModuleList):
    """All heads of a target.

    Args:
        hidden_size: H.
        num_heads: tokens that can be drafted ahead.
        num_layers: residual blocks per head.
        vocab_size: width V of output layers of their own, or None: the target's ``lm_head`` serves
            all heads.
    """

    def __init__(
        self, hidden_size: int, num_heads: int, num_layers: int = 1, vocab_size: int | None = None
    ) -> None:
        heads = []
        for _ in range(num_heads):
            layers: list[nn.Module] = [ResBlock(hidden_size) for _ in range(num_layers)]
            if vocab_size is not None:
                layers.append(nn.Linear(hidden_size, vocab_size, bias=False))
            heads.append(nn.Sequential(*layers))
        super().__init__(heads)
        self.num_layers = num_layers

    @property
    def lm_heads(self) -> list[nn.Linear]:
        """The heads' own output layers H to V, or none."""
        return [head[-1] for head in self if len(head) > self.num_layers]

    def forward(self, states: Tensor, most: int | None = None) -> Tensor:
        """States [..., H] to what goes into the output layers of the first ``most`` heads (default:
        all), [heads, ..., H]."""
        found = []
        for head in itertools.islice(self, most):
            output = states
            for block in itertools.islice(head, self.num_layers):
                output = block(output)
            found.append(output)
        return torch.stack(found)
