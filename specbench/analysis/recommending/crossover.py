"""The batch size from which speculation no longer pays, for one drafter under one load.

At each measured batch size the drafter takes its best fitted gamma whose output did not diverge;
a size without one is passed over. Between two sizes the log of the speedup is a straight line over
the log of the batch size, and where it passes 1 on its way down, plain decoding takes over. The
interval comes from the resamples, in which each batch size keeps its gamma.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from specbench.analysis.recommending.candidates import Candidate, diverged
from specbench.analysis.recommending.choice import preferred
from specbench.analysis.recommending.server_load import Served
from specbench.theory.bootstrap import expanded_ends
from specbench.theory.clusters import Numbers


@dataclass(frozen=True)
class Crossover:
    """Where the fitted speedup falls below 1.

    Attributes:
        first, last: the smallest and the largest measured batch size.
        batch_size: interpolated; infinite if it lies beyond the largest one, 0 if even the
            smallest one does not pay.
        ci: 95% interval, with the same meaning of its ends; None where there is too little for one.
    """

    first: int
    last: int
    batch_size: float
    ci: tuple[float, float] | None

    @property
    def sentence(self) -> str:
        """For people."""
        if math.isinf(self.batch_size):
            text = f"beyond what was measured (batch {self.last})"
        elif self.batch_size == 0.0:
            text = f"pays at no measured batch size (from {self.first})"
        else:
            text = f"about {self.batch_size:.3g}"
        if self.ci is None:
            return f"{text}, no interval"
        low, high = (self._end(end) for end in self.ci)
        return text if low == high else f"{text}, 95% {low} to {high}"

    def _end(self, end: float) -> str:
        if math.isinf(end):
            return f"beyond {self.last}"
        return f"below {self.first}" if end == 0.0 else f"{end:.3g}"


def crossover(served: Served) -> Crossover | None:
    """The crossover of a drafter; None with fewer than two batch sizes that can be used."""
    usable = {
        size: kept
        for size, options in served.options.items()
        if (kept := [option for option in options if not diverged(option)])
    }
    sizes = np.array(list(usable), dtype=np.float64)
    if sizes.size < 2:
        return None
    best = [preferred(options) for options in usable.values()]
    fitted = np.log([[candidate.speedup for candidate in best]])
    resampled = np.column_stack([candidate.logs for candidate in best])
    known = np.isfinite(resampled).all(axis=1)
    ci = None
    if all(candidate.ci is not None for candidate in best) and known.any():
        ci = expanded_ends(passing(resampled[known], sizes), _clusters(best), 0.95)
    return Crossover(int(sizes[0]), int(sizes[-1]), float(passing(fitted, sizes)[0]), ci)


def passing(logs: Numbers, sizes: Numbers) -> Numbers:
    """Where log speedups [n, sizes] first fall below 0: [n], infinite if nowhere, 0 if at once."""
    below = logs <= 0.0
    place = np.argmax(below, axis=1)  # the first size that does not pay
    after = np.maximum(place, 1)
    row = np.arange(len(logs))
    high, low = logs[row, after - 1], logs[row, after]
    left, right = np.log(sizes)[after - 1], np.log(sizes)[after]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # where none is below
        share = high / (high - low)
        found = np.exp(left + share * (right - left))
    return np.where(below.any(axis=1), np.where(place > 0, found, 0.0), np.inf)


def _clusters(candidates: list[Candidate]) -> int:
    return max(min(candidate.group.num_prompts for candidate in candidates), 2)
