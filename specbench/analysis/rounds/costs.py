"""What a group's rounds cost, in units of T1: the drafter step, and a round's three parts.

T1 is the baseline's whole decode time per step. Times are over the steps that speed is counted over
(:func:`specbench.records.steps.counted_steps`), so that they add up to the measured speedup.

Intervals hold the sampling error of conversations, or of time blocks, and what differs between
cells measured one after the other where something tells it (three gammas on lines, or two
baselines): the log time of each gamma, and of each baseline, has a deviation of its own, which
moves c by the gamma's share of the drafting and T1 by one over the number of baselines. Both
together go by Student's t with the degrees of freedom of Welch 1947.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from specbench.analysis.pooling import Raw
from specbench.analysis.rounds.model import RoundShape
from specbench.records.conversations import by_conversation, column, ones, paired
from specbench.records.steps import (
    Columns,
    Numbers,
    Steps,
    counted_steps,
    integers,
    numbers,
    row_seconds,
)
from specbench.theory.clusters import time_blocks
from specbench.theory.intervals import Interval, paired_ratio_of_ratios, two_sample_ratio
from specbench.theory.scatter import Scatter


class Costs:
    """The costs of one group against its baselines.

    Args:
        raw: gamma -> rounds and requests of that gamma's cells.
        baselines: rounds and requests of each baseline; may be empty, then nothing is known.
        batch_size: of all of them.
        cells: what differs between cells; None where nothing tells it.
    """

    def __init__(
        self,
        raw: dict[int, Raw],
        baselines: Sequence[Raw],
        batch_size: int,
        cells: Scatter | None = None,
    ) -> None:
        self._raw, self._baselines, self._batch_size = raw, baselines, batch_size
        self._cells = cells
        self._steps = {
            gamma: counted_steps(rounds, batch_size) for gamma, (rounds, _) in raw.items()
        }
        self._plain = [counted_steps(rounds, batch_size) for rounds, _ in baselines]
        seconds = sum(float(steps.seconds.sum()) for steps in self._plain)
        count = sum(len(steps) for steps in self._plain)
        self.step_s: float | None = seconds / count if seconds and count else None

    def drafter_step(self) -> tuple[float | None, tuple[float, float] | None]:
        """c over all gammas, rounds that drafted nothing left out, and its interval.

        At batch 1 paired by conversation, above from time blocks of each gamma. No interval from
        one conversation, or for a drafter that takes no time.
        """
        drafting = [_drafting(steps) for steps in self._steps.values()]
        drafted = sum(float(steps.drafted.sum()) for steps in drafting)
        if self.step_s is None or not drafted:
            return None, None
        seconds = np.array([float(steps.draft_s.sum()) for steps in drafting])
        c = float(seconds.sum()) / drafted / self.step_s
        if self._batch_size > 1:
            own = [time_blocks(steps.draft_s, steps.drafted) for steps in drafting if len(steps)]
            return c, self._widened(two_sample_ratio(own, self._plain_blocks), seconds)
        return c, self._widened(self._paired(), seconds)

    def overhead(self) -> float | None:
        """Mean remaining time of a round over all gammas."""
        if self.step_s is None:
            return None
        times = np.concatenate([steps.other_s for steps in self._steps.values()])
        return float(times.mean()) / self.step_s if times.size else None

    def shapes(self) -> dict[int, RoundShape]:
        """What rounds of each gamma were like; empty without a baseline."""
        if self.step_s is None:
            return {}
        unit = self.step_s
        found = {}
        for gamma, steps in self._steps.items():
            drafted = integers(self._raw[gamma][0], "draft_levels")
            if len(steps):
                shares = np.bincount(drafted, minlength=gamma + 1) / drafted.size
                parts = (steps.draft_s, steps.verify_s, steps.other_s)
                draft, verify, other = (float(part.mean()) / unit for part in parts)
                found[gamma] = RoundShape(tuple(shares.tolist()), draft, verify, other)
        return found

    def round_interval(self, gamma: int) -> tuple[float, float] | None:
        """95% interval of the whole time of a round of one gamma; paired as c's is."""
        if self.step_s is None:
            return None
        if self._batch_size > 1:
            interval = two_sample_ratio([_blocks(self._steps[gamma])], self._plain_blocks)
        else:
            own = by_conversation([self._raw[gamma]], row_seconds, ones)
            interval = paired_ratio_of_ratios(*paired(own, self._plain_sums).T)
        return self._widened(interval, np.ones(1))

    def _widened(self, interval: Interval | None, seconds: Numbers) -> tuple[float, float] | None:
        """An interval of a ratio to T1, with what differs between cells.

        Args:
            seconds: [gammas] that the ratio adds up.
        """
        if interval is None or self._cells is None:
            return interval.ends if interval else None
        shares = seconds / seconds.sum()
        cells = float(shares @ shares) + 1.0 / len(self._plain)
        return self._cells.widened(interval.estimate, interval.ends, interval.clusters, cells)

    @cached_property
    def _plain_sums(self) -> dict[str, Numbers]:
        """Seconds and steps of plain decoding by conversation."""
        return by_conversation(self._baselines, row_seconds, ones)

    def _paired(self) -> Interval | None:
        own = by_conversation(self._raw.values(), _drafting_s, column("draft_levels"))
        return paired_ratio_of_ratios(*paired(own, self._plain_sums).T)

    @property
    def _plain_blocks(self) -> list[list[Numbers]]:
        return [_blocks(steps) for steps in self._plain if len(steps)]


def counts_by_conversation(raw: Sequence[Raw]) -> tuple[Numbers, Numbers]:
    """Accepted and evaluated tokens of each conversation, over all cells: two arrays [clusters]."""
    found = by_conversation(raw, column("num_accepted"), column("num_evaluated"))
    sums = np.array(list(found.values())).reshape(-1, 2)
    return sums[:, 0], sums[:, 1]


def _blocks(steps: Steps) -> list[Numbers]:
    """Seconds and steps of each time block."""
    return time_blocks(steps.seconds, np.ones(len(steps)))


def _drafting(steps: Steps) -> Steps:
    return steps.where(steps.drafted > 0, steps.all_full)


def _drafting_s(rounds: Columns) -> Numbers:
    """Seconds that each row's draft took, 0 where nothing was drafted."""
    return numbers(rounds, "draft_s") * (integers(rounds, "num_drafted") > 0)
