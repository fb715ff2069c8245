"""Texts with one trace by position, replayed as rounds of any gamma: what each start's drafts are.

>>> accepted, evaluated = replay([[1, 1, 0, 0, 1, 0]], 2)
>>> accepted.tolist(), evaluated.tolist()  # rounds start at 0, 3, 4: the bonus token skips 2
([[2.0, 1.0]], [[3.0, 2.0]])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from specbench.theory.acceptance import Counts, Sample
from specbench.theory.clusters import Numbers
from specbench.theory.replay import replay_drafts


def replay_sample(traces: Mapping[str, ArrayLike], gammas: Iterable[int]) -> Sample:
    """Counts of every gamma, from one trace per conversation."""
    names, rows = np.asarray(list(traces), dtype=np.str_), list(traces.values())
    return {gamma: Counts(names, *replay(rows, gamma)) for gamma in gammas}


def replay(
    traces: Sequence[ArrayLike], gamma: int, ends: Sequence[int] | None = None
) -> tuple[Numbers, Numbers]:
    """How often each position of a round is accepted and evaluated, per trace: [texts, gamma].

    Args:
        traces: per text the chance that a draft of its position 0, 1, ... is accepted once
            evaluated.
        ends: per text the position from which no round starts. A loop that drafts beyond its length
            limit needs a trace gamma positions longer than that; where a trace ends, drafts end.
    """
    drafts = [drafts_of(trace, gamma) for trace in traces]
    stops = [len(draft) for draft in drafts] if ends is None else ends
    starts = [draft[:stop] for draft, stop in zip(drafts, stops, strict=True)]
    return replay_drafts(starts, gamma)[1:]


def drafts_of(trace: ArrayLike, gamma: int) -> Numbers:
    """A trace by position as one by start [positions, gamma]; NaN where the trace has ended."""
    row = np.asarray(trace, dtype=np.float64).reshape(-1)
    padded = np.concatenate([row, np.full(max(gamma - 1, 0), np.nan)])
    if not row.size:
        return np.empty((0, gamma))
    return np.lib.stride_tricks.sliding_window_view(padded, max(gamma, 1)).copy()
