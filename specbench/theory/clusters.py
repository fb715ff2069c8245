"""Clusters, the independent units that intervals rest on: conversations and time blocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbench.errors import SpecbenchError

Numbers = NDArray[np.float64]

MIN_TIME_BLOCKS = 8
"""Fewer time blocks than this give no interval at batch size > 1."""


def cluster_sums(
    keys: ArrayLike, *values: ArrayLike, owners: NDArray[np.int64] | None = None
) -> tuple[NDArray[np.str_], list[Numbers]]:
    """Sum values over equal keys.

    Args:
        keys: [n] names of clusters; with owners [any], to be pointed at.
        values: each [n].
        owners: [n] which key each value belongs to: much quicker than as many names.

    Returns:
        the sorted names [clusters] that have values and the sums of each value [clusters].
    """
    names, where = np.unique(np.asarray(keys, dtype=np.str_), return_inverse=True)
    if owners is not None:
        where = where[owners]
    seen = np.bincount(where, minlength=names.size) > 0
    sums = [
        np.bincount(where, np.asarray(value, dtype=np.float64), names.size)[seen].astype(np.float64)
        for value in values
    ]
    return names[seen], sums


def time_blocks(*values: ArrayLike, blocks: int = MIN_TIME_BLOCKS) -> list[Numbers]:
    """Sum values over consecutive stretches of steps, as equal in number of steps as can be.

    Args:
        values: each [steps], in order of time.
        blocks: number of stretches; fewer steps than that give one block per step.

    Returns:
        the sums of each value [min(blocks, steps)].
    """
    arrays = same_length(*values)
    count = min(blocks, arrays[0].size)
    if count == 0:
        return [array[:0] for array in arrays]
    starts = np.arange(count) * arrays[0].size // count
    return [np.add.reduceat(array, starts) for array in arrays]


def ratio(top: Numbers, bottom: Numbers) -> Numbers:
    """Top / bottom, elementwise; no number, and no warning, where weights leave nothing below."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.divide(top, bottom))


def same_length(*values: ArrayLike) -> list[Numbers]:
    """Float arrays, checked to be of one length, finite and not negative.

    Raises:
        SpecbenchError: they are not.
    """
    arrays = [np.asarray(value, dtype=np.float64).reshape(-1) for value in values]
    sizes = {array.size for array in arrays}
    if len(sizes) > 1:
        raise SpecbenchError(f"paired numbers differ in length: {sorted(sizes)}")
    if not all(np.isfinite(array).all() and (array >= 0.0).all() for array in arrays):
        raise SpecbenchError("an interval needs finite numbers of at least 0")
    return arrays
