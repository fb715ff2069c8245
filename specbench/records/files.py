"""Writing that survives a kill, a power cut and a full disk.

A file is either there whole or not there: it is written beside its place, synced, renamed, and the
folder synced. A line is appended with one write and synced; if that fails half-way the file is cut
back to where it was. Every failure of the disk becomes one SpecbenchError.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import filelock

from specbench.errors import SpecbenchError

TEMPORARY_SUFFIX = ".tmp"
PROBE_BYTES = 1 << 20
"""Written and synced before anything is measured: less than this is as good as a full disk."""


@contextlib.contextmanager
def disk_errors(what: str, option: str = "--out") -> Iterator[None]:
    """Turn an OSError of the disk into one line that says what could not be written and why.

    Args:
        what: "the report to FILE".
        option: which chooses where it is written.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = f"Free some space or choose another folder with {option}"
            raise SpecbenchError(f"cannot write {what}: the disk is full", hint) from error
        reason = error.strerror or str(error)
        hint = f"Choose a folder that can be written with {option}"
        raise SpecbenchError(f"cannot write {what}: {reason}", hint) from error


def write_durably(path: Path, data: bytes | memoryview) -> None:
    """Put a file in place whole: temporary, fsync, rename, fsync of the folder.

    Raises:
        OSError: the disk refused; the old file, if there was one, is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        _write_synced(temporary, data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def append_durably(path: Path, data: bytes) -> None:
    """Append with one synced write; on failure the file is cut back to its old length."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        length = os.fstat(descriptor).st_size
        try:
            _write_whole(descriptor, data)
            os.fsync(descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, length)
                os.fsync(descriptor)
            raise
    finally:
        os.close(descriptor)
    if length == 0:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder outlive a power cut; a no-op where folders can't be synced."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def probe(folder: Path) -> None:
    """Really write, sync and remove a file: permission bits and free space may both lie.

    Raises:
        OSError: nothing can be written here.
    """
    file = folder / f".probe.{os.getpid()}{TEMPORARY_SUFFIX}"
    try:
        _write_synced(file, b"\0" * PROBE_BYTES)
    finally:
        with contextlib.suppress(OSError):
            file.unlink()


def lock_folder(folder: Path) -> filelock.BaseFileLock:
    """Take the one writer's place in a folder; the operating system frees it when we die.

    Raises:
        SpecbenchError: another writer has it.
        OSError: nothing can be written here.
    """
    lock = filelock.FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise SpecbenchError(
            f"another specbench process is writing to {folder}",
            "Wait for it to end or choose another folder with --out",
        ) from None
    return lock


def _write_synced(path: Path, data: bytes | memoryview) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        _write_whole(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_whole(descriptor: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
