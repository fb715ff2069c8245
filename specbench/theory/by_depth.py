"""Tokens per round from acceptance depth by depth, for drafts that no single alpha describes.

A fixed chain has one alpha and the closed form. In a tree the chance that a level is accepted
depends on how many alternatives stand there, and an adaptive draft is longest where tokens are
easy. Both are described by what was counted at each depth, and nothing is said about depths that
were not drafted. For a number of tokens N, E[N] is the sum of the chances that N is at least 1, 2,
..., which is all that happens here.

>>> expected_tokens([0.8, 0.5, None])  # 1 + 0.8 + 0.8 x 0.5; the third level was never tried
2.2
>>> expected_tokens([0.8] * 4) == 1 + 0.8 + 0.8**2 + 0.8**3 + 0.8**4  # the closed form
True
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specbench.errors import SpecbenchError


def expected_tokens(alpha_by_depth: Iterable[float | None]) -> float:
    """1 + sum over depths i of alpha_1 ... alpha_i: tokens of a round whose draft goes on.

    It takes each accepted path to have something to try on the next level. Where paths end at a
    leaf above a tree's last level it is too high, by what would have been accepted below them:
    :func:`surviving_tokens` is what the tree really gave.

    Args:
        alpha_by_depth: chance that depth 1, 2, ... is accepted once it is evaluated, 0 to 1. None
            where that was never evaluated: nothing is known of it or of what lies behind.

    Raises:
        SpecbenchError: a chance is out of range.

    Source: Chen et al. 2024, "Sequoia" (arXiv 2402.12374): the nodes of a tree, each weighted with
    the chance of its path, here added up level by level. With one alpha it is eq. 1 of Leviathan et
    al. 2023.
    """
    total = survival = 1.0
    for alpha in alpha_by_depth:
        if alpha is None:
            break
        if not 0.0 <= alpha <= 1.0:
            raise SpecbenchError(f"alpha {alpha:g} is out of range", "Give a number from 0 to 1")
        survival *= alpha
        total += survival
    return total


def surviving_tokens(survival_by_depth: Sequence[float]) -> float:
    """1 + sum of survival: tokens of a round as long as the drafts really were.

    Rounds whose draft ended before a depth count as not surviving it, so each depth is weighted
    with how often it was drafted. This is the tail-sum of what was counted, not a model.

    Args:
        survival_by_depth: rounds that accepted at least 1, 2, ... tokens / all rounds.
    """
    return 1.0 + sum(survival_by_depth)
