"""Which drafter a SPEC means: the one that it names, or the one that comes with specbench.

Trained drafters for the embedded default target lie inside the package, one folder per kind; a SPEC
without an argument means the one of its kind. A head named ``shape`` has random weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from specbench.drafters.spec import SHAPE, DrafterSpec
from specbench.errors import SpecbenchError
from specbench.weights.source import DEFAULT_NAME

SHIPPED = Path(__file__).parents[1] / "_drafters" / "smollm2-135m-instruct"


class Named(Protocol):
    """A target, loaded or not."""

    @property
    def name(self) -> str:
        """What messages call it."""


def check_shipped(spec: DrafterSpec, what: str = "PATH") -> None:
    """Refuse a SPEC that names no drafter and whose kind has none that is shipped.

    Args:
        spec: the SPEC.
        what: how help calls the argument.

    Raises:
        SpecbenchError: naming the kind.
    """
    if spec.argument is None and not shipped(spec.kind).is_dir():
        raise SpecbenchError(
            f"no {spec.kind} drafter comes with this version of specbench",
            f"Write {spec.kind}:{what} with a folder or a hub name",
        )
    if spec.argument is not None:
        spec.need_argument(what)
    if spec.has_random_weights and spec.kind != "model" and spec.argument != SHAPE:
        raise SpecbenchError(
            f"drafter {spec.text!r}: a head has the dimensions of its target",
            f"Write {spec.kind}:{SHAPE}",
        )


def drafter_name(spec: DrafterSpec, target: Named) -> str:
    """The folder or hub name of a SPEC's drafter.

    Raises:
        SpecbenchError: the shipped one is meant and the target is another.
    """
    if spec.argument is not None:
        return spec.argument
    if target.name != DEFAULT_NAME:
        raise SpecbenchError(
            f"the {spec.kind} drafter that comes with specbench was made for {DEFAULT_NAME}, not"
            f" for target {target.name}",
            f"Write {spec.kind}:PATH with one for that target",
        )
    return str(shipped(spec.kind))


def weights_of(spec: DrafterSpec, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says about a SPEC's weights: shipped ones by name, wherever they lie."""
    if spec.argument is not None:
        return dict(provenance)
    served_from = f"specbench: {SHIPPED.name}/{spec.kind}"
    return {**provenance, "name": spec.kind, "served_from": served_from}


def shipped(kind: str) -> Path:
    """Where the shipped drafter of a kind lies, if there is one."""
    return SHIPPED / kind
