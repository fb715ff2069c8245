"""A head's checkpoint as files: a folder or a hub name to a config and tensors on the CPU.

Safetensors are read where there are any. ``.pt`` and ``.bin`` files are pickles, which can hold
code: they are read with ``weights_only=True``, which refuses everything but tensors.
"""

from __future__ import annotations

import json
import pickle
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from specbench.errors import SpecbenchError, short_reason
from specbench.weights import hub
from specbench.weights.finding import hashes_of, looks_like_path
from specbench.weights.source import weights_sha256

RANKING = "token_ranking.safetensors"
"""Holds ``ranking``: token ids, the most frequent first."""

HEAD_PATTERNS = (
    "model*.safetensors",
    "medusa_lm_head.safetensors",
    "medusa_lm_head.pt",
    "pytorch_model*.bin",
)
"""The first that matches is read."""


@dataclass(frozen=True)
class Checkpoint:
    """What was read.

    Attributes:
        name: as the user wrote it.
        folder: where the files lie on this machine.
        config: of ``config.json``.
        tensors: by the names that they have in the files.
        files: the sha256 of each file that was read for them.
        revision: the hub's commit, or None.
    """

    name: str
    folder: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    files: Mapping[str, str]
    revision: str | None

    @property
    def provenance(self) -> dict[str, Any]:
        """What the manifest says about these weights; as that of a target."""
        folder = f"folder:{self.folder.resolve()}"
        return {
            "name": self.name,
            "served_from": f"hub:{self.name}@{self.revision}" if self.revision else folder,
            "sha256": weights_sha256(self.files),
            "files": dict(self.files),
            "revision": self.revision,
        }

    def integer(self, key: str) -> int | None:
        """A whole number of the config, 0 or more, or None where the key is missing.

        Raises:
            SpecbenchError: it is something else.
        """
        value = self.config.get(key)
        if value is not None and (type(value) is not int or value < 0):
            raise SpecbenchError(f"the config.json of {self.name!r} says {key} is {value!r}")
        return value

    def ranking(self) -> Tensor | None:
        """Token ids, the most frequent first, or None where there is no such file."""
        file = self.folder / RANKING
        if not file.is_file():
            return None
        tensors = _load(file, self.name)
        if "ranking" not in tensors:
            raise SpecbenchError(f"{RANKING} of {self.name!r} has no tensor 'ranking'")
        return tensors["ranking"]


def open_checkpoint(name: str) -> Checkpoint:
    """Read a head's files.

    Args:
        name: a folder, or ``ORG/NAME`` on the model hub.

    Raises:
        SpecbenchError: nothing there, files missing, or not what they have to be.
    """
    folder, revision = _find(name)
    config = _config(folder, name)
    tensors: dict[str, Tensor] = {}
    files = _weight_files(folder, name)
    for file in files:
        tensors |= _load(file, name)
    return Checkpoint(name, folder, config, tensors, hashes_of(files), revision)


def tensor_names(name: str) -> list[str] | None:
    """The names of a local checkpoint's tensors, hardly reading any; None if it is not here yet."""
    folder = Path(name).expanduser()
    if not folder.is_dir():
        return None
    names: list[str] = []
    for file in _weight_files(folder, name):
        if file.suffix == ".safetensors":
            with _reading(file, name), safe_open(file, framework="pt") as stored:
                names += stored.keys()
        else:
            names += _load(file, name)
    return names


def _find(name: str) -> tuple[Path, str | None]:
    """The folder, and the commit where it is the hub's."""
    path = Path(name).expanduser()
    if path.is_dir():
        return path, None
    if path.is_file() or looks_like_path(name):
        wrong = "is a file" if path.is_file() else "is no folder"
        raise SpecbenchError(
            f"no such head: {name!r} {wrong}",
            "Pass a folder with config.json and weights, or a hub name like ORG/NAME",
        )
    found = hub.snapshot(name, weights=HEAD_PATTERNS, sides=("*.json", RANKING))
    return found.folder, found.revision


def _config(folder: Path, name: str) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SpecbenchError(f"{name!r} has no config.json", f"Looked in {folder}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise SpecbenchError(f"the config.json of {name!r} can't be read: {error}") from error
    if not isinstance(config, dict):
        raise SpecbenchError(f"the config.json of {name!r} is no JSON object")
    return config


def _weight_files(folder: Path, name: str) -> list[Path]:
    """The files that hold the tensors: all shards of the first format that is there."""
    for pattern in HEAD_PATTERNS:
        files = {file.name for file in folder.glob(pattern)}
        index = folder / f"{pattern.replace('*', '')}.index.json"
        if index.is_file():
            try:
                named = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
                files = {Path(file).name for file in named}
            except (
                OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError
            ) as error:  # fmt: skip
                raise SpecbenchError(f"{index.name} of {name!r} can't be read: {error}") from error
        for file in sorted(files):
            if not (folder / file).is_file():
                raise SpecbenchError(
                    f"the weights of {name!r} are incomplete: {file} is missing from {folder}",
                    "Is its download complete?",
                )
        if files:
            return [folder / file for file in sorted(files)]
    raise SpecbenchError(
        f"{name!r} has no weights of a head in {folder}", f"Looked for {', '.join(HEAD_PATTERNS)}"
    )


def _load(file: Path, name: str) -> dict[str, Tensor]:
    """All tensors of one file, on the CPU."""
    with _reading(file, name), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about old kinds of pickles
        if file.suffix == ".safetensors":
            return load_file(file)
        mapped = zipfile.is_zipfile(file)
        tensors = torch.load(file, map_location="cpu", weights_only=True, mmap=mapped)
    if not isinstance(tensors, dict) or not all(
        isinstance(key, str) and torch.is_tensor(value) for key, value in tensors.items()
    ):
        raise SpecbenchError(f"{file.name} of {name!r} is no table of tensors")
    return tensors


@contextmanager
def _reading(file: Path, name: str) -> Iterator[None]:
    """Turns what reading a broken or unsafe file raises into one line."""
    try:
        yield
    except pickle.UnpicklingError as error:
        raise SpecbenchError(
            f"{file.name} of {name!r} holds more than tensors, or is broken",
            "Code in a pickle is never run: convert the file to safetensors",
        ) from error
    except Exception as error:  # unpickling a damaged file raises anything
        raise SpecbenchError(
            f"{file.name} of {name!r} can't be read: {short_reason(error)}",
            "Is its download complete?",
        ) from error
