"""How far the tokens counted at measured gammas lie off the acceptance model, and what to believe.

No model knows it all: where conversations differ, or matches come in stretches, rounds of a long
draft start at hard places more often than those of a short one. What is left between counts and
model beyond chance has a variance, by its mean square (as for a random effect, DerSimonian & Laird
1986). With few rounds a gamma's own count is the worse guess, with many the better one. So where
counts are shown to lie off, each gamma is moved from the model towards its count, by that variance
over the sum of it and chance; what may then still be off counts in bounds and resamples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specbench.analysis.recommending.clock import neighbours
from specbench.theory.clusters import Numbers
from specbench.theory.simultaneous import Errors, Influence

_LEVEL = 0.95
_SEED = 0


@dataclass(frozen=True, eq=False)
class Misfit:
    """What an acceptance model does not know of a group's tokens.

    Attributes:
        moved: measured gamma -> share of its distance to the count that it is moved by.
        variance: of the log of counted / modelled tokens, beyond chance.
    """

    moved: Mapping[int, float]
    variance: float

    def shares(self, gammas: Sequence[int]) -> Numbers:
        """[measured, gammas] how far a measured gamma's distance moves each, in between in part."""
        near = [neighbours(gamma, self.moved) for gamma in gammas]
        between = [[part.get(known, 0.0) for part in near] for known in self.moved]
        return np.asarray(np.array(between) * np.array(list(self.moved.values()))[:, None])

    def pulls(self, gammas: Sequence[int]) -> Numbers:
        """[measured, gammas] how far what a measured gamma is really off moves the log of each."""
        whole = Misfit(dict.fromkeys(self.moved, 1.0), self.variance)
        return whole.shares(gammas) - self.shares(gammas)


def misfit_of(gammas: Sequence[int], off: Numbers, influence: Numbers) -> Misfit | None:
    """The misfit of a group.

    Args:
        gammas: measured.
        off: [gammas] log of counted / modelled tokens.
        influence: [conversations, gammas] what each conversation adds to it, by jackknife.

    Returns:
        None where chance can't be told.
    """
    count = len(gammas)
    chance = Influence(np.arange(count), influence).variance()
    if not (np.isfinite(chance).all() and np.isfinite(off).all()):
        return None
    variance = max(float((off**2 - chance).mean()), 0.0)
    moved = np.zeros(count)
    if variance > 0.0 and (np.abs(off) > _limits(influence) * np.sqrt(chance)).any():
        moved = variance / (variance + chance)
    return Misfit(dict(zip(gammas, moved.tolist(), strict=True)), variance)


def _limits(influence: Numbers) -> Numbers:
    """[gammas] standard errors that none lies off by, on either side, in 95% of all cases."""
    columns = np.hstack([influence, -influence])
    both = Errors(columns.shape[1], [Influence(np.arange(columns.shape[1]), columns)])
    return both.widths(_LEVEL, _SEED)[: influence.shape[1]]
