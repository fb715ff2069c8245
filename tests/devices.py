"""Several devices where there is only the CPU: who mixes tensors of two of them is found out.

Tensors stay on the CPU and carry a name. While the mode is on, moving and making tensors follows
the names, ``tensor.device`` tells them, and a function that gets tensors of two devices raises what
torch would.

    with Devices() as devices:
        devices.put(model.layers[1], "cuda:1")
        ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

CPU = torch.device("cpu")
_MIXED = (Tensor.__getitem__, Tensor.__setitem__)  # an index may lie on the CPU


class Devices(TorchFunctionMode):
    """A mode under which tensors are on the devices that they were moved to or made on."""

    def __init__(self) -> None:
        super().__init__()
        self._places = WeakTensorKeyDictionary()
        self.copies: list[tuple[str, str]] = []

    def put(self, module: nn.Module, device: str) -> None:
        """Say where a module's weights and buffers lie."""
        for tensor in (*module.parameters(), *module.buffers()):
            self._places[tensor] = torch.device(device)

    def of(self, tensor: Tensor) -> torch.device:
        found: torch.device = self._places.get(tensor, CPU)
        return found

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func == Tensor.device.__get__:
            return self.of(args[0])
        if func is Tensor.to:
            return self._moved(args, kwargs)
        if func is Tensor.pin_memory:
            return args[0]
        if func is Tensor.cpu:
            return self._moved((args[0], CPU), {})
        if "device" in kwargs:  # a tensor is made
            asked = kwargs.pop("device")
            made = func(*args, **kwargs)
            return self._named(made, CPU if asked is None else torch.device(asked))
        places = self._known(func, (args, kwargs))
        if len(places) > 1:
            raise RuntimeError(
                f"{func.__name__}: expected one device, found {sorted(map(str, places))}"
            )
        return self._named(func(*args, **kwargs), next(iter(places), CPU))

    def _known(self, func: Any, given: Any) -> set[torch.device]:
        """The devices of what a function gets; single numbers of the CPU go with any."""
        places = {self.of(tensor) for tensor in _tensors(given) if tensor.dim()}
        if func in _MIXED and len(places) > 1:
            places.discard(CPU)
        return places

    def _moved(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor, *rest = args
        asked = kwargs.pop("device", None)
        if rest and isinstance(rest[0], str | torch.device):
            asked = rest.pop(0)
        elif rest and isinstance(rest[0], Tensor):
            asked = self.of(rest[0])
        kwargs.pop("non_blocking", None)
        here, there = self.of(tensor), self.of(tensor) if asked is None else torch.device(asked)
        result = tensor.to(*rest, **kwargs) if rest or kwargs else tensor
        if here != there:
            self.copies.append((str(here), str(there)))
            result = result.clone() if result is tensor else result
        return self._named(result, there)

    def _named(self, result: Any, device: torch.device) -> Any:
        for tensor in _tensors(result):
            if device != CPU:
                self._places[tensor] = device
        return result


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, Iterable) and not isinstance(value, str | bytes):
        for item in value:
            yield from _tensors(item)
