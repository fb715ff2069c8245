"""Where a model comes from: one record that the run's manifest keeps.

``resolve`` (in ``finding``) makes a :class:`ModelSource`; nothing here imports torch.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from specbench.weights.progress import SILENT, Progress

DEFAULT_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"

Kind = Literal["folder", "hub", "gguf", "embedded", "shape"]

WEIGHT_PATTERNS = (
    "model.safetensors",
    "model-*.safetensors",
    "*.safetensors",
    "pytorch_model*.bin",
)
"""The first that matches holds a model's weights; the same ones may lie beside it in other forms,
as in Mistral's ``consolidated.safetensors``."""

_INDEXES = {".safetensors": "model.safetensors.index.json", ".bin": "pytorch_model.bin.index.json"}


@dataclass(frozen=True)
class ModelSource:
    """A model that was found, not yet loaded.

    Attributes:
        name: what the user calls it (a hub name, or the path as given).
        path: the folder, the GGUF file or the shape's file on this machine.
        kind: how it is read; ``embedded`` is a folder in specbench's own cache, ``shape`` a
            configuration alone, whose weights are random.
        provenance: ``name``; ``served_from``, for example ``hub:ORG/NAME@COMMIT``; ``sha256`` of
            the weights as served (of the GGUF file for the embedded model and GGUF targets, else
            :func:`weights_sha256`); ``files``, the hash per weight file on disk; ``revision``.
    """

    name: str
    path: Path
    kind: Kind
    provenance: Mapping[str, Any] = field(default_factory=dict)


def weight_files(folder: Path, patterns: Iterable[str] = WEIGHT_PATTERNS) -> list[Path]:
    """The files of a model folder that hold weights: safetensors, else torch's pickles."""
    for pattern in patterns:
        files = sorted(folder.glob(pattern))
        if files:
            return files
    return []


def weight_bytes(folder: Path) -> int:
    """Bytes of a folder's weight files."""
    return sum(file.stat().st_size for file in weight_files(folder))


def missing_shards(folder: Path) -> list[str]:
    """Files that a folder's weight index names and that are not there."""
    files = weight_files(folder)
    if not files:
        return []
    try:
        index = (folder / _INDEXES[files[0].suffix]).read_text(encoding="utf-8")
        named = json.loads(index)["weight_map"].values()
    except (OSError, ValueError, KeyError, AttributeError):
        return []
    return sorted(name for name in set(named) if not (folder / name).is_file())


def weights_sha256(hashes: Mapping[str, str]) -> str:
    """One hash for a set of weight files.

    Of a single file it is that file's own sha256; of several the sha256 of the lines
    ``HASH  NAME\\n`` sorted by name, which is ``sha256sum *.safetensors | sha256sum``.
    """
    if len(hashes) == 1:
        return next(iter(hashes.values()))
    lines = "".join(f"{hashes[name]}  {name}\n" for name in sorted(hashes))
    return hashlib.sha256(lines.encode()).hexdigest()


def file_sha256(path: Path, progress: Progress = SILENT, label: str = "") -> str:
    """The sha256 of one file, in hex."""
    digest = hashlib.sha256()
    buffer = memoryview(bytearray(1 << 22))
    done_bytes = 0
    with (
        progress.stage(label or f"hashing {path.name}", path.stat().st_size) as update,
        path.open("rb", buffering=0) as stream,
    ):
        while count := stream.readinto(buffer):
            digest.update(buffer[:count])
            done_bytes += count
            update(done_bytes)
    return digest.hexdigest()


class HashBook:
    """Hashes of files that were already read, so that a 100 GB model is hashed once.

    An entry counts while the file's resolved path, size and modification time are unchanged. A book
    that can't be read or written is no error: it only costs time.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    def sha256(self, path: Path, progress: Progress = SILENT) -> str:
        """The file's sha256, from the book if it is unchanged since it was entered."""
        status = path.stat()
        key = f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}"
        entries = self._read()
        if key not in entries:
            entries = self._read() | {key: file_sha256(path, progress)}
            self._write(entries)
        return entries[key]

    def _read(self) -> dict[str, str]:
        try:
            entries = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return entries if isinstance(entries, dict) else {}

    def _write(self, entries: dict[str, str]) -> None:
        temporary = self.file.with_name(f"{self.file.name}.{os.getpid()}")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(entries, indent=0), encoding="utf-8")
            temporary.replace(self.file)
        except OSError:
            temporary.unlink(missing_ok=True)
