"""The drafters that come with specbench, for its embedded default target.

They lie inside the package, one folder per kind; a SPEC without an argument means the one of its
kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from specbench.errors import SpecbenchError
from specbench.records.spec_text import Spec
from specbench.weights.source import DEFAULT_NAME

SHIPPED = Path(__file__).parents[1] / "_drafters" / "smollm2-135m-instruct"


class Named(Protocol):
    """A target, loaded or not."""

    @property
    def name(self) -> str:
        """What messages call it."""


def shipped(kind: str) -> Path:
    """Where the shipped drafter of a kind lies, if there is one."""
    return SHIPPED / kind


def drafter_name(spec: Spec, target: Named) -> str:
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


def weights_of(spec: Spec, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says about a SPEC's weights: shipped ones by name, wherever they lie."""
    if spec.argument is not None:
        return dict(provenance)
    served_from = f"specbench: {SHIPPED.name}/{spec.kind}"
    return {**provenance, "name": spec.kind, "served_from": served_from}
