"""Round times that are smoothed by a line which is not straight: one with a step, or bent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.theory.clusters import Numbers
from specbench.theory.scatter import Scatter


@dataclass(frozen=True, eq=False)
class Smoothing:
    """A line by least squares of relative deviations.

    Attributes:
        above: [gammas] which of them are beyond a step, or the single one that is off.
        smoother: [gammas, gammas] measured times -> those on the line.
        moves: [gammas, gammas] how far each measured time moves these.
        time: [gammas] as measured.
        scatter: of the gammas about the line.
    """

    above: NDArray[np.bool_]
    smoother: Numbers
    moves: Numbers
    time: Numbers
    scatter: Scatter


def smoother_of(time: Numbers, *columns: Numbers) -> Numbers:
    """[gammas, gammas] least squares of relative deviations: times -> those that columns fit."""
    design = np.column_stack([np.ones_like(time), *columns]) / time[:, None]
    return np.asarray(time[:, None] * (design @ np.linalg.pinv(design)) / time)
