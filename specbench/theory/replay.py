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
lookup that goes on copying) has a trace per start: :func:`replay_drafts` takes those.

>>> accepted, evaluated = replay([[1, 1, 0, 0, 1, 0]], 2)
>>> accepted.tolist(), evaluated.tolist()  # rounds start at 0, 3, 4: the bonus token skips 2
([[2.0, 1.0]], [[3.0, 2.0]])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbench.errors import SpecbenchError
from specbench.theory.acceptance import Counts, Sample
from specbench.theory.clusters import Numbers

Positions = NDArray[np.int64]


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
    _check_gamma(gamma)
    rows = [np.asarray(trace, dtype=np.float64).reshape(-1) for trace in traces]
    for row in rows:
        _check_chances(row, (row >= 0.0) & (row <= 1.0))
    drafts = [drafts_of(row, gamma) for row in rows]
    return replay_drafts(drafts, gamma, ends)[1:]


def drafts_of(trace: ArrayLike, gamma: int) -> Numbers:
    """A trace by position as one by start [positions, gamma]; NaN where the trace has ended."""
    row = np.asarray(trace, dtype=np.float64).reshape(-1)
    padded = np.concatenate([row, np.full(gamma - 1, np.nan)])
    if not row.size:
        return np.empty((0, gamma))
    return np.lib.stride_tricks.sliding_window_view(padded, gamma).copy()


def replay_drafts(
    drafts: Sequence[ArrayLike],
    gamma: int,
    ends: Sequence[int] | None = None,
    worth: Sequence[ArrayLike] | None = None,
) -> Replayed:
    """Replay texts of which every draft that a round may begin is known.

    Args:
        drafts: per text [starts, gamma or more] the chance that token 1, 2, ... of a draft begun
            there is accepted once evaluated; NaN where the draft ended before.
        gamma: tokens drafted per round, at most; 1 or more.
        ends: per text the start from which no round begins; default all its starts.
        worth: like ``drafts``, what an evaluated token counts as accepted: its overlap, say. By
            default its chance.

    Raises:
        SpecbenchError: gamma, a chance or an end is out of range.
    """
    _check_gamma(gamma)
    tables = _stacked(drafts, gamma)  # [texts, starts, gamma]
    counted = tables if worth is None else _stacked(worth, gamma)
    lengths = np.array([len(np.asarray(draft)) for draft in drafts], dtype=np.int64)
    last = lengths if ends is None else np.asarray(ends, dtype=np.int64)
    _check_ends(last, lengths)
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


def _check_gamma(gamma: int) -> None:
    if gamma < 1:
        raise SpecbenchError(f"gamma {gamma} is out of range", "Give 1 or more")


def _check_chances(row: Numbers, fine: NDArray[np.bool_]) -> None:
    if not fine.all():
        raise SpecbenchError(
            f"chance {row[~fine][0]:g} is out of range", "Give numbers from 0 to 1"
        )


def _check_ends(last: Positions, lengths: Positions) -> None:
    if last.shape != lengths.shape or ((last < 0) | (last > lengths)).any():
        raise SpecbenchError(
            f"ends {last.tolist()} don't fit traces of {lengths.tolist()} positions"
        )
