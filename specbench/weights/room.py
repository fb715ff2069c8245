"""Whether a device has room for a model's weights, asked before any is read or made.

>>> config = find_shape("llama-3.1-8b").transformers_config()
>>> count_parameters(config)                                            # no memory is taken
8030261248
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from specbench.errors import SpecbenchError
from specbench.measure.memory import available_bytes
from specbench.weights.kinds import auto_class
from specbench.weights.source import weight_files


def count_parameters(config: Any) -> int:
    """Parameters of a transformers configuration, tied ones once."""
    with torch.device("meta"):
        model = auto_class(config).from_config(copy.deepcopy(config))
    return sum(weight.numel() for weight in model.parameters())


def loaded_bytes(folder: Path, config: Any, dtype: torch.dtype) -> int:
    """Bytes of a checkpoint's weights once loaded; of quantised ones, as large as their files."""
    if getattr(config, "quantization_config", None) is not None:
        return sum(file.stat().st_size for file in weight_files(folder))
    return count_parameters(config) * dtype.itemsize


def require_room(needed_bytes: int, device: torch.device, what: str) -> None:
    """Refuse weights that the device has no room for.

    Raises:
        SpecbenchError: with the bytes that are needed and those that are free.
    """
    free = available_bytes(device)
    if needed_bytes > free:
        raise SpecbenchError(
            f"{what} takes {needed_bytes / 1e9:.3g} GB, and {device} has {free / 1e9:.3g} GB free",
            "Take a smaller model, a narrower --dtype, or a device with more memory",
        )
