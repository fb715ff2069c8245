"""Do the rounds of several drafters lie off their lines alike?

What a forward of so many tokens costs is the target's and the machine's, whoever drafted them: a
kernel that is fast for two rows and slow for three makes the same gammas slow for every drafter,
task and temperature. One drafter's few gammas can't tell that from slow cells. But deviations of
cells are independent and those of a kernel are not, so the mean deviation of all groups is held
against how far groups differ about it: an F test, as for any mean of several samples. What takes
all gammas off a robust line alike, as slow moments do, is no bend of it, and is not tested.

Where it is shown, lines are wrong, and how much cells differ is what is left about the mean.

>>> alike = np.array([[-0.05, 0.065, -0.015], [-0.05, 0.067, -0.017]])
>>> shared_by(alike, alike, 0.05).misfit
array([-0.05 ,  0.066, -0.016])
>>> apart = np.array([[-0.05, 0.06, -0.01], [0.05, -0.06, 0.01]])
>>> shared_by(apart, apart, 0.05)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from specbench.theory import quantiles
from specbench.theory.clusters import Numbers
from specbench.theory.round_lines import RoundLines
from specbench.theory.scatter import Scatter
from specbench.theory.smoothing import Smoothing, smoother_of

_ON_A_LINE = 2  # numbers that a line is told by


class Shared(NamedTuple):
    """What groups have in common beside their lines.

    Attributes:
        misfit: [gammas] mean log of measured time over the line.
        scatters: [groups] how far the gammas of each lie off their line and that mean.
    """

    misfit: Numbers
    scatters: list[Scatter]


def shared_by(misfits: Numbers, bends: Numbers, level: float) -> Shared | None:
    """What is shown to be shared; None where nothing is.

    Args:
        misfits: [groups, gammas] log of measured time over the group's own line.
        bends: [groups, gammas] the same over its line of least squares, which are tested.
        level: of the test.
    """
    count, gammas = misfits.shape
    freedom = gammas - _ON_A_LINE
    if count < 2 or freedom < 1 or not np.isfinite(misfits).all():
        return None
    mean = bends.mean(axis=0)
    limit = float(quantiles.fisher_f(1.0 - level, freedom, freedom * (count - 1)))
    about = float(((bends - mean) ** 2).sum()) / (count - 1)
    if not count * float((mean**2).sum()) > limit * about:  # nor where a bend is not known
        return None
    shared = misfits.mean(axis=0)
    left = ((misfits - shared) ** 2).sum(axis=1)
    own = freedom * (count - 1) / count
    return Shared(shared, [Scatter(float(squares) / own, own) for squares in left])


def bent(lines: RoundLines, misfit: Numbers, groups: int, scatter: Scatter) -> Smoothing:
    """The lines of one of so many groups, with what these have in common.

    The deviations of all groups' cells move the mean misfit, each by 1 / groups of what it is off
    the line, all of them as much as one would by 1 / sqrt(groups).

    Args:
        misfit: [gammas] what is shared.
        scatter: of the group, beside it.
    """
    shape, time = np.exp(misfit), lines.time
    straight = time / shape
    smoother = smoother_of(straight, lines.length)
    left = (np.eye(time.size) - smoother) / np.sqrt(groups)
    smoother, left = (shape[:, None] * part / shape for part in (smoother, left))
    none = np.zeros(time.size, dtype=np.bool_)
    return Smoothing(none, smoother, smoother + left, time, scatter)
