"""Time on the device that does the work, behind one small interface.

A clock hands out marks and later says how many seconds lie between them. On CUDA a mark is an event
on the current stream, so that marking costs no synchronisation inside a round; times are read in
bulk and late, by :meth:`Clock.spans`, which gives the events back for the next marks: a cell of any
length needs a few hundred of them. On the CPU, where torch returns when the work is done, a mark is
the host's own counter.

>>> clock = clock_for("cpu")
>>> start = clock.mark()
>>> clock.seconds(start, clock.mark()) >= 0
True
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Protocol

_MARKS_PER_SAMPLE = 200
_SAMPLES = 9


class Clock(Protocol):
    """Marks moments; measures the seconds between its own marks.

    Attributes:
        method: how, for the record.
    """

    method: str

    def mark(self) -> Any:
        """A mark after all the work issued so far; cheap, does not wait."""

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds from ``start`` to ``end``; waits until both have happened."""

    def spans(self, chains: Sequence[Sequence[Any]]) -> list[tuple[float, ...]]:
        """Seconds between neighbouring marks of each chain; waits for the last mark of all.

        The marks are used up: they may be handed out again.

        Args:
            chains: marks in the order in which they were made, chain after chain.
        """


class HostClock:
    """``time.perf_counter``, for devices whose calls return when the work is done."""

    method = "host clock"

    def mark(self) -> float:
        return time.perf_counter()

    def seconds(self, start: float, end: float) -> float:
        return end - start

    def spans(self, chains: Sequence[Sequence[float]]) -> list[tuple[float, ...]]:
        return [tuple(end - start for start, end in pairwise(chain)) for chain in chains]


class CudaClock:
    """CUDA events on the current stream of one device; milliseconds from the driver, / 1000.

    Args:
        device: a torch device name such as ``"cuda:0"``.
        cuda: stands in for ``torch.cuda`` in tests.
    """

    method = "CUDA events"

    def __init__(self, device: str, cuda: Any = None) -> None:
        if cuda is None:
            import torch

            cuda = torch.cuda
        self._cuda = cuda
        self._device = device
        self._free: list[Any] = []

    def mark(self) -> Any:
        event = self._free.pop() if self._free else self._cuda.Event(enable_timing=True)
        event.record(self._cuda.current_stream(self._device))
        return event

    def seconds(self, start: Any, end: Any) -> float:
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000.0

    def spans(self, chains: Sequence[Sequence[Any]]) -> list[tuple[float, ...]]:
        if not chains:
            return []
        chains[-1][-1].synchronize()  # on one stream what was recorded before has happened too
        found = [
            tuple(float(start.elapsed_time(end)) / 1000.0 for start, end in pairwise(chain))
            for chain in chains
        ]
        used = {id(event): event for chain in chains for event in chain}
        self._free.extend(used.values())
        return found


def clock_for(device: Any) -> Clock:
    """The clock of a torch device or device name: events on CUDA, else the host's counter."""
    name = str(device)
    return CudaClock(name) if name.startswith("cuda") else HostClock()


def seconds_per_mark(clock: Clock) -> float:
    """Seconds of the host that a mark takes, the median of a few samples of many marks."""
    samples = []
    for _ in range(_SAMPLES):
        begin = time.perf_counter()
        marks = [clock.mark() for _ in range(_MARKS_PER_SAMPLE)]
        samples.append((time.perf_counter() - begin) / _MARKS_PER_SAMPLE)
        clock.spans([marks])
    return statistics.median(samples)
