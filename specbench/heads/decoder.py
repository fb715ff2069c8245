"""One Llama decoder layer with a key/value cache of per-row lengths: the body of both EAGLE heads.

Norm, MLP and rotary embedding are transformers' own. The attention is written out, because it reads
a :class:`RowCache` and because EAGLE-3 feeds it two states side by side. Without a cache it is
plain causal attention over what it is given, and differentiable.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

from specbench.models.cache import RowCache
from specbench.models.language_model import LanguageModel


def layer_config(target: LanguageModel, **changes: Any) -> LlamaConfig:
    """The config of one Llama layer of the target's width, turning as fast as the target's.

    Args:
        target: any architecture; heads and MLP width are taken over where the config names them.
        changes: fields to set.
    """
    config = target.config
    heads = config.num_attention_heads
    rope = getattr(config, "rope_parameters", None) or {}
    fields = {
        "vocab_size": target.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": getattr(config, "num_key_value_heads", None) or heads,
        "max_position_embeddings": getattr(config, "max_position_embeddings", target.context_limit),
        "rms_norm_eps": getattr(config, "rms_norm_eps", 1e-5),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": rope.get("rope_theta") or 10_000.0,
        },
        "tie_word_embeddings": False,
    }
    return LlamaConfig(**(fields | changes))


class Attention(nn.Module):
    """Grouped-query attention over a cache of one layer.

    Args:
        config: a Llama config; ``qkv_bias`` (default False) gives the three projections a bias.
        input_size: width of what comes in, a multiple of the hidden size.
    """

    def __init__(self, config: Any, input_size: int) -> None:
        super().__init__()
        hidden_size, num_heads = config.hidden_size, config.num_attention_heads
        self.head_dim = getattr(config, "head_dim", None) or hidden_size // num_heads
        query_size = num_heads * self.head_dim
        key_size = config.num_key_value_heads * self.head_dim
        bias = getattr(config, "qkv_bias", False)
        self.q_proj = nn.Linear(input_size, query_size, bias=bias)
        self.k_proj = nn.Linear(input_size, key_size, bias=bias)
        self.v_proj = nn.Linear(input_size, key_size, bias=bias)
        self.o_proj = nn.Linear(query_size, hidden_size, bias=False)

    def forward(
        self,
        inputs: Tensor,
        rotation: tuple[Tensor, Tensor],
        cache: RowCache | None,
        mask: Tensor | None,
    ) -> Tensor:
        """[B, S, input_size] to [B, S, H]."""
        batch, width, _ = inputs.shape
        shape = (batch, width, -1, self.head_dim)
        query = self.q_proj(inputs).view(shape).transpose(1, 2)  # [B, heads, S, D]
        key = self.k_proj(inputs).view(shape).transpose(1, 2)
        value = self.v_proj(inputs).view(shape).transpose(1, 2)
        query, key = apply_rotary_pos_emb(query, key, *rotation)
        if cache is not None:
            key, value = cache.update(key, value, 0)
        attended = nn.functional.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            is_causal=cache is None and mask is None,
            enable_gqa=True,
        )
        return self.o_proj(attended.transpose(1, 2).reshape(batch, width, -1))


class DecoderLayer(nn.Module):
    """Attention and MLP with their residuals; what comes in is not normed here.

    The rotary frequencies stay float32 as long as the module's dtype is not changed as a whole:
    give it parameters of another dtype instead (``load_state_dict(..., assign=True)``).
    """

    def __init__(self, config: Any, input_size: int | None = None) -> None:
        super().__init__()
        self.self_attn = Attention(config, input_size or config.hidden_size)
        self.mlp = LlamaMLP(config)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary = LlamaRotaryEmbedding(config)

    def attend(
        self,
        inputs: Tensor,
        residual: Tensor,
        positions: Tensor,
        cache: RowCache | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """One pass.

        Args:
            inputs: [B, S, input_size] what queries, keys and values are made of.
            residual: [B, S, H] what the attention's output is added to.
            positions: [B, S].
            cache: has been told where these tokens go (:meth:`RowCache.expect`), or None: the S
                inputs see each other causally.
            mask: [B, 1, S, slots] boolean (True is seen) or added to the scores; may be left out
                with a cache only if every input sees every slot.

        Returns:
            [B, S, H].
        """
        rotation = self.rotary(inputs, positions)
        states = residual + self.self_attn(inputs, rotation, cache, mask)
        return states + self.mlp(self.post_attention_layernorm(states))
