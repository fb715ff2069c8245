"""Whether a SPEC names weights that can be had: some, those that come with specbench, or a shape.

A head named ``shape`` has random weights.
"""

from __future__ import annotations

from specbench.drafters.spec import SHAPE, DrafterSpec
from specbench.errors import SpecbenchError
from specbench.weights.shipped import shipped


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
