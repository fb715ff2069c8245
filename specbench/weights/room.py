"""Whether a device has room for a model's weights, asked before any is read or made.

>>> config = find_shape("llama-3.1-8b").transformers_config()
>>> count_parameters(config)                                            # no memory is taken
8030261248
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from specbench.errors import SpecbenchError
from specbench.weights.kinds import auto_class
from specbench.weights.placement import Placement


def outline_of(config: Any) -> nn.Module:
    """A model with all its layers and no weights: it takes no memory."""
    with torch.device("meta"):
        model: nn.Module = auto_class(config).from_config(copy.deepcopy(config))
    return model


def count_parameters(config: Any) -> int:
    """Parameters of a transformers configuration, tied ones once."""
    return sum(weight.numel() for weight in outline_of(config).parameters())


def loaded_bytes(config: Any, dtype: torch.dtype, file_bytes: int, bits: int | None = None) -> int:
    """Bytes of a checkpoint's weights once loaded; of quantised ones, as large as their files.

    Args:
        file_bytes: of those files.
        bits: of a weight that is quantised on the way; what is left in ``dtype`` comes on top.
    """
    if getattr(config, "quantization_config", None) is not None:
        return file_bytes
    return count_parameters(config) * (bits or 8 * dtype.itemsize) // 8


def require_room(needed_bytes: int, place: torch.device | Placement, what: str) -> None:
    """Refuse weights that there is no room for where they would go.

    Raises:
        SpecbenchError: with the bytes that are needed and those that are free.
    """
    place = place if isinstance(place, Placement) else Placement((place,))
    free = place.free_bytes
    if needed_bytes > free:
        raise SpecbenchError(
            f"{what} takes {needed_bytes / 1e9:.3g} GB, and {place} has {free / 1e9:.3g} GB free",
            "Take a smaller model, a narrower --dtype, or a device with more memory",
        )
