"""``torch.compile`` for captured steps: fewer, larger kernels between the launches that remain.

Compiled is what the transformers model does in a step, for each number of rows and tokens; the
slots that attention covers are left open from the second size on, so that a longer text compiles
nothing new. Graphs are captured around it, over memory that the compiler does not manage, hence the
mode without graphs of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from specbench.errors import SpecbenchError, first_line

_MOST_SHAPES = 256
"""Shapes that one model may be compiled for; beyond, torch would silently run it as it is."""


def compiled(model: nn.Module, device: torch.device) -> Callable[..., Any]:
    """The model as it is called in captured steps; compiles at the first call of each shape."""
    torch._dynamo.config.recompile_limit = _MOST_SHAPES
    torch._dynamo.config.accumulated_recompile_limit = _MOST_SHAPES
    mode = "max-autotune-no-cudagraphs" if device.type == "cuda" else "default"
    return torch.compile(model, mode=mode)


def require_compiler(device: torch.device) -> None:
    """Find out with a sum of two numbers whether anything can be compiled here.

    Raises:
        SpecbenchError: it can't, with the compiler's reason.
    """
    try:
        torch.compile(torch.add)(torch.ones(2, device=device), 1)
    except Exception as error:
        reason = first_line(error)
        raise SpecbenchError(
            f"--compile does not work on {device}: {reason}",
            "Leave out --compile; it needs a C++ compiler, on a GPU also triton",
        ) from error
