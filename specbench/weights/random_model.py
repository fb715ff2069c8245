"""Random weights in a given shape, made where they are used: nothing is read or copied.

They are drawn as the architecture starts its own training, so states and logits stay finite at any
depth and in any dtype; the same configuration, dtype and kind of device give the same weights.
Whether they fit is asked before any is made.

>>> config = find_shape("llama-3.1-8b").transformers_config()
>>> count_parameters(config)                                            # no memory is taken
8030261248
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from specbench.errors import SpecbenchError
from specbench.measure.memory import available_bytes
from specbench.weights.kinds import auto_class

SEED = 0


def count_parameters(config: Any) -> int:
    """Parameters of a transformers configuration, tied ones once."""
    return sum(weight.numel() for weight in outline_of(config).parameters())


def outline_of(config: Any) -> nn.Module:
    """A model with all its layers and no weights: it takes no memory."""
    with torch.device("meta"):
        model: nn.Module = auto_class(config).from_config(config)
    return model


def random_model(
    config: Any, dtype: torch.dtype, device: torch.device, attention: str, name: str
) -> nn.Module:
    """A causal language model on its device.

    Args:
        config: as transformers has it.
        dtype, device, attention: of the model.
        name: how messages call it.

    Raises:
        SpecbenchError: the device has no room for its weights.
    """
    try:
        needed = count_parameters(config) * dtype.itemsize
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise SpecbenchError(
            f"no model can be made of the config.json of {name}: {error}", "Mend its dimensions"
        ) from error
    require_room(needed, device, f"{name} in {str(dtype).removeprefix('torch.')}")
    with device, seeded(device):
        return auto_class(config).from_config(config, dtype=dtype, attn_implementation=attention)


def require_room(needed_bytes: int, device: torch.device, what: str) -> None:
    """Refuse weights that the device has no room for.

    Raises:
        SpecbenchError: with the bytes that are needed and those that are free.
    """
    free = available_bytes(device)
    if needed_bytes > free:
        raise SpecbenchError(
            f"{what} takes {needed_bytes / 1e9:.3g} GB, and {device} has {free / 1e9:.3g} GB free",
            "Take a smaller shape, or a device with more memory",
        )


@contextmanager
def seeded(device: torch.device) -> Iterator[None]:
    """Random numbers from SEED on; whoever drew before goes on as if nothing had been drawn."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(SEED)
        yield
