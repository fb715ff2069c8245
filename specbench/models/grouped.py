"""Attention of query heads that share key/value heads, without copies of keys and values.

torch's fused kernels with a mask want as many key/value heads as query heads, so for more than one
token per row transformers copies each key/value head for every query head that shares it: with four
of them the filled cache is read once, written four times and read four times. Verification would
take longer than a plain step by nothing but that. What a row may see is the same for all heads, so
the queries of a group can stand behind one another as further queries of their one key/value head:
the same products, no copies. (transformers does so itself for one token, unless it is compiled.)

Used on CUDA for forwards of few tokens; prompts, where the copies cost little beside the products,
stay with transformers' own.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

NAME = "grouped_sdpa"
MOST_TOKENS = 64
"""Forwards of more tokens per row take the usual way; far above any draft."""

_BEYOND_THE_KERNEL = ("position_bias", "softcap")


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """As transformers' sdpa: query [B, heads, S, D], key and value [B, groups, slots, D].

    Args:
        attention_mask: [B, 1, S, slots], added to the scores; or None.

    Returns:
        [B, S, heads, D], and no attention weights.
    """
    batch, heads, width, _ = query.shape
    per_group = heads // key.shape[1]
    if (
        attention_mask is None
        or attention_mask.shape[1] > 1  # heads see different slots
        or width > MOST_TOKENS
        or any(kwargs.get(name) is not None for name in _BEYOND_THE_KERNEL)
    ):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **kwargs
        )
    packed = query.reshape(batch, key.shape[1], per_group * width, -1)  # a group's heads adjoin
    mask = attention_mask.repeat(1, 1, per_group, 1)
    attended = scaled_dot_product_attention(
        packed, key, value, attn_mask=mask, dropout_p=dropout, scale=scaling
    )
    return attended.reshape(batch, heads, width, -1).transpose(1, 2).contiguous(), None


def group_queries(model: nn.Module) -> bool:
    """Let sdpa attention of a model whose heads share keys and values work so; does it now?"""
    config: Any = model.config.get_text_config()
    heads = config.num_attention_heads
    shares = (getattr(config, "num_key_value_heads", None) or heads) < heads
    if not shares or config._attn_implementation != "sdpa":
        return False
    AttentionInterface.register(NAME, grouped_attention)
    model.set_attn_implementation(NAME)
    return config._attn_implementation == NAME
