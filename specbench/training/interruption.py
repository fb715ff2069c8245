"""Ctrl-C that waits until what is going on is in a state that can be kept."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interruption:
    """Within it the first Ctrl-C is only noted; a second one interrupts at once.

        with Interruption() as interruption:
            while not interruption.came:
                ...

    Outside the main thread, where signals can't be caught, and where Ctrl-C is ignored (a job in
    the background), it is what it was.
    """

    def __init__(self) -> None:
        self.came = False

    def __enter__(self) -> Interruption:
        self._caught = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
        )
        if self._caught:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._caught:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True
