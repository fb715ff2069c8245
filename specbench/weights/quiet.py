"""Keeps transformers' bars, advice and repeated reading out of the way while a model is loaded."""

from __future__ import annotations

import contextlib
import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """No bars, log lines or warnings on the terminal; errors still arrive as exceptions."""
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.CRITICAL)
    transformers_logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


@contextlib.contextmanager
def quick_gguf(update: Callable[[int], None]) -> Iterator[None]:
    """Read a GGUF file once instead of once per question, and its tensors without tqdm's bar.

    transformers opens the file anew for the config, the tokenizer and the weights, and builds the
    same table of tensor names for every submodule: three quarters of the time of loading a small
    model. Both are pure functions of their arguments, so their results are kept for this block.

    Args:
        update: called with the bytes of the tensors converted so far.
    """
    import gguf
    from transformers import modeling_gguf_pytorch_utils as reading

    def counted(tensors: Any, **_bar: Any) -> Iterator[Any]:
        done_bytes = 0
        for tensor in tensors:
            yield tensor
            done_bytes += int(tensor.n_bytes)
            update(done_bytes)

    kept = functools.lru_cache(maxsize=None)
    with (
        _replaced(gguf, "GGUFReader", kept(gguf.GGUFReader)),
        _replaced(gguf, "get_tensor_name_map", kept(gguf.get_tensor_name_map)),
        _replaced(reading, "tqdm", counted),
    ):
        yield


@contextlib.contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, original)
