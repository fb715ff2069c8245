"""Rounds of any gamma replayed on one trace: what a draft at each position of a text would meet.

A plain mean over a trace's positions is not alpha: rounds start where the last one ended, skip the
position of their correction or bonus token, and stop evaluating at a rejection, and easy positions
come in runs. So rounds are replayed. One that starts at position s accepts s, s + 1, ... while they
match, at most gamma of them; the target itself gives the token after that; the next round starts
behind it.

At temperature 0, or with drafts that are one-hot, a position of the trace is 0 or 1: whether the
drafted token is the text's. Then there is one sequence of rounds, exactly the loop's for a drafter
that sees only the prefix. Otherwise a position holds a chance, and the expectation over all
sequences of rounds is exact, by dynamic programming over start positions: the chance that a round
starts at s is passed on to where it may end.

Which chance: given the text, the token x at a position was accepted with min(1, q(x) / p(x)), the
coins of different positions are independent, and so the expectation over texts is the loop's own.
The overlap sum min(p, q) is its mean over x and has less noise, but forgets that an accepted token
is one the drafter likes, so that what follows it is easier or harder: an approximation. Both
together are exact *and* less noisy: walk by the first, count what is evaluated by the second.

A drafter whose j-th token depends on where the draft began (a head that reads its own guesses, a
lookup that goes on copying) has a trace per start, so that is what is replayed: every draft that a
round may begin.

>>> text = [[1, 1], [1, 0], [0, 0], [0, 1]]
>>> rounds, accepted, evaluated = replay_drafts([text], 2)
>>> accepted.tolist(), evaluated.tolist()  # rounds start at 0 and 3: the bonus token skips 2
([[1.0, 1.0]], [[2.0, 1.0]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbench.errors import SpecbenchError
from specbench.theory.clusters import Numbers


class Replayed(NamedTuple):
    """Counts per text: whole numbers where every chance is 0 or 1, expectations else.

    Attributes:
        rounds: [texts] those that drafted nothing included.
        accepted: [texts, gamma] at each position of a round.
        evaluated: [texts, gamma] at each position of a round.
    """

    rounds: Numbers
    accepted: Numbers
    evaluated: Numbers


def replay_drafts(
    drafts: Sequence[ArrayLike],
    gamma: int,
    worth: Sequence[ArrayLike] | None = None,
) -> Replayed:
    """Replay texts of which every draft that a round may begin is known.

    Args:
        drafts: per text [starts, gamma or more] the chance that token 1, 2, ... of a draft begun
            there is accepted once evaluated; NaN where the draft ended before.
        gamma: tokens drafted per round, at most; 1 or more.
        worth: like ``drafts``, what an evaluated token counts as accepted: its overlap, say. By
            default its chance.

    Raises:
        SpecbenchError: gamma or a chance is out of range.
    """
    if gamma < 1:
        raise SpecbenchError(f"gamma {gamma} is out of range", "Give 1 or more")
    tables = _stacked(drafts, gamma)  # [texts, starts, gamma]
    counted = tables if worth is None else _stacked(worth, gamma)
    last = np.array([len(np.asarray(draft)) for draft in drafts], dtype=np.int64)
    rounds = np.zeros(len(drafts))
    accepted, evaluated = np.zeros((2, len(drafts), gamma))
    longest = int(last.max(initial=0))
    starting = np.zeros((len(drafts), longest + gamma + 1))  # chance that a round starts here
    starting[:, 0] = 1.0
    for start in range(longest):
        alive = starting[:, start] * (start < last)  # chance to start here and get this far
        rounds += alive
        for depth in range(gamma):
            chance = tables[:, start, depth]
            drafted = np.where(np.isnan(chance), 0.0, alive)
            passed = drafted * np.nan_to_num(chance)
            evaluated[:, depth] += drafted
            accepted[:, depth] += drafted * np.nan_to_num(counted[:, start, depth])
            starting[:, start + depth + 1] += alive - passed  # the target's own token stands there
            alive = passed
        starting[:, start + gamma + 1] += alive  # behind the bonus token
    return Replayed(rounds, accepted, evaluated)


def _stacked(drafts: Sequence[ArrayLike], gamma: int) -> Numbers:
    """Tables of several texts as one [texts, starts, gamma], NaN behind the end of a text."""
    rows = [np.asarray(draft, dtype=np.float64) for draft in drafts]
    for row in rows:
        if row.ndim != 2 or row.shape[1] < gamma:
            raise SpecbenchError(f"drafts of shape {list(row.shape)} don't hold gamma {gamma}")
        _check_chances(row, ~(row < 0.0) & ~(row > 1.0))
    stacked = np.full((len(rows), max((len(row) for row in rows), default=0), gamma), np.nan)
    for place, row in enumerate(rows):
        stacked[place, : len(row)] = row[:, :gamma]
    return stacked


def _check_chances(row: Numbers, fine: NDArray[np.bool_]) -> None:
    if not fine.all():
        raise SpecbenchError(
            f"chance {row[~fine][0]:g} is out of range", "Give numbers from 0 to 1"
        )
