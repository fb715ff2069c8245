"""Which models can be rolled back by length, and up to which context; the others by name.

Speculation takes tokens back. With attention that is free: K/V lies at slot = position, the next
forward overwrites it, and windows stand in the mask. A recurrent state cannot be taken back, and
positions that are not each row's own make rows of a batch wrong, so such models are refused.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from specbench.errors import SpecbenchError
from specbench.models.families import Refused, Runs, behaviour_of
from specbench.models.windows import FULL, SLIDING, layer_windows

_ATTENTION = {FULL, SLIDING, "attention"}
_HINT = "Llama, Qwen3, Mistral, Gemma 2 and many others run: docs/models.md lists them"


def require_rollback(config: Any, name: str) -> None:
    """Refuse a model that the engine could not decode, or not rightly; its config is enough.

    Raises:
        SpecbenchError: naming the model, its type and the reason.
    """
    behaviour = behaviour_by_config(config)
    if isinstance(behaviour, Refused):
        kind = config.get_text_config().model_type
        raise SpecbenchError(f"{name} (model type {kind!r}) {behaviour}", _HINT)


def behaviour_by_config(config: Any) -> Runs | Refused:
    """What a model's cache and positions do: by what its config says, then by its family."""
    text = config.get_text_config()
    behaviour = behaviour_of(text.model_type)
    if getattr(config, "is_encoder_decoder", False):
        return behaviour if behaviour is Runs.ENCODER_DECODER else Refused.ENCODER_DECODER
    kinds = set(getattr(text, "layer_types", None) or ())
    if getattr(text, "alibi", False):
        return Refused.ALIBI
    if behaviour in (Refused.UNKNOWN, *Runs) and kinds - _ATTENTION:
        chunked = any("chunked" in kind for kind in kinds)
        return Refused.CHUNKED if chunked else Refused.RECURRENT
    if (
        isinstance(behaviour, Runs)
        and behaviour is not Runs.WINDOW
        and SLIDING in layer_windows(text)
    ):
        return Refused.WINDOW
    return behaviour


def context_limit(config: Any) -> int:
    """The most positions a row may use: the position range, and a window that no mask can hold.

    Nor may rows go where LongRoPE exchanges all frequencies: a draft of one row that reaches that
    length would change what every row computes.
    """
    text = config.get_text_config()
    limit = int(getattr(text, "max_position_embeddings", None) or 1 << 30)
    limit = min([limit, *_longrope_lengths(text)])
    if "local" in (getattr(text, "attention_layers", None) or []):  # GPT-Neo's own window
        limit = min(limit, int(text.window_size))
    return limit


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
        _HINT,
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
