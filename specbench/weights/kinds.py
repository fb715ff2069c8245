"""What class a configuration is loaded as, and which encoder-decoders are known."""

from __future__ import annotations

from typing import Any

ENCODER_DECODERS = ("bart", "marian", "mbart", "mt5", "t5")
"""Model types of encoder-decoders that the engine decodes; FLAN-T5 is of type t5."""


def auto_class(config: Any) -> Any:
    """The class that makes or loads a model with an output layer."""
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
