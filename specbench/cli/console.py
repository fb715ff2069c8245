"""Progress of a sweep on stderr: a bar with the time left in a terminal, plain lines elsewhere.

Standard output stays free for the tables, so that ``specbench run > table.txt`` works.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from specbench.analysis.shown.names import counted, cut_in_middle, printable, with_gamma
from specbench.cli._plan_text import block_title, duration
from specbench.weights.progress import Progress as StepProgress
from specbench.weights.progress import TerminalProgress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from specbench.records.schema import Block, Cell, CellRecord
    from specbench.sweep.report import PlanLike

_BAR_WIDTH = 12
_SHORTEST_NAME = 12  # of a drafter; where that does not fit the block's title is cut too


def reporter_for_terminal(stream: TextIO | None = None) -> LineReporter:
    """A bar if stderr is a terminal, else a line per cell. Use it as a context manager."""
    stream = sys.stderr if stream is None else stream
    return BarReporter(stream) if stream.isatty() else LineReporter(stream)


class LineReporter:
    """One line per event, never redrawn: for logs and pipes.

    Args:
        stream: where the lines go.
        now: seconds of a monotonic clock; replaced in tests.
    """

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._now = now
        self._total = 0
        self._done = 0
        self._index = 0
        self._measured = 0
        self._began_s: float | None = None
        self.progress: StepProgress = TerminalProgress(_console(stream))
        self.run_folder: Path | None = None

    def __enter__(self) -> LineReporter:
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def started(self, plan: PlanLike, done: int = 0) -> None:
        self._total, self._done = len(plan.cells), done
        self._measured, self._began_s = 0, None  # every engine of a sweep starts anew
        there = f", {done} of them measured before" if done else ""
        self.message(f"{counted(self._total, 'cell')} to measure{there}")

    def block_started(self, block: Block) -> None:
        pass

    def cell_started(self, cell: Cell, index: int, total: int) -> None:
        self._index, self._total = index, total
        if self._began_s is None:
            self._began_s = self._now()

    def cell_finished(self, record: CellRecord) -> None:
        self._measured += 1
        width = len(str(self._total))
        self._write(
            f"[{self._index:>{width}}/{self._total}] {cell_title(record)}: {outcome(record)}"
            f"{self._time_left()}"
        )

    def message(self, text: str) -> None:
        self._write(text)

    def warning(self, text: str) -> None:
        self._write(f"warning: {text}")

    def finished(self, run_folder: Path) -> None:
        self.run_folder = run_folder
        self.message(f"written to {run_folder}")

    def seconds_left(self) -> float | None:
        """Mean time of the measured cells, times the cells to come; ``None`` before the first."""
        if self._began_s is None or not self._measured:
            return None
        cells_left = self._total - self._done - self._measured
        return (self._now() - self._began_s) / self._measured * cells_left

    def _time_left(self) -> str:
        left = self.seconds_left()
        return f", about {duration(left)} left" if left else ""

    def _write(self, text: str) -> None:
        print(printable(" ".join(text.split())), file=self._stream, flush=True)


class BarReporter(LineReporter):
    """A progress bar that stays on the last line while messages scroll above it."""

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, now)
        self._console = _console(stream)
        self.progress = TerminalProgress(self._console)
        self._progress: Progress | None = None
        self._bar: TaskID | None = None

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def started(self, plan: PlanLike, done: int = 0) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        super().started(plan, done)
        self._progress = Progress(
            BarColumn(bar_width=_BAR_WIDTH),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            transient=True,
        )
        self._progress.start()
        self._bar = self._progress.add_task("", total=self._total, completed=done, left="")

    def cell_started(self, cell: Cell, index: int, total: int) -> None:
        super().cell_started(cell, index, total)
        if self._progress is not None and self._bar is not None:
            left = self._time_left().removeprefix(", ")
            room = self._console.width - _BAR_WIDTH - len(f"{total}/{total}{left}") - 4
            self._progress.update(
                self._bar,
                description=cell_title(cell, room),
                completed=self._done + self._measured,
                left=left,
            )

    def cell_finished(self, record: CellRecord) -> None:
        self._measured += 1
        if record.status != "ok":
            self.warning(f"{cell_title(record)}: {outcome(record)}")

    def finished(self, run_folder: Path) -> None:
        self._stop()
        super().finished(run_folder)

    def _stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def _write(self, text: str) -> None:
        self._console.print(printable(" ".join(text.split())), markup=False)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(file=stream, highlight=False, soft_wrap=True)


def cell_title(cell: Cell | CellRecord, width: int | None = None) -> str:
    """A cell in a few words, e.g. ``chat, T = 0, batch 1, ngram γ = 4``.

    Args:
        width: characters there are; a long drafter is cut in the middle, so that gamma stays.
    """
    block, how = block_title(cell), f"plain decoding ({cell.baseline})"
    if cell.baseline is None:
        gamma = with_gamma("", cell.draft_form, cell.gamma)
        room = len(cell.drafter) if width is None else width - len(f"{block}, {gamma}")
        how = cut_in_middle(cell.drafter, max(room, _SHORTEST_NAME)) + gamma
    if width is None:
        return f"{block}, {how}"
    title = f"{cut_in_middle(block, width - len(how) - 2)}, {how}"
    return title[max(len(title) - width, 0) :]


def outcome(record: CellRecord) -> str:
    """What became of a cell: its speed, or why there is none."""
    if record.status == "out_of_memory":
        return "out of memory"
    if record.status == "failed":
        return f"failed: {record.error}"
    return "measured" if record.tok_per_s is None else f"{record.tok_per_s:.1f} tok/s"
