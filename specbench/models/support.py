"""Which models can be rolled back by length, and up to which context; the others by name.

Speculation takes tokens back. With full attention that is free: K/V lies at slot = position and the
next forward overwrites it. A recurrent state cannot be taken back, and a sliding window that has
begun to drop keys cannot either, so such models are refused, or limited to contexts inside the
window, where a window changes nothing.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from specbench.errors import SpecbenchError
from specbench.weights.kinds import ENCODER_DECODERS

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
    hint = "Use a decoder-only model with full attention and rotary or learned positions"
    if getattr(config, "is_encoder_decoder", False):
        if kind in ENCODER_DECODERS:
            return
        reason = "is an encoder-decoder whose decoder the engine can't tell each row's positions"
        hint = f"Of encoder-decoders it knows {', '.join(ENCODER_DECODERS)}"
    elif kind in _RECURRENT_TYPES or _has_recurrent_layers(text):
        reason = "keeps a recurrent state, which cannot be rolled back after a rejected draft"
    elif kind in _ALIBI_TYPES or getattr(text, "alibi", False):
        reason = "computes ALiBi biases from padding masks, which per-row lengths do not have"
    else:
        return
    raise SpecbenchError(f"{name} (model type {kind!r}) {reason}", hint)


def context_limit(config: Any) -> int:
    """The most positions a row may use: the position range, and the window if there is one.

    Inside the window a sliding-window model is a full-attention model; beyond it, rolled-back keys
    would be gone, so the engine does not go there. Nor where LongRoPE exchanges all frequencies: a
    draft of one row that reaches that length would change what every row computes.
    """
    text = config.get_text_config()
    limit = int(getattr(text, "max_position_embeddings", None) or 1 << 30)
    limit = min([limit, *_longrope_lengths(text)])
    window = getattr(text, "sliding_window", None)
    slides = getattr(text, "use_sliding_window", True)
    layer_types = getattr(text, "layer_types", None)
    if layer_types is not None:
        slides = any("sliding" in kind or "chunked" in kind for kind in layer_types)
        window = window or getattr(text, "attention_chunk_size", None)
    if "local" in (getattr(text, "attention_layers", None) or []):  # GPT-Neo
        window = text.window_size
    return min(limit, int(window)) if window and slides else limit


def cache_argument(accepted: Container[str], config: Any, name: str) -> str:
    """How a model's forward calls its cache: transformers 5.24 renamed it.

    Args:
        accepted: the forward's parameters.
        config: the model's.
        name: how messages call the model.

    Raises:
        SpecbenchError: it takes no cache, or no positions, which many a forward swallows silently.
    """
    found = [known for known in ("cache", "past_key_values") if known in accepted]
    told_otherwise = getattr(config, "is_encoder_decoder", False)  # where its tokens stand
    if found and ("position_ids" in accepted or told_otherwise):
        return found[0]
    kind = config.get_text_config().model_type
    lacks = "positions, so rows can't have lengths of their own" if found else "key/value cache"
    raise SpecbenchError(
        f"{name} (model type {kind!r}) takes no {lacks}",
        "Use a decoder-only model with full attention and rotary or learned positions",
    )


def unused_generation_settings(generation_config: Any, honoured: Container[str] = ()) -> list[str]:
    """What a generation config asks for and the engine does not do, as ``name=value``.

    Temperature, top-k and top-p come from the command line and stop tokens are honoured. Processors
    that reshape logits by what was generated before (a repetition penalty) are left out of baseline
    and speculation alike, and are to be named in the record.

    Args:
        honoured: names of those that the target's wrapper takes care of.
    """
    found = []
    for name, neutral in _NEUTRAL_SETTINGS.items():
        value = getattr(generation_config, name, None)
        if value is not None and value not in neutral and name not in honoured:
            found.append(f"{name}={value}")
    return found


_NEUTRAL_SETTINGS: dict[str, tuple[Any, ...]] = {
    "num_beams": (1,),
    "repetition_penalty": (1.0,),
    "encoder_repetition_penalty": (1.0,),
    "no_repeat_ngram_size": (0,),
    "min_p": (0.0,),
    "typical_p": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
    "top_h": (),
    "bad_words_ids": ([],),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "sequence_bias": ({},),
    "exponential_decay_length_penalty": (),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "guidance_scale": (1.0,),
    "watermarking_config": (),
}


def _longrope_lengths(text: Any) -> list[int]:
    """The lengths at which rotary embeddings of type LongRoPE change, one per kind of layer."""
    rope = getattr(text, "rope_parameters", None) or {}
    settings = [rope, *(setting for setting in rope.values() if isinstance(setting, dict))]
    return [
        int(setting["original_max_position_embeddings"])
        for setting in settings
        if setting.get("rope_type") == "longrope"
    ]


def _has_recurrent_layers(text: Any) -> bool:
    """Whether the config lists layers that are neither full nor windowed attention."""
    for kind in getattr(text, "layer_types", None) or []:
        if kind not in _FULL_ATTENTION and "sliding" not in kind and "chunked" not in kind:
            return True
    return False
