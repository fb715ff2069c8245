"""What a slow step tells the user while it runs: notes and byte bars, on stderr.

Everything in ``weights`` that can take seconds (download, conversion, hashing) takes a ``progress``
and never prints by itself. ``SILENT`` is the default for libraries and tests; the command line
passes :class:`TerminalProgress`.

>>> with SILENT.stage("reading weights", total_bytes=10) as done:
...     done(10)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

_LOOK_EVERY_S = 0.2
_SAY_AFTER_S = 2.0


class Progress(Protocol):
    """Where notes and bars go."""

    def note(self, text: str) -> None:
        """Say one line that stays on the screen."""

    def stage(
        self, label: str, total_bytes: int | None = None
    ) -> AbstractContextManager[Callable[[int], None]]:
        """Show a bar for one step; the yielded function takes the bytes done so far."""


class SilentProgress:
    """Says nothing."""

    def note(self, text: str) -> None:
        return None

    @contextmanager
    def stage(self, label: str, total_bytes: int | None = None) -> Iterator[Callable[[int], None]]:
        yield lambda done_bytes: None


SILENT = SilentProgress()


class TerminalProgress:
    """Notes and bars on stderr.

    A bar vanishes when its step ends. Where stderr is no terminal, a step that takes longer than
    two seconds prints one line instead.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)

    def note(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def stage(self, label: str, total_bytes: int | None = None) -> Iterator[Callable[[int], None]]:
        if not self.console.is_terminal:
            late = Timer(_SAY_AFTER_S, self.note, (f"{label} ...",))
            late.daemon = True
            late.start()
            try:
                yield lambda done_bytes: None
            finally:
                late.cancel()
            return
        columns = [TextColumn("{task.description}"), BarColumn(), DownloadColumn()]
        with RichProgress(
            *columns, TimeRemainingColumn(), console=self.console, transient=True
        ) as bars:
            task = bars.add_task(label, total=total_bytes)
            yield lambda done_bytes: bars.update(
                task, completed=min(done_bytes, total_bytes or done_bytes)
            )


def tree_size(folder: Path) -> int:
    """Bytes of all files below a folder; what vanishes while looking counts as nothing."""
    total_bytes = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total_bytes += os.lstat(os.path.join(parent, name)).st_size
    return total_bytes


@contextmanager
def watch_size(
    progress: Progress, label: str, size: Callable[[], int], total_bytes: int
) -> Iterator[None]:
    """Show how something grows by ``total_bytes`` while someone else writes it.

    Args:
        size: bytes that are there now; called a few times per second from a thread.
    """
    ended = Event()
    already_bytes = size()
    with progress.stage(label, total_bytes) as update:

        def look() -> None:
            while not ended.wait(_LOOK_EVERY_S):
                update(max(0, size() - already_bytes))

        watcher = Thread(target=look, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
