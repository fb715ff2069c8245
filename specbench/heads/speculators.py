"""The ``speculators`` format that vLLM reads: a config of its own around EAGLE-3's tensors.

Recognised by ``speculators_model_type`` in ``config.json``. The layer's config lies in
``transformer_layer_config``, and tensors are named ``layers.0.`` where EAGLE-3 says ``midlayer.``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specbench.errors import SpecbenchError
from specbench.heads.files import Checkpoint

NORM_NOTE = (
    "the head's config has no norm_before_residual: False is assumed, as speculators does (vLLM"
    " assumes True)"
)


def is_speculators(config: Mapping[str, Any]) -> bool:
    return "speculators_model_type" in config or "speculators_config" in config


def translate(checkpoint: Checkpoint) -> tuple[Checkpoint, list[str]]:
    """A checkpoint of this format in EAGLE-3's own terms, and what had to be assumed.

    Raises:
        SpecbenchError: its algorithm is another than EAGLE-3, or the layer's config is missing.
    """
    config, name = checkpoint.config, checkpoint.name
    speculation = _table(config.get("speculators_config"))
    algorithm = speculation.get("algorithm") or config.get("speculators_model_type")
    if algorithm != "eagle3":
        raise SpecbenchError(
            f"{name!r} is a speculators checkpoint for the algorithm {algorithm!r}, which is not"
            " supported",
            "Of this format eagle3 is",
        )
    layer = config.get("transformer_layer_config")
    if not isinstance(layer, dict):
        raise SpecbenchError(f"the config.json of {name!r} has no transformer_layer_config")
    verifier = _table(speculation.get("verifier")).get("name_or_path")
    own = {
        "draft_vocab_size": config.get("draft_vocab_size"),
        "norm_before_residual": config.get("norm_before_residual", False),
        "eagle_aux_hidden_state_layer_ids": config.get("eagle_aux_hidden_state_layer_ids"),
        "target_hidden_size": config.get("target_hidden_size"),
        "base_model_name_or_path": verifier,
    }
    tensors = {_rename(key): tensor for key, tensor in checkpoint.tensors.items()}
    notes = [] if "norm_before_residual" in config else [NORM_NOTE]
    return replace(checkpoint, config={**layer, **own}, tensors=tensors), notes


def _table(value: object) -> Mapping[str, Any]:
    """A part of the config that only informs; empty where it is no object."""
    return value if isinstance(value, dict) else {}


def _rename(key: str) -> str:
    prefix = "layers.0."
    return f"midlayer.{key.removeprefix(prefix)}" if key.startswith(prefix) else key
