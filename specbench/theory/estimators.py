"""From counted rounds to alpha, tau and their relatives.

A round evaluates drafted tokens one after another until one is rejected or none is left, so
num_accepted is a truncated geometric variable and accepted / drafted is not alpha: tokens behind a
rejection were never looked at. All functions take one entry per row and round and give None where
nothing was counted. Intervals are in specbench.theory.intervals.

>>> alpha([2, 0, 4], [3, 1, 4])  # of 8 evaluated tokens 6 were accepted
0.75
>>> draft_acceptance_rate([2, 0, 4], [4, 4, 4])
0.5
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Counts = NDArray[np.int64]


def alpha(num_accepted: ArrayLike, num_evaluated: ArrayLike) -> float | None:
    """Chance that an evaluated token is accepted: sum of accepted / sum of evaluated.

    The maximum-likelihood estimate for the truncated geometric with one alpha for all rounds.

    Args:
        num_accepted: [rounds] drafted tokens accepted, without the correction or bonus token.
        num_evaluated: [rounds] accepted ones plus the rejected one, as recorded.
    """
    return _ratio(_counts(num_accepted).sum(), _counts(num_evaluated).sum())


def alpha_overlap(overlap: Iterable[Sequence[float] | NDArray[np.floating] | None]) -> float | None:
    """Mean of sum_x min(p, q) over the evaluated positions: E[beta] of Leviathan et al. 2023.

    Args:
        overlap: per round the values at its evaluated positions; None (a round or a value, or NaN)
            where it was not measured.
    """
    values = np.fromiter(
        (np.nan if value is None else value for row in overlap if row is not None for value in row),
        dtype=np.float64,
    )
    measured = values[~np.isnan(values)]
    return _ratio(measured.sum(), measured.size)


def alpha_by_position(
    num_accepted: ArrayLike, num_evaluated: ArrayLike, gamma: int | None = None
) -> list[float | None]:
    """Accepted at position i / evaluated at position i, i = 1..gamma; equal if acceptance is i.i.d.

    Args:
        num_accepted: [rounds].
        num_evaluated: [rounds].
        gamma: length of the answer; the longest evaluated round if not given.
    """
    accepted, evaluated = _counts(num_accepted), _counts(num_evaluated)
    last = int(evaluated.max(initial=0)) if gamma is None else gamma
    return [
        _ratio((accepted >= position).sum(), (evaluated >= position).sum())
        for position in range(1, last + 1)
    ]


def survival_by_position(
    num_accepted: ArrayLike, gamma: int, num_drafted: ArrayLike | None = None
) -> list[float]:
    """Rounds that accepted at least i tokens / all rounds, i = 1..gamma; 1 + their sum is tau.

    Args:
        num_accepted: [rounds].
        gamma: length of the answer.
        num_drafted: [rounds]; if given, rounds that drafted nothing are left out, as vLLM does.

    Returns:
        gamma numbers that do not rise, or an empty list if there was no round.
    """
    accepted = _counts(num_accepted)
    if num_drafted is not None:
        accepted = accepted[_counts(num_drafted) > 0]
    if accepted.size == 0:
        return []
    return [float((accepted >= position).mean()) for position in range(1, gamma + 1)]


def tau(num_accepted: ArrayLike) -> float | None:
    """Block efficiency: tokens committed per target forward, 1 + accepted / rounds.

    Args:
        num_accepted: [rounds].
    """
    accepted = _counts(num_accepted)
    per_round = _ratio(accepted.sum(), accepted.size)
    return None if per_round is None else 1.0 + per_round


def draft_acceptance_rate(num_accepted: ArrayLike, num_drafted: ArrayLike) -> float | None:
    """Accepted / drafted: what vLLM calls its acceptance rate. Below alpha whenever gamma > 1.

    Args:
        num_accepted: [rounds].
        num_drafted: [rounds].
    """
    return _ratio(_counts(num_accepted).sum(), _counts(num_drafted).sum())


def _counts(values: ArrayLike) -> Counts:
    return np.asarray(values, dtype=np.int64)


def _ratio(numerator: float, denominator: float) -> float | None:
    return float(numerator) / float(denominator) if denominator else None
