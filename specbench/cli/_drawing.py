"""Figures drawn by several processes at once, and written when all are known to be possible.

Drawing eight figures in two formats takes longer than reading a run of a million rounds. So more
than a few are drawn by processes that load what they need while the run is still being read.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import TYPE_CHECKING, Self

from specbench.errors import SpecbenchError
from specbench.records.files import disk_errors, write_durably

if TYPE_CHECKING:
    import pandas as pd

_FEW = 2  # figures that are sooner drawn here than a process has started
_MOST_PROCESSES = 4
_NEEDED = [
    "specbench.plots.base",
    "pandas",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
]
"""Modules that every drawing process works with."""

Files = dict[str, bytes]
"""Format -> the picture."""


class DrawingProcesses:
    """Draws figures; gets ready when it is made, and ends its processes when it is left.

    >>> with DrawingProcesses(len(names)) as processes:                         # doctest: +SKIP
    ...     drawn, impossible = processes.pictures(names, frames, ["png"])

    Args:
        count: how many there will be.
    """

    def __init__(self, count: int) -> None:
        processes = min(_cores(), count, _MOST_PROCESSES)
        self._pool: ProcessPoolExecutor | None = None
        if count > _FEW and processes > 1:
            self._pool = ProcessPoolExecutor(processes, _context(), _leave_interrupts)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def pictures(
        self, names: Sequence[str], frames: Mapping[str, pd.DataFrame], formats: Sequence[str]
    ) -> tuple[dict[str, Files], dict[str, SpecbenchError]]:
        """Draw figures by name; those that these frames have nothing for are errors by name."""
        if self._pool is None:
            return _sorted_out({name: _picture(name, frames, formats) for name in names})
        drawing = {name: self._pool.submit(_picture, name, frames, formats) for name in names}
        return _sorted_out({name: drawn.result() for name, drawn in drawing.items()})


def save(files: Files, folder: Path, name: str) -> list[Path]:
    """Write ``folder/name.format`` for each format.

    Raises:
        SpecbenchError: the folder can't be written.
    """
    written = []
    with disk_errors(f"the figure to {str(folder)!r}"):
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, picture in files.items():
            path = folder / f"{name}.{suffix}"
            write_durably(path, picture)
            written.append(path)
    return written


def _picture(
    name: str, frames: Mapping[str, pd.DataFrame], formats: Sequence[str]
) -> Files | SpecbenchError:
    from specbench.plots import base

    try:
        return base.pictures(base.drawn(name, frames), formats)
    except SpecbenchError as error:
        return error


def _sorted_out(
    found: Mapping[str, Files | SpecbenchError],
) -> tuple[dict[str, Files], dict[str, SpecbenchError]]:
    drawn = {name: files for name, files in found.items() if isinstance(files, dict)}
    return drawn, {
        name: error for name, error in found.items() if isinstance(error, SpecbenchError)
    }


def _context() -> BaseContext:
    """How processes start: threads don't survive a fork, so not as copies of this one.

    Where forks can be had from a server, it starts now, and imports what drawing needs once for all
    processes while this one goes on.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_NEEDED)
    forkserver.ensure_running()
    return context


def _leave_interrupts() -> None:
    """In a new process: an interrupt is the first process's to answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
