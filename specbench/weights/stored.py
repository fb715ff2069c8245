"""What a model's weights are stored as: the plain tensors behind them, their bytes and numbers.

A quantised matrix is packed integers, scales and perhaps zero points. Libraries keep these in
different places, and what a parameter says of its size is not what it takes: torchao's tensors
claim the size of the matrix that they stand for, bitsandbytes has scales in attributes, layers of
GPTQ and AWQ have buffers in place of parameters. Here all of them are followed down to plain
tensors, each counted once by where it lies.

>>> layer = nn.Linear(64, 32)
>>> num_bytes(stored_tensors(layer)), count_weights(layer)      # 64 x 32 and 32 in float32
(8320, 2080)
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

_PLAIN_BYTES = 2  # of a number in the smallest dtype that is no quantised one


def stored_tensors(*modules: nn.Module, working: bool = False) -> dict[int, Tensor]:
    """The plain tensors that hold modules' weights, by where they lie; shared ones once.

    Args:
        working: buffers that a checkpoint does not hold (tables of positions) too.
    """
    found = (
        plain for root in modules for module in root.modules() for plain in _of(module, working)
    )
    return {plain.data_ptr(): plain for plain in found if plain.numel()}


def num_bytes(tensors: Mapping[int, Tensor], without: Container[int] = ()) -> int:
    """Bytes of plain tensors, those at some places left out."""
    counted = (tensor for place, tensor in tensors.items() if place not in without)
    return sum(tensor.numel() * tensor.element_size() for tensor in counted)


def count_weights(model: nn.Module) -> int:
    """Numbers that a model has, shared ones once; of a packed matrix those that it stands for."""
    counted: dict[int, int] = {}
    for module in model.modules():
        if is_packed(module):
            bias = getattr(module, "bias", None)
            size = module.in_features * module.out_features
            counted[id(module)] = size + (0 if bias is None else bias.numel())
        else:
            own = module.parameters(recurse=False)
            counted |= {id(weight): weight.numel() for weight in own if is_plain(weight)}
    return sum(counted.values())


def is_plain(weight: Any) -> bool:
    """Whether a matrix or vector is stored as ordinary floating-point numbers, and nothing else."""
    return isinstance(weight, Tensor) and all(
        part.is_floating_point() and part.element_size() >= _PLAIN_BYTES for part in _plain(weight)
    )


def is_packed(module: nn.Module) -> bool:
    """Whether this layer multiplies by a quantised matrix."""
    has_sizes = hasattr(module, "in_features") and hasattr(module, "out_features")
    return has_sizes and not is_plain(getattr(module, "weight", None))


def packed_layers(model: nn.Module) -> dict[str, nn.Module]:
    """The layers that multiply by quantised matrices, by their path in the model."""
    return {path: module for path, module in model.named_modules() if is_packed(module)}


def quantised_part(model: nn.Module) -> dict[str, Any]:
    """How many layers are quantised, and their share of the numbers that the model has."""
    layers = packed_layers(model)
    inside = sum(layer.in_features * layer.out_features for layer in layers.values())
    return {"layers": len(layers), "share_of_weights": inside / count_weights(model)}


def _of(module: nn.Module, working: bool) -> Iterator[Tensor]:
    """What a module itself stores, without its children."""
    for parameter in module.parameters(recurse=False):
        yield from _plain(parameter)
    for name, buffer in module.named_buffers(recurse=False):
        if working or name not in module._non_persistent_buffers_set:
            yield from _plain(buffer)
    if is_packed(module):
        yield from _attributes(getattr(module, "state", None))  # of bitsandbytes, 8 bits


def _plain(tensor: Tensor) -> Iterator[Tensor]:
    """The tensor, or what it is made of; then what lies beside it."""
    if hasattr(tensor, "__tensor_flatten__"):  # a tensor of tensors: torchao
        for name in tensor.__tensor_flatten__()[0]:
            yield from _plain(getattr(tensor, name))
        return
    yield tensor
    yield from _attributes(getattr(tensor, "quant_state", None))  # of bitsandbytes, 4 bits
    for name in ("CB", "SCB"):  # of bitsandbytes, 8 bits, before the first forward
        if isinstance(beside := getattr(tensor, name, None), Tensor):
            yield beside


def _attributes(holder: Any) -> Iterator[Tensor]:
    """The tensors among an object's attributes, and in its ``state2``: scales of scales."""
    if holder is None:
        return
    for value in vars(holder).values():
        if isinstance(value, Tensor):
            yield value
    yield from _attributes(getattr(holder, "state2", None))
