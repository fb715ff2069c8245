"""What ``--dtype`` and ``--attention`` mean for one model: ``auto`` or as asked."""

from __future__ import annotations

from typing import Any

from specbench.errors import SpecbenchError
from specbench.measure.device import DTYPES
from specbench.weights.kinds import auto_class

ATTENTIONS = ("auto", "sdpa", "eager")
SHORT_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def check_attention(attention: str) -> None:
    """Raises SpecbenchError if there is no attention of that name."""
    if attention not in ATTENTIONS:
        raise SpecbenchError(
            f"unknown attention {attention!r}",
            f"Known: {', '.join(ATTENTIONS)} (others take no mask per row, which the engine needs)",
        )


def chosen_dtype(dtype: str, config: Any, device: Any) -> tuple[Any, list[str]]:
    """The torch dtype to load in, and what to say about it."""
    import torch

    if dtype != "auto":
        return parse_dtype(dtype), []
    stored = getattr(config, "dtype", None)
    if isinstance(stored, str):
        stored = parse_dtype(stored)
    if stored is None:
        return torch.float32, []
    if stored is torch.float16 and device.type == "cpu":
        return torch.float32, [
            "the checkpoint is float16, which a CPU computes slowly: loading it as float32"
            " (--dtype float16 insists)"
        ]
    return stored, []


def parse_dtype(dtype: str) -> Any:
    """The torch dtype of a name; short names (``bf16``, ``fp16``, ``fp32``) too.

    Raises:
        SpecbenchError: no such dtype.
    """
    import torch

    known = {
        "float32": torch.float32,
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
        "float64": torch.float64,
    }
    name = SHORT_DTYPES.get(dtype, dtype).removeprefix("torch.")
    if name not in known:
        raise SpecbenchError(f"unknown dtype {dtype!r}", f"Known: {', '.join(DTYPES)}")
    return known[name]


def chosen_attention(attention: str, config: Any) -> str:
    """The attention implementation to load with.

    Raises:
        SpecbenchError: the architecture has it not.
    """
    if attention == "auto":
        return "sdpa" if _supports_sdpa(config) else "eager"
    if attention == "sdpa" and not _supports_sdpa(config):
        raise SpecbenchError(
            f"{config.model_type} has no sdpa attention in transformers", "Pass --attention eager"
        )
    return attention


def _supports_sdpa(config: Any) -> bool:
    model_class = auto_class(config)._model_mapping[type(config)]
    return bool(getattr(model_class, "_supports_sdpa", False))
