"""Which models can be rolled back by length, and up to which context; the others by name.

Speculation takes tokens back. With full attention that is free: K/V lies at slot = position and the
next forward overwrites it. A recurrent state cannot be taken back, and a sliding window that has
begun to drop keys cannot either, so such models are refused, or limited to contexts inside the
window, where a window changes nothing.
"""

from __future__ import annotations

from typing import Any

from specbench.errors import SpecbenchError

_RECURRENT_TYPES = {
    "mamba", "mamba2", "falcon_mamba", "rwkv", "recurrent_gemma", "xlstm",
    "jamba", "bamba", "zamba", "zamba2", "nemotron_h", "falcon_h1", "granitemoehybrid",
    "lfm2", "lfm2_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe", "minimax", "kimi_linear", "plamo2",
}  # fmt: skip
_ALIBI_TYPES = {"bloom", "mpt"}
_FULL_ATTENTION = {"full_attention", "attention"}


def require_rollback(config: Any, name: str) -> None:
    """Refuse a model whose cache cannot be rolled back by a smaller length.

    Raises:
        SpecbenchError: naming the model, its type and the reason.
    """
    text = config.get_text_config()
    kind = text.model_type
    if getattr(config, "is_encoder_decoder", False):
        reason = "is an encoder-decoder, which the engine does not decode yet"
    elif kind in _RECURRENT_TYPES or _has_recurrent_layers(text):
        reason = "keeps a recurrent state, which cannot be rolled back after a rejected draft"
    elif kind in _ALIBI_TYPES or getattr(text, "alibi", False):
        reason = "computes ALiBi biases from padding masks, which per-row lengths do not have"
    else:
        return
    raise SpecbenchError(
        f"{name} (model type {kind!r}) {reason}",
        "Use a decoder-only model with full attention and rotary or learned positions",
    )


def context_limit(config: Any) -> int:
    """The most positions a row may use: the position range, and the window if there is one.

    Inside the window a sliding-window model is a full-attention model; beyond it, rolled-back keys
    would be gone, so the engine does not go there.
    """
    text = config.get_text_config()
    limit = int(getattr(text, "max_position_embeddings", None) or 1 << 30)
    window = getattr(text, "sliding_window", None)
    slides = getattr(text, "use_sliding_window", True)
    layer_types = getattr(text, "layer_types", None)
    if layer_types is not None:
        slides = any("sliding" in kind or "chunked" in kind for kind in layer_types)
        window = window or getattr(text, "attention_chunk_size", None)
    return min(limit, int(window)) if window and slides else limit


def _has_recurrent_layers(text: Any) -> bool:
    """Whether the config lists layers that are neither full nor windowed attention."""
    for kind in getattr(text, "layer_types", None) or []:
        if kind not in _FULL_ATTENTION and "sliding" not in kind and "chunked" not in kind:
            return True
    return False
