"""Finds the files behind what the user typed after ``--target``, without loading them.

A name is, in this order: nothing or the default's name (the embedded model), ``shape:`` and an
architecture, a GGUF file, a folder in Hugging Face format, a name on the model hub.

>>> resolve("models/my-llama")                     # doctest: +SKIP
ModelSource(name='models/my-llama', path=..., kind='folder', provenance={...})
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specbench import registry
from specbench.errors import SpecbenchError
from specbench.weights import embedded, hub
from specbench.weights.borrowed import BORROWED, TOKENIZER_FILES
from specbench.weights.gguf_header import read_header
from specbench.weights.hub import Look
from specbench.weights.progress import SILENT, Progress
from specbench.weights.shapes import PREFIX, find_shape, is_shape, shape_folder
from specbench.weights.source import (
    DEFAULT_NAME,
    HashBook,
    ModelSource,
    missing_shards,
    weight_bytes,
    weight_files,
    weights_sha256,
)

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def resolve(name: str | None, progress: Progress = SILENT, look: Look | None = None) -> ModelSource:
    """Find a model's files without loading them; downloads what has to be downloaded.

    Args:
        look: refuses a folder's or the hub's model by its config, before its weights are fetched or
            hashed.

    Raises:
        SpecbenchError: nothing there, or not what it has to be; names the value and the way out.
    """
    if name is None or name == DEFAULT_NAME:
        return embedded.obtain(progress)
    if is_shape(name):
        return _shape(name)
    path = Path(name).expanduser()
    if path.suffix == ".gguf" or (path.is_file() and path.suffix != ".json"):
        return _gguf_file(name, path, progress)
    if path.is_dir():
        return _folder(name, path, progress, look)
    if looks_like_path(name):
        raise SpecbenchError(
            f"no such model: {name!r} is neither a folder nor a file",
            "Pass a folder with config.json and weights, a .gguf file, or a hub name like"
            f" {DEFAULT_NAME}",
        )
    return _hub(name, progress, look)


def looks_like_path(name: str) -> bool:
    """Whether a name can only be meant as a path (a hub name has at most one slash)."""
    return name.startswith((".", "/", "~")) or not _HUB_NAME.fullmatch(name)


def _shape(name: str) -> ModelSource:
    """A published configuration, or that of a folder."""
    folder = shape_folder(name)
    if folder is not None:
        path, of = folder, f"config.json of {folder.resolve()}"
    else:
        shape = find_shape(name.removeprefix(PREFIX))
        path, of = registry.path("shapes", shape.name), shape.source
    own_tokenizer = any((path / file).is_file() for file in TOKENIZER_FILES)
    provenance: dict[str, Any] = {
        "name": name,
        "served_from": f"random weights; {of}",
        "sha256": None,
        "files": {},
        "revision": None,
        "tokenizer": "its own" if own_tokenizer else BORROWED,
    }
    return ModelSource(name, path, "shape", provenance)


def _gguf_file(name: str, path: Path, progress: Progress) -> ModelSource:
    if not path.is_file():
        raise SpecbenchError(f"no such GGUF file: {name!r}", "Check the path after --target")
    read_header(path)
    digest = HashBook(embedded.cache_dir() / "hashes.json").sha256(path, progress)
    provenance = {
        "name": name,
        "served_from": f"file:{path.resolve()}",
        "sha256": digest,
        "files": {path.name: digest},
        "revision": None,
    }
    return ModelSource(name, path, "gguf", provenance)


def _folder(name: str, folder: Path, progress: Progress, look: Look | None) -> ModelSource:
    if not (folder / "config.json").is_file():
        hint = "A model folder holds config.json, weights and a tokenizer"
        ggufs = sorted(folder.glob("*.gguf"))
        if ggufs:
            hint = f"It holds a GGUF file: pass --target {ggufs[0]}"
        raise SpecbenchError(f"the folder {name!r} has no config.json", hint)
    if look is not None:
        look(folder, weight_bytes(folder))
    hashes = _hashes(name, folder, progress)
    provenance = {
        "name": name,
        "served_from": f"folder:{folder.resolve()}",
        "sha256": weights_sha256(hashes),
        "files": hashes,
        "revision": None,
    }
    return ModelSource(name, folder, "folder", provenance)


def _hub(name: str, progress: Progress, look: Look | None) -> ModelSource:
    found = hub.snapshot(name, progress, look=look)
    hashes = _hashes(name, found.folder, progress)
    provenance = {
        "name": name,
        "served_from": f"hub:{name}@{found.revision}",
        "sha256": weights_sha256(hashes),
        "files": hashes,
        "revision": found.revision,
    }
    return ModelSource(name, found.folder, "hub", provenance)


def _hashes(name: str, folder: Path, progress: Progress) -> Mapping[str, str]:
    """The sha256 of each weight file; refuses a folder without complete weights."""
    files = weight_files(folder)
    if not files:
        raise SpecbenchError(
            f"{name!r} has no weights (*.safetensors or pytorch_model*.bin) in {folder}",
            "Is its download complete? A GGUF file is passed by its own path",
        )
    if missing := missing_shards(folder):
        raise SpecbenchError(
            f"the weights of {name!r} are incomplete: {missing[0]} is missing from {folder}",
            "Is its download complete?",
        )
    return hashes_of(files, progress)


def hashes_of(files: Sequence[Path], progress: Progress = SILENT) -> dict[str, str]:
    """The sha256 of each file, by its name; a file that was hashed before is not read again."""
    book = HashBook(embedded.cache_dir() / "hashes.json")
    return {file.name: hub.blob_sha256(file) or book.sha256(file, progress) for file in files}
