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
is one the drafter likes, so that what follows it is easier or harder: an approximation.

>>> accepted, evaluated = replay([[1, 1, 0, 0, 1, 0]], 2)
>>> accepted.tolist(), evaluated.tolist()  # rounds start at 0, 3, 4: the bonus token skips 2
([[2.0, 1.0]], [[3.0, 2.0]])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbench.errors import SpecbenchError
from specbench.theory.acceptance import Counts, Sample
from specbench.theory.clusters import Numbers

Positions = NDArray[np.int64]


def replay_sample(
    traces: Mapping[str, ArrayLike], gammas: Iterable[int], ends: Mapping[str, int] | None = None
) -> Sample:
    """Counts of every gamma, from one trace per conversation.

    Args:
        traces: name of a conversation -> its trace, as in :func:`replay`.
        gammas: draft lengths, 1 or more.
        ends: name -> where its rounds end, as in :func:`replay`.

    Returns:
        gamma -> counts: whole numbers at temperature 0, expectations else.
    """
    names, last = list(traces), None if ends is None else [ends[name] for name in traces]
    rows = list(traces.values())
    return {
        gamma: Counts(np.asarray(names, dtype=np.str_), *replay(rows, gamma, last))
        for gamma in gammas
    }


def replay(
    traces: Sequence[ArrayLike], gamma: int, ends: Sequence[int] | None = None
) -> tuple[Numbers, Numbers]:
    """How often each position of a round is accepted and evaluated, per trace.

    Args:
        traces: per text the chance 0 to 1 that a draft of its position 0, 1, ... is accepted once
            evaluated. Position 0 is the first that a round can draft: the token after the one that
            prefill gave.
        gamma: tokens drafted per round, 1 or more.
        ends: per text the position from which no round starts, at most its length. A loop that
            drafts beyond its length limit needs a trace gamma positions longer than that; where a
            trace ends, drafts end, and what lies behind is not counted as evaluated.

    Returns:
        accepted and evaluated [texts, gamma]; evaluated at the first position is the rounds.

    Raises:
        SpecbenchError: gamma, a chance or an end is out of range.
    """
    rows = [np.asarray(trace, dtype=np.float64).reshape(-1) for trace in traces]
    lengths = np.array([row.size for row in rows], dtype=np.int64)
    last = lengths if ends is None else np.asarray(ends, dtype=np.int64)
    _check(rows, gamma, last, lengths)
    longest = int(lengths.max(initial=0))
    chances = np.full((len(rows), longest + gamma), np.nan)
    for place, row in enumerate(rows):
        chances[place, : row.size] = row
    accepted, evaluated = np.zeros((2, len(rows), gamma))
    starting = np.zeros((len(rows), longest + gamma + 2))  # chance that a round starts here
    starting[:, 0] = 1.0
    for start in range(int(last.max(initial=0))):
        alive = starting[:, start] * (start < last)  # chance to start here and get this far
        for depth in range(gamma):
            chance = chances[:, start + depth]
            beyond = np.isnan(chance)
            alive = np.where(beyond, 0.0, alive)
            passed = alive * np.where(beyond, 0.0, chance)
            evaluated[:, depth] += alive
            accepted[:, depth] += passed
            starting[:, start + depth + 1] += alive - passed  # the correction token stands there
            alive = passed
        starting[:, start + gamma + 1] += alive  # behind the bonus token
    return accepted, evaluated


def _check(rows: Sequence[Numbers], gamma: int, last: Positions, lengths: Positions) -> None:
    if gamma < 1:
        raise SpecbenchError(f"gamma {gamma} is out of range", "Give 1 or more")
    for row in rows:
        if not ((row >= 0.0) & (row <= 1.0)).all():
            wrong = row[~((row >= 0.0) & (row <= 1.0))][0]
            raise SpecbenchError(f"chance {wrong:g} is out of range", "Give numbers from 0 to 1")
    if last.shape != lengths.shape or ((last < 0) | (last > lengths)).any():
        raise SpecbenchError(
            f"ends {last.tolist()} don't fit traces of {lengths.tolist()} positions"
        )
