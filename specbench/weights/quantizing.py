"""Quantises a model's weights while it is loaded, by one of the methods in ``methods``.

transformers does so layer by layer while it reads a folder; weights that are there already (random
ones, those of a GGUF file) are replaced afterwards. Embedding and output layer stay as they are.

    made = prepared("int4", outline_of(config), torch.float32, torch.device("cpu"))
    AutoModelForCausalLM.from_pretrained(folder, quantization_config=made.settings)
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from specbench.errors import SpecbenchError
from specbench.weights.methods import INSTALL, METHODS, require_package
from specbench.weights.stored import quantised_part

GROUPS = (128, 64, 32)
"""Weights that may share a scale in int4."""

_CPU_ROWS = 16  # torch's int4 product on a CPU takes matrices of so many rows at a time


@dataclass(frozen=True)
class Quantization:
    """A method made ready for one model.

    Attributes:
        name: of the method.
        group: weights that share a scale; None: those of a row.
        settings: as transformers takes them while it loads.
    """

    name: str
    group: int | None
    settings: Any

    def facts(self, model: Any, name: str) -> dict[str, Any]:
        """What the record says of a model that was loaded so.

        Raises:
            SpecbenchError: none of its layers is of a kind that the method knows.
        """
        method, part = METHODS[self.name], quantised_part(model)
        if not part["layers"]:
            raise SpecbenchError(
                f"quantization {self.name!r} finds no layer to quantise in {name}",
                f"{method.package} does not know the kind of its layers",
            )
        return {
            "method": self.name,
            "bits": method.bits,
            "group": self.group,
            "source": "made while loading",
            "package": f"{method.package} {version(method.package)}",
            **part,
        }


def prepared(name: str, model: Any, dtype: Any, device: Any) -> Quantization:
    """A method made ready.

    Args:
        name: of the method.
        model: with all layers of the one to be quantised; its weights are not looked at.
        dtype: torch dtype of the model.
        device: torch device of the model.

    Raises:
        SpecbenchError: the package is missing or another than expected, or the layers' sizes, the
            dtype or the device are none that the method has.
    """
    require_package(name)
    if METHODS[name].package == "bitsandbytes":
        return _of_bitsandbytes(name, dtype)
    group = _group(model, device) if name == "int4" else None
    return Quantization(name, group, _torchao_settings(group, dtype, device))


def quantize(model: Any, made: Quantization) -> None:
    """Quantise a model that is loaded already: random weights, or what a GGUF file held.

    Raises:
        SpecbenchError: the method works only while weights are read from a folder.
    """
    if METHODS[made.name].package != "torchao":
        raise SpecbenchError(
            f"quantization {made.name!r} is made while a folder's weights are read, and there is"
            " none",
            "Use int8 or int4",
        )
    from torchao.quantization import quantize_

    layers = {id(layer) for layer in _layers(model)}
    quantize_(model, made.settings.quant_type, filter_fn=lambda module, _: id(module) in layers)


def _of_bitsandbytes(name: str, dtype: Any) -> Quantization:
    from transformers import BitsAndBytesConfig

    if name == "bnb-8bit":
        return Quantization(name, None, BitsAndBytesConfig(load_in_8bit=True))
    settings = BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
    )
    return Quantization(name, 64, settings)


def _torchao_settings(group: int | None, dtype: Any, device: Any) -> Any:
    """int8 where there are no groups, else int4; a device has an int4 product of its own."""
    import torch
    from transformers import TorchAoConfig

    try:
        if group is None:
            api = importlib.import_module("torchao.quantization")
            return TorchAoConfig(api.Int8WeightOnlyConfig(set_inductor_config=False))
        if device.type == "cpu":
            api = importlib.import_module("torchao.prototype.quantization.int4")
            kind = api.PrototypeInt4WeightOnlyConfig
            return TorchAoConfig(kind(group_size=group, set_inductor_config=False))
        if dtype != torch.bfloat16:
            raise SpecbenchError(
                "quantization 'int4' multiplies in bfloat16 on a GPU", "Add --dtype bfloat16"
            )
        api = importlib.import_module("torchao.quantization")
        packing = {"int4_packing_format": "tile_packed_to_4d", "set_inductor_config": False}
        return TorchAoConfig(api.Int4WeightOnlyConfig(group_size=group, **packing))
    except (ImportError, AttributeError, TypeError) as error:
        raise SpecbenchError(
            f"torchao {version('torchao')} is not the one that this specbench knows: {error}",
            INSTALL,
        ) from error


def _layers(model: Any) -> list[Any]:
    """The layers that are quantised: all linear ones but the output layer."""
    from torch import nn

    head = model.get_output_embeddings()
    return [
        module for module in model.modules() if type(module) is nn.Linear and module is not head
    ]


def _group(model: Any, device: Any) -> int:
    """The most weights of :data:`GROUPS` that divide the rows of every layer.

    Raises:
        SpecbenchError: naming the size that none divides.
    """
    layers = _layers(model)
    _require_multiples((layer.in_features for layer in layers), GROUPS[-1], "columns")
    if device.type == "cpu":
        _require_multiples((layer.out_features for layer in layers), _CPU_ROWS, "rows on a CPU")
    return next(g for g in GROUPS if all(layer.in_features % g == 0 for layer in layers))


def _require_multiples(sizes: Iterable[int], of: int, what: str) -> None:
    for size in sizes:
        if size % of:
            raise SpecbenchError(
                f"quantization 'int4' takes matrices of a multiple of {of} {what}, and a layer has"
                f" {size}",
                "Use int8",
            )
