"""Which models are already on this machine, found without loading or hashing anything.

Two places: specbench's own cache (the embedded default) and the model hub's cache (causal language
models only). Neither torch nor transformers is imported, so listing is quick.

>>> [model.name for model in cached_models()]                # doctest: +SKIP
['HuggingFaceTB/SmolLM2-135M-Instruct']
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from specbench.weights import embedded, hub
from specbench.weights.progress import tree_size
from specbench.weights.source import DEFAULT_NAME, missing_shards, weight_files, weights_sha256

_CAUSAL_ENDINGS = ("ForCausalLM", "LMHeadModel")


@dataclass(frozen=True)
class CachedModel:
    """One model on this machine.

    Attributes:
        name: what to pass to ``--target``; the embedded default needs no option.
        kind: which cache holds it.
        folder: where.
        size_bytes: of all its files.
        sha256: of the weights as they were served, None where only hashing them would tell.
        served_from: where they came from.
        problem: why it can't be used as it is, None where nothing is known against it.
    """

    name: str
    kind: Literal["embedded", "hub"]
    folder: Path
    size_bytes: int
    sha256: str | None
    served_from: str
    problem: str | None


def cached_models() -> list[CachedModel]:
    """The embedded default if it is there, then the hub cache's models by name."""
    return [*_embedded(), *_hub_models()]


def _embedded() -> Iterable[CachedModel]:
    found = embedded.inspect(check_hashes=False)
    if found is None:
        return
    yield CachedModel(
        name=DEFAULT_NAME,
        kind="embedded",
        folder=found.folder,
        size_bytes=tree_size(found.folder),
        sha256=found.manifest.get("sha256"),
        served_from=found.manifest.get("served_from", "unknown"),
        problem=found.damage,
    )


def _hub_models() -> list[CachedModel]:
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repositories = scan_cache_dir().repos
    except CacheNotFound:
        return []
    models: list[CachedModel] = []
    for repository in repositories:
        if repository.repo_type == "model" and repository.revisions:
            newest = max(repository.revisions, key=_main_then_newest)
            models += _hub_model(repository.repo_id, newest)
    return sorted(models, key=lambda model: model.name.lower())


def _main_then_newest(revision: Any) -> tuple[bool, float]:
    return "main" in revision.refs, revision.last_modified


def _hub_model(name: str, revision: Any) -> Iterable[CachedModel]:
    folder = Path(revision.snapshot_path)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        architectures = [str(entry) for entry in config.get("architectures") or []]
    except (OSError, ValueError, AttributeError, TypeError):
        return
    if not any(entry.endswith(_CAUSAL_ENDINGS) for entry in architectures):
        return
    files = weight_files(folder)
    hashes = {file.name: hub.blob_sha256(file) for file in files}
    known = {file: digest for file, digest in hashes.items() if digest is not None}
    missing = missing_shards(folder)
    yield CachedModel(
        name=name,
        kind="hub",
        folder=folder,
        size_bytes=revision.size_on_disk,
        sha256=weights_sha256(known) if known and len(known) == len(files) else None,
        served_from=f"hub:{name}@{revision.commit_hash[:12]}",
        problem="no weights" if not files else f"{missing[0]} is missing" if missing else None,
    )
