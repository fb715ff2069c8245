"""Clocks that stand in for a device's: one that moves when told to, and one that knows no time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from specbench.measure.clock import HostClock


class NoClock:
    """Marks nothing and knows no time: what a decode is without timing shows what timing costs."""

    method = "none"

    def mark(self) -> None:
        return None

    def seconds(self, start: None, end: None) -> float:
        return math.nan

    def spans(self, chains: Sequence[Sequence[None]]) -> list[tuple[float, ...]]:
        return [(math.nan,) * (len(chain) - 1) for chain in chains]


class FakeClock(HostClock):
    """Moves only when told to, so that seconds are exact.

    Args:
        tick_s: seconds that every mark adds by itself, so that consecutive marks differ.
    """

    method = "fake"

    def __init__(self, tick_s: float = 0.0) -> None:
        self.now_s = 0.0
        self._tick_s = tick_s

    def advance(self, seconds: float) -> None:
        self.now_s += seconds

    def mark(self) -> float:
        self.now_s += self._tick_s
        return self.now_s
