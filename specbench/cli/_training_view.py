"""How far a training is, on stderr: a bar in a terminal, a line a minute elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from specbench.training.checkpoint import format_rate
from specbench.training.order import Listener

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

    from specbench.training.state import Progress

_LINE_EVERY_S = 60.0


class TrainingView(Listener):
    """Use it as a context manager.

    Args:
        stream: where it is shown.
        now: seconds of a monotonic clock; replaced in tests.
    """

    def __init__(
        self, stream: TextIO | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._now = now
        self._said_s: float | None = None
        self._checks = 0
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> TrainingView:
        if self._stream.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            self._bar = Progress(
                BarColumn(bar_width=20),
                TextColumn("{task.description}", markup=False),
                console=Console(file=self._stream, highlight=False),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=1.0)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def collecting(self, tokens: int, wanted: int) -> None:
        text = f"collecting answers: {tokens:,} of {wanted:,} tokens"
        if tokens >= wanted:
            text = f"answers: {tokens:,} tokens, enough"
        self._show(text, tokens / wanted)

    def training(self, progress: Progress, share: float) -> None:
        if not self._checks and progress.step > 1:
            self._checks = len(progress.checks)
            self.message(f"going on at step {progress.step}")
        if len(progress.checks) > self._checks:
            self._checks = len(progress.checks)
            self.message(check_line(progress))
        self._show(f"training: step {progress.step}, loss {progress.loss or 0.0:.3f}", share)

    def message(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, markup=False, soft_wrap=True)
        else:
            print(text, file=self._stream, flush=True)

    def _show(self, text: str, share: float) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=text, completed=min(share, 1.0))
            return
        now = self._now()
        if self._said_s is None or now - self._said_s >= _LINE_EVERY_S:
            self._said_s = now
            self.message(text)


def check_line(progress: Progress) -> str:
    """Kept-out acceptance by draft step, as of the last check; four steps fit in 80 columns."""
    check = progress.checks[-1]
    greedy, overlap = (
        " ".join(format_rate(rate).removeprefix("0") for rate in check[what])
        for what in ("greedy", "overlap")
    )
    return f"step {check['step']}, kept out: greedy {greedy}; overlap {overlap}"
