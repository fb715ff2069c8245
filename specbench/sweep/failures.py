"""What becomes of a cell that raised: its status, and one line that says why."""

from __future__ import annotations

from typing import Literal

import torch

from specbench.errors import SpecbenchError

_WORDS_OF_NO_MEMORY = ("out of memory", "can't allocate memory")


def status_of(error: BaseException) -> Literal["failed", "out_of_memory"]:
    """``out_of_memory`` for every way in which Python and torch say so, else ``failed``."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return "out_of_memory"
    text = str(error).lower()
    if isinstance(error, RuntimeError) and any(words in text for words in _WORDS_OF_NO_MEMORY):
        return "out_of_memory"
    return "failed"


def in_one_line(error: BaseException) -> str:
    """``TypeName: message``, at most 500 characters; a foreseen error speaks for itself."""
    if isinstance(error, SpecbenchError):
        return str(error)[:500]
    return f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")[:500]
