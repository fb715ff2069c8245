"""Random weights in a given shape, made where they are used: nothing is read or copied.

They are drawn as the architecture starts its own training, so states and logits stay finite at any
depth and in any dtype; the same configuration, dtype and kind of device give the same weights.
Whether they fit is asked before any is made.

>>> config = find_shape("llama-3.2-1b").transformers_config()                   # doctest: +SKIP
>>> random_model(config, torch.bfloat16, device, "sdpa", "llama-3.2-1b")        # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from specbench.errors import SpecbenchError
from specbench.weights.kinds import auto_class
from specbench.weights.room import count_parameters, require_room

SEED = 0


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


@contextmanager
def seeded(device: torch.device) -> Iterator[None]:
    """Random numbers from SEED on; whoever drew before goes on as if nothing had been drawn."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(SEED)
        yield
