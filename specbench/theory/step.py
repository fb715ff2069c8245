"""Is there a draft length at which rounds take longer by a step, or from which on they do?

A verify step jumps at some width, where a kernel needs another tile, or is slow at a single width
that no kernel fits, and is on no line then. Two baselines alone hardly tell how much cells differ,
so that they can't tell a jump from a slow cell; but the gammas themselves do. A step between two
neighbouring gammas, of two or more on either side, or a single gamma off the others' line, is shown
where a line with it fits far better than one without: the largest F of all places for it, at 5%
divided by their number (Bonferroni), of single ones at 2%. The test needs no baselines, and rejects
no more often where cells differ more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specbench.theory import quantiles
from specbench.theory.clusters import Numbers
from specbench.theory.round_lines import RoundLines
from specbench.theory.scatter import Scatter
from specbench.theory.smoothing import Smoothing, smoother_of

_STEP_LEVEL, _SINGLE_LEVEL = 0.05, 0.02
_SIDE = 2  # gammas on either side of a step; a single one is a place of its own
_ROUNDINGS = 1e-12  # squares of relative deviations that are none


def step_in(lines: RoundLines) -> Smoothing | None:
    """The step in the times of gammas; None where none is shown, or below 5 gammas."""
    length, time = lines.length, lines.time
    freedom = time.size - 3
    if freedom < _SIDE or not (np.isfinite(time) & (time > 0.0)).all():
        return None

    def fitted(*columns: Numbers) -> tuple[Numbers, float]:
        """The smoother, and the squares of what it leaves."""
        smoother = smoother_of(time, length, *columns)
        return smoother, float(((smoother @ time / time - 1.0) ** 2).sum())

    _, straight = fitted()
    ascending = np.sort(length)
    steps = [length >= ascending[place] for place in range(_SIDE, time.size - _SIDE + 1)]
    singles = [length == one for one in ascending]
    shown: list[tuple[float, NDArray[np.bool_], Numbers]] = []
    for places, level in ((steps, _STEP_LEVEL), (singles, _SINGLE_LEVEL)):
        limit = float(quantiles.fisher_f(1.0 - level / len(places), 1, freedom))
        for above in places:
            smoother, left = fitted(above.astype(np.float64))
            if straight - left > max(limit * left / freedom, _ROUNDINGS):
                shown.append((left, above, smoother))
    if not shown:
        return None
    left, above, smoother = min(shown, key=lambda found: found[0])
    return Smoothing(above, smoother, smoother, time, Scatter(left / freedom, freedom))
