"""A model's configuration, read and checked to be one that generates text token by token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.weights.kinds import ENCODER_DECODERS
from specbench.weights.shapes import find_shape


def read_config(path: Path, name: str) -> Any:
    """The transformers configuration in a folder or a shape's file, of a causal language model.

    Args:
        name: how messages call the model.

    Raises:
        SpecbenchError: it can't be read, or generates no text that the engine could roll back.
    """
    from transformers import AutoConfig

    try:
        if path.suffix == ".toml":
            config = find_shape(path.stem).transformers_config()
        else:
            config = AutoConfig.from_pretrained(path, trust_remote_code=False)
    except (ValueError, KeyError, OSError) as error:
        raise _config_error(path, name, error) from error
    check_causal(config, name)
    return config


def _config_error(path: Path, name: str, error: Exception) -> SpecbenchError:
    try:
        raw = json.loads((path / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as json_error:
        return SpecbenchError(f"the config.json of {name!r} can't be read: {json_error}")
    if not isinstance(raw, dict) or "model_type" not in raw:
        return SpecbenchError(
            f"the config.json of {name!r} names no model_type", "Is it a transformers model?"
        )
    if "auto_map" in raw:
        return SpecbenchError(
            f"{name!r} needs code of its own (auto_map), which is never run",
            "Pass a model whose architecture transformers has",
        )
    return SpecbenchError(
        f"transformers can't read the config.json of {name!r} (model_type"
        f" {raw['model_type']!r}): {error}",
        "A newer transformers may know this model",
    )


def check_causal(config: Any, name: str) -> None:
    """Refuse non-causal models, and encoder-decoders that are not known, by name.

    Raises:
        SpecbenchError: the model does not generate text that the engine could roll back.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    kind = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        if kind in ENCODER_DECODERS:
            return
        raise SpecbenchError(
            f"{name!r} ({kind}) is an encoder-decoder model of a kind that is not known here",
            f"Known: {', '.join(ENCODER_DECODERS)}",
        )
    hint = "The target must be a causal language model"
    architectures = list(getattr(config, "architectures", None) or [])
    causal = {
        head
        for heads in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
        for head in ([heads] if isinstance(heads, str) else heads)
    }
    if kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or (
        architectures and not causal.intersection(architectures)
    ):
        shown = ", ".join(architectures) or kind
        raise SpecbenchError(f"{name!r} ({shown}) is no causal language model", hint)
