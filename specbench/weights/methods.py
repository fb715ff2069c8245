"""The methods that quantise weights, by name: what the command line knows of them, without torch.

int8      torchao, a scale for each row of a matrix
int4      torchao, a scale and a zero point for each 128, 64 or 32 weights of a row: the most that
          divide all rows of the model
bnb-8bit  bitsandbytes, LLM.int8: activations are rounded too, outliers among them excepted
bnb-4bit  bitsandbytes, NF4, a scale for each 64 weights

>>> METHODS["int4"].bits
4
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from specbench.errors import SpecbenchError

INSTALL = "pip install 'specbench[quantization]'"


@dataclass(frozen=True)
class Method:
    """A way to quantise: the package that does it, and bits of a weight without its scales."""

    package: str
    bits: int


METHODS = {
    "int8": Method("torchao", 8),
    "int4": Method("torchao", 4),
    "bnb-8bit": Method("bitsandbytes", 8),
    "bnb-4bit": Method("bitsandbytes", 4),
}


def check_method(name: str, where: str) -> str:
    """The name of a method.

    Args:
        where: what it was given with, for the message.

    Raises:
        SpecbenchError: there is none of that name.
    """
    if name not in METHODS:
        raise SpecbenchError(f"{where} {name!r} is unknown", f"Known: {', '.join(METHODS)}")
    return name


def require_package(name: str) -> None:
    """Ask for a method's package before anything is loaded; it is not imported.

    Raises:
        SpecbenchError: it is not installed.
    """
    package = METHODS[name].package
    if importlib.util.find_spec(package) is None:
        raise SpecbenchError(
            f"quantization {name!r} needs the package {package}, which is not installed", INSTALL
        )
