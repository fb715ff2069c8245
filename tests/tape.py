"""A stand-in for CUDA graphs on the CPU: it repeats exactly the operations that it saw.

As a graph does, it keeps the memory that every operation read and wrote and the numbers that came
from Python, and repeats them: a start that was a Python number stays what it was, an input that was
not copied into its buffer is the old one. And it refuses what no graph can hold: numbers read back
to the host, and tensors made of the host's numbers.

    replay = Tape.of(function)    # runs it once
    replay()                      # the same operations on the same memory
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

HOST_READS = {
    *("item", "tolist", "cpu", "numpy", "nonzero", "masked_select", "unique", "equal", "allclose"),
    *("__bool__", "__int__", "__float__", "__index__", "__contains__"),
}
"""Functions and methods of torch that need a number on the host: on a GPU they wait for it."""

_UPLOADS = {"tensor", "as_tensor"}


class NotRepeatableError(RuntimeError):
    """What is done depends on more than the memory that it is done on."""


class NoHost(TorchFunctionMode):
    """Refuses to read numbers back to the host and to make tensors of the host's numbers."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in HOST_READS | _UPLOADS:
            raise NotRepeatableError(f"operation not permitted while capturing: {name}")
        return func(*args, **(kwargs or {}))


class Tape(TorchDispatchMode):
    """Notes every operation with the tensors that it read and wrote."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: list[tuple[Any, Any, Any, Any]] = []

    @classmethod
    def of(cls, function: Callable[[], None]) -> Callable[[], None]:
        """Run a function and return what repeats it."""
        tape = cls()
        with NoHost(), tape:
            function()
        return tape.replay

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self._entries.append((func, args, kwargs, result))
        return result

    def replay(self) -> None:
        """Do it all again; a result that is no view goes where it went before."""
        for func, args, kwargs, before in self._entries:
            again = func(*args, **kwargs)
            for old, new in zip(_tensors(before), _tensors(again), strict=True):
                if _address(old) != _address(new):
                    old.copy_(new)


class TapeCapture:
    """Captures on tape, and counts.

    Attributes:
        pools, captures: how many were asked for.
    """

    def __init__(self) -> None:
        self.pools = 0
        self.captures = 0

    def new_pool(self) -> int:
        self.pools += 1
        return self.pools

    def capture(self, function: Callable[[], None], pool: int) -> Callable[[], None]:
        self.captures += 1
        return Tape.of(function)


def _tensors(found: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(found) if isinstance(leaf, Tensor)]


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class Waits(TorchFunctionMode):
    """Counts what would make the host wait for a GPU.

    Attributes:
        reads: names of functions that read numbers back.
        uploads: tensors made of the host's numbers elsewhere than in ``measure/transfer.py``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[str] = []
        self.uploads: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in HOST_READS:
            self.reads.append(name)
        if name in _UPLOADS and not _in_transfer():
            self.uploads.append(name)
        return func(*args, **(kwargs or {}))


def _in_transfer() -> bool:
    """Whether a function of ``measure/transfer.py`` is among those that are running."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename.endswith("measure/transfer.py"):
            return True
        frame = frame.f_back
    return False
