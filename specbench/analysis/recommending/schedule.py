"""One policy for a server whose load varies: batch size -> gamma, for the one drafter it loads.

A measured batch size has the gamma chosen there. Sizes between two measured ones have the smaller
gamma of the two: no draft is longer than what was shown to pay on both sides. Sizes below the
smallest measured one go with it. The largest measured size is the end: nothing is said beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from specbench.analysis.recommending.candidates import Field
from specbench.analysis.recommending.choice import PLAINLY, UNDECIDED, Choice, choose
from specbench.analysis.recommending.crossover import Crossover, crossover
from specbench.analysis.recommending.server_load import Load, Served, best_served, served


class Range(NamedTuple):
    """Batch sizes first to last, both included, and the gamma for them; 0 is plain decoding."""

    first: int
    last: int
    gamma: int


@dataclass(frozen=True)
class Schedule:
    """What to do under one load.

    Attributes:
        load: what is served.
        served: the drafter to load and its choices; None where none is shown to pay.
        ranges: ascending, without gaps, from 1 to the largest measured batch size.
        decided: measured batch size -> whether data decide on it, and not the want of them.
        crossover: of that drafter; None with one batch size, or without a drafter.
    """

    load: Load
    served: Served | None
    ranges: tuple[Range, ...]
    crossover: Crossover | None
    decided: Mapping[int, bool]

    @property
    def drafter(self) -> str:
        """The SPEC, or "none"."""
        return self.served.drafter if self.served else "none"

    @property
    def longest(self) -> int:
        """The largest gamma of all ranges."""
        return max(part.gamma for part in self.ranges)

    @property
    def last(self) -> int:
        """The largest measured batch size."""
        return self.ranges[-1].last

    def choice(self, part: Range) -> Choice | None:
        """What a range rests on: the choice at the largest measured batch size within it."""
        if self.served is None:
            return None
        sizes = [size for size in self.served.choices if part.first <= size <= part.last]
        return self.served.choices[max(sizes)] if sizes else None

    def undecided(self, part: Range) -> list[int]:
        """Measured batch sizes of a range for which too little was measured."""
        return [size for size in self._measured(part) if not self.decided[size]]

    def against(self, part: Range) -> str:
        """What gamma 0 means in a range: that nothing pays, or that this is not known."""
        undecided = self.undecided(part)
        if not undecided:
            return PLAINLY
        if undecided == self._measured(part):
            return UNDECIDED
        return f"{PLAINLY}, undecided at {', '.join(map(str, undecided))}"

    def _measured(self, part: Range) -> list[int]:
        return [size for size in self.decided if part.first <= size <= part.last]


def schedules(field: Field) -> tuple[Schedule, ...]:
    """A schedule for every load of a run."""
    by_load: dict[Load, list[Served]] = {}
    for one in served(field):
        by_load.setdefault(one.load, []).append(one)
    return tuple(_schedule(load, drafters) for load, drafters in by_load.items())


def _schedule(load: Load, drafters: Sequence[Served]) -> Schedule:
    usable = [one for one in drafters if not one.synthetic]
    best = best_served(usable)
    sizes = sorted({size for one in drafters for size in one.options})
    decided = {size: _decided([best] if best else usable, size) for size in sizes}
    if best is None:
        return Schedule(load, None, (Range(1, max(sizes), 0),), None, decided)
    gammas = dict.fromkeys(sizes, 0)  # where this drafter was not measured: not shown
    gammas |= {size: choice.gamma for size, choice in best.choices.items()}
    return Schedule(load, best, ranges(gammas), crossover(best), decided)


def _decided(drafters: Sequence[Served], batch_size: int) -> bool:
    """Whether data decide on drafters; where none of them was measured they don't."""
    candidates = [one for drafter in drafters for one in drafter.options.get(batch_size, ())]
    return choose(candidates).decided if candidates else not drafters


def ranges(gammas: dict[int, int]) -> tuple[Range, ...]:
    """Ranges from the gammas at measured batch sizes, ascending.

    >>> ranges({1: 4, 4: 4, 16: 0})
    (Range(first=1, last=4, gamma=4), Range(first=5, last=16, gamma=0))
    """
    found: list[Range] = []
    before = None
    for size, gamma in gammas.items():
        start = found[-1].last + 1 if found else 1
        between = gamma if before is None else min(before, gamma)
        for part in (Range(start, size - 1, between), Range(size, size, gamma)):
            if part.first > part.last:
                continue
            if found and found[-1].gamma == part.gamma:
                found[-1] = found[-1]._replace(last=part.last)
            else:
                found.append(part)
        before = gamma
    return tuple(found)
