"""Folders that are written anew for vLLM, in specbench's cache.

Promises: a folder is complete or absent, for it is built aside and renamed; one process builds
while others wait for it; what a killed one left behind is removed by the next.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import filelock

from specbench.records.files import disk_errors, sync_folder
from specbench.weights.embedded import cache_dir

_UNFINISHED = ".making-"


def made_in_cache(
    sha256: str, form: str, config: Mapping[str, Any], write: Callable[[Path], None]
) -> Path:
    """The folder of a drafter in the form that vLLM takes, written if it is not there.

    Args:
        sha256: of the weights that it is made of.
        form: what is made of them, for the folder's name.
        config: what decides the form beside the weights; with another one it is another folder.
        write: puts all files into an empty folder.

    Raises:
        SpecbenchError: the cache can't be written, or what ``write`` raises; nothing is left.
    """
    told = hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()
    cache = cache_dir() / "vllm"
    folder = cache / f"{sha256[:16]}-{told[:8]}-{form}"
    if folder.is_dir():
        return folder
    with disk_errors(f"a drafter for vLLM to {cache}", "SPECBENCH_CACHE"):
        cache.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(cache / ".lock"):
            for leftover in cache.glob(f"{_UNFINISHED}*"):  # the lock is held: nobody works there
                shutil.rmtree(leftover, ignore_errors=True)
            if not folder.is_dir():
                workplace = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=cache))
                try:
                    made = workplace / folder.name
                    made.mkdir()
                    write(made)
                    for file in made.iterdir():
                        _sync(file)
                    sync_folder(made)
                    made.rename(folder)
                finally:
                    shutil.rmtree(workplace, ignore_errors=True)
                sync_folder(cache)
    return folder


def _sync(file: Path) -> None:
    """Make what was written outlive a power cut, before the name does."""
    with file.open("rb+") as stream:
        os.fsync(stream.fileno())
