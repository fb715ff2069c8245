"""Time on the device that does the work, behind one small interface.

A clock hands out marks and later says how many seconds lie between two of them. On CUDA a mark is
an event on the current stream, so that marking costs no synchronisation inside a round and only
:meth:`Clock.seconds` waits. On the CPU, where torch returns when the work is done, a mark is the
host's own counter. Tests use :class:`FakeClock` and assert exact seconds.

>>> clock = FakeClock()
>>> start = clock.mark()
>>> clock.advance(0.25)
>>> clock.seconds(start, clock.mark())
0.25
"""

from __future__ import annotations

import time
from typing import Any, Protocol


class Clock(Protocol):
    """Marks moments; measures the seconds between two of its own marks."""

    def mark(self) -> Any:
        """A mark after all the work issued so far; cheap, does not wait."""

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds from ``start`` to ``end``; waits until both have happened."""


class HostClock:
    """``time.perf_counter``, for devices whose calls return when the work is done."""

    def mark(self) -> float:
        return time.perf_counter()

    def seconds(self, start: float, end: float) -> float:
        return end - start


class CudaClock:
    """CUDA events on the current stream of one device; milliseconds from the driver, / 1000.

    Args:
        device: a torch device name such as ``"cuda:0"``.
        cuda: stands in for ``torch.cuda`` in tests.
    """

    def __init__(self, device: str, cuda: Any = None) -> None:
        if cuda is None:
            import torch

            cuda = torch.cuda
        self._cuda = cuda
        self._device = device

    def mark(self) -> Any:
        event = self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def seconds(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000.0


class FakeClock:
    """Moves only when told to; for tests.

    Args:
        tick_s: seconds that every mark adds by itself, so that consecutive marks differ.
    """

    def __init__(self, tick_s: float = 0.0) -> None:
        self.now_s = 0.0
        self._tick_s = tick_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds

    def mark(self) -> float:
        self.now_s += self._tick_s
        return self.now_s

    def seconds(self, start: float, end: float) -> float:
        return end - start


def clock_for(device: Any) -> Clock:
    """The clock of a torch device or device name: events on CUDA, else the host's counter."""
    name = str(device)
    return CudaClock(name) if name.startswith("cuda") else HostClock()
