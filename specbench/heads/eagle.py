"""The EAGLE head: one decoder layer that continues the target's last states.

At step t it reads the embedding of token x_{t+1} beside the target's state h_t (after the final
norm) and gives a guess of h_{t+1}, which goes straight to the target's ``lm_head``; further steps
read that guess in the place of the state. (Li et al. 2024, arXiv 2401.15077; EAGLE-2 uses the same
weights in a tree, arXiv 2406.16858.) Parameters are named as in published checkpoints.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from specbench.heads.decoder import DecoderLayer
from specbench.models.cache import RowCache


class EagleHead(nn.Module):
    """Fuses embedding and state, then one layer without a norm before it and none after it.

    Args:
        config: a Llama config of the layer; ``bias`` (default True) is whether ``fc`` has one.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        hidden_size = config.hidden_size
        self.fc = nn.Linear(2 * hidden_size, hidden_size, bias=getattr(config, "bias", True))
        self.layers = nn.ModuleList([DecoderLayer(config)])

    def forward(
        self,
        embeddings: Tensor,
        states: Tensor,
        positions: Tensor,
        cache: RowCache | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """One step for S inputs per row.

        Args:
            embeddings: [B, S, H] of the tokens x_{t+1}.
            states: [B, S, H] the target's h_t, or this head's own output for it.
            positions: [B, S] t.
            cache, mask: see :meth:`DecoderLayer.attend`.

        Returns:
            [B, S, H] what stands for h_{t+1}.
        """
        inputs = self.fc(torch.cat((embeddings, states), dim=-1))
        return self.layers[0].attend(inputs, inputs, positions, cache, mask)
