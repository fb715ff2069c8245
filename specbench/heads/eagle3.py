"""The EAGLE-3 head: one decoder layer on features from three depths of the target.

Step t reads the embedding of x_{t+1} beside ``fc`` of three of the target's states at t; further
steps read the head's own output in their place, as it is *before* the final norm. The head has its
own output layer, often over a smaller vocabulary. (Li et al. 2025, arXiv 2503.01840.) Parameters
are named as in published checkpoints.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from specbench.heads.decoder import DecoderLayer
from specbench.models.cache import RowCache

NUM_FEATURES = 3


def usual_layers(num_layers: int) -> tuple[int, int, int]:
    """The layers whose entering states a head reads where its config names none."""
    return (2, num_layers // 2, num_layers - 3)


class Midlayer(DecoderLayer):
    """Norms embedding and state apart and attends over both side by side."""

    def __init__(self, config: Any) -> None:
        super().__init__(config, 2 * config.hidden_size)
        self.hidden_norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.norm_before_residual = getattr(config, "norm_before_residual", False)

    def forward(
        self,
        embeddings: Tensor,
        states: Tensor,
        positions: Tensor,
        cache: RowCache | None,
        mask: Tensor | None,
    ) -> Tensor:
        normed = self.hidden_norm(states)
        inputs = torch.cat((self.input_layernorm(embeddings), normed), dim=-1)
        residual = normed if self.norm_before_residual else states
        return self.attend(inputs, residual, positions, cache, mask)


class Eagle3Head(nn.Module):
    """The head and its output layer.

    Args:
        config: a Llama config of the layer; ``target_hidden_size`` (default: the hidden size) is
            the width of the target's states, ``norm_before_residual`` (default False) whether the
            residual carries the normed state.
        draft_vocab_size: ids of the output layer, V_draft.
    """

    def __init__(self, config: Any, draft_vocab_size: int) -> None:
        super().__init__()
        hidden_size = config.hidden_size
        state_size = getattr(config, "target_hidden_size", None) or hidden_size
        self.fc = nn.Linear(NUM_FEATURES * state_size, hidden_size, bias=False)
        self.midlayer = Midlayer(config)
        self.norm = LlamaRMSNorm(hidden_size, eps=config.rms_norm_eps)
        self.lm_head = nn.Linear(hidden_size, draft_vocab_size, bias=False)

    def combine(self, features: Tensor) -> Tensor:
        """The target's states, concatenated [B, S, 3 H_target], to the head's first [B, S, H]."""
        return self.fc(features)

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
            states: [B, S, H] from :meth:`combine`, or this head's own output.
            positions: [B, S] t.
            cache, mask: see :meth:`DecoderLayer.attend`.

        Returns:
            [B, S, H] before ``norm``: what the next step reads.
        """
        return self.midlayer(embeddings, states, positions, cache, mask)

    def logits(self, states: Tensor) -> Tensor:
        """Outputs [B, S, H] to logits over the head's own ids [B, S, V_draft]."""
        return self.lm_head(self.norm(states))
