"""Checkpoints that come quantised: what their config says, and what was made of them.

transformers loads GPTQ, AWQ, FP8, compressed-tensors, bitsandbytes and torchao checkpoints from the
``quantization_config`` of their config.json, each with a package of its own; where a device has no
kernel for them it may dequantise instead. Which it did is seen in the loaded model's layers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from specbench.errors import SpecbenchError, short_reason
from specbench.weights.stored import quantised_part

_PACKAGES = {
    "awq": "gptqmodel",
    "bitsandbytes": "bitsandbytes",
    "compressed-tensors": "compressed-tensors",
    "gptq": "gptqmodel optimum",
    "torchao": "torchao",
}
"""What to install for a method; of others transformers' own message names it."""

_BY_BITS = ("bitsandbytes",)  # transformers lists it as two methods, of 8 bits and of 4


def config_of(config: Any) -> dict[str, Any] | None:
    """The ``quantization_config`` of a checkpoint's config in plain values; None: it has none."""
    found = getattr(config, "quantization_config", None)
    if found is None:
        return None
    values = found if isinstance(found, Mapping) else found.to_dict()
    return dict(values)


def method_of(values: Mapping[str, Any]) -> str:
    """The name of a checkpoint's method."""
    return str(getattr(found := values.get("quant_method", "unknown"), "value", found))


def is_quantised(model: Any) -> bool:
    """Whether a loaded model has quantised layers."""
    return bool(quantised_part(model)["layers"])


def check_config(config: Any, name: str, asked: str | None) -> None:
    """Refuse a checkpoint of an unknown method, and to quantise what is quantised.

    Args:
        config: of the checkpoint.
        name: how messages call it.
        asked: the method to quantise it by, if one is asked for.

    Raises:
        SpecbenchError: transformers would take packed weights for plain ones, or quantise twice.
    """
    from transformers.quantizers.auto import AUTO_QUANTIZER_MAPPING

    values = config_of(config)
    if values is None:
        return
    method = method_of(values)
    if method not in _BY_BITS and method not in AUTO_QUANTIZER_MAPPING:
        raise SpecbenchError(
            f"{name!r} is quantised by a method that transformers does not know ({method})",
            "A newer transformers may know it; or take the model that it was quantised from",
        )
    if asked is not None:
        raise SpecbenchError(
            f"{name!r} is quantised already ({method}), so it can't be quantised as {asked}",
            "Leave the option out, or take the model that it was quantised from",
        )


def used_once(model: Any) -> None:
    """Let a library unpack now what it would unpack at the first forward (compressed-tensors)."""
    import torch

    token = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    source = {"decoder_input_ids": token} if model.config.is_encoder_decoder else {}
    with torch.inference_mode():
        model(input_ids=token, **source)


def facts(config: Any, model: Any, dtype: str) -> dict[str, Any] | None:
    """What the record says of a checkpoint's quantisation; None: it has none."""
    values = config_of(config)
    if values is None:
        return None
    part = quantised_part(model)
    told = {
        "method": method_of(values),
        "bits": _bits(values),
        "group": _group(values),
        "source": "checkpoint",
    }
    return {**told, **part} if part["layers"] else {**told, "dequantised_to": dtype}


def sentence(told: Mapping[str, Any], dtype: str) -> str:
    """A record's facts about a quantisation in one line.

    >>> sentence({"method": "gguf", "stored_as": "Q4_1", "dequantised_to": "float32"}, "float32")
    'its weights (gguf, Q4_1) are dequantised to float32'
    """
    if "dequantised_to" in told:
        how = ", ".join(filter(None, (told["method"], told.get("stored_as"))))
        return f"its weights ({how}) are dequantised to {told['dequantised_to']}"
    group = told["group"]
    scales = "" if group is None else f", a scale per {group} weights"
    return (
        f"{told['method']}: {told['layers']} layers with {told['share_of_weights']:.0%} of its"
        f" weights{scales}; the rest is {dtype}"
    )


def load_error(config: Any, name: str, error: Exception) -> SpecbenchError | None:
    """What to say where a quantised checkpoint can't be loaded; None: it isn't quantised."""
    values = config_of(config)
    if values is None:
        return None
    method = method_of(values)
    hint = "Take the model that it was quantised from, or a method that this machine has"
    if isinstance(error, ImportError) and method in _PACKAGES:
        hint = f"pip install {_PACKAGES[method]}"
    reason = short_reason(error)
    return SpecbenchError(f"{name!r} is quantised ({method}) and can't be loaded: {reason}", hint)


def _bits(values: Mapping[str, Any]) -> int | None:
    """Of a weight; None where the config does not say.

    >>> _bits({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnly"}}})
    4
    """
    if isinstance(bits := values.get("bits") or values.get("w_bit"), int):
        return bits
    if method_of(values) == "fp8" or values.get("load_in_8bit"):
        return 8
    if values.get("load_in_4bit"):
        return 4
    if named := re.search(r"(\d)Weight", str(_torchao(values).get("_type"))):
        return int(named[1])
    return _compressed(values).get("num_bits")


def _group(values: Mapping[str, Any]) -> int | list[int] | None:
    """Weights that share a scale, [rows, columns] of a block of them; None: not said, or a row."""
    group = values.get("group_size") or values.get("weight_block_size")
    if group is None:
        told = _compressed(values) or _torchao(values).get("_data") or {}
        group = told.get("group_size")
    return None if group in (None, -1) else list(group) if isinstance(group, tuple) else group


def _torchao(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings of a torchao checkpoint: the name of their class and its fields."""
    told = values.get("quant_type")
    default = told.get("default") if isinstance(told, Mapping) else None
    return default if isinstance(default, Mapping) else {}


def _compressed(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """How the first group of layers of a compressed-tensors checkpoint stores weights."""
    groups = values.get("config_groups") or {}
    first: Any = next(iter(groups.values()), {}) if isinstance(groups, Mapping) else {}
    return (first.get("weights") or {}) if isinstance(first, Mapping) else {}
