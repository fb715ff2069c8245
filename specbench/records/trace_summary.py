"""From a trace's table to the numbers of its line: alpha and tau of every gamma, replayed.

Rounds are walked by ``accept``; what they evaluate counts by ``overlap`` where there is one, which
has the same expectation and less noise (:mod:`specbench.theory.replay`). At temperature 0 both are
the match itself, and the counts are those of a loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbench.errors import SpecbenchError
from specbench.records.conversations import few_prompts
from specbench.records.tables import Columns
from specbench.theory.clusters import Numbers, cluster_sums
from specbench.theory.intervals import ratio_interval
from specbench.theory.replay import Replayed, replay_drafts


@dataclass(frozen=True, eq=False)
class Drafts:
    """A trace by request, those without a draft left out.

    Attributes:
        conversations: of each request.
        accept: per request [positions, longest draft], NaN where a draft had ended.
        overlap: likewise; None at temperature 0.
        max_p: likewise; None at temperature 0 and where drafts are sampled.
    """

    conversations: list[str]
    accept: list[Numbers]
    overlap: list[Numbers] | None = None
    max_p: list[Numbers] | None = None

    def replay(self, gamma: int) -> Replayed:
        """Rounds of a gamma; the accepted ones by overlap where there is one."""
        return replay_drafts(self.accept, gamma, worth=self.overlap)

    def mean_max_p(self, gamma: int) -> float | None:
        """Of the positions that rounds of a gamma evaluate, the mean of the target's largest p."""
        if self.max_p is None:
            return None
        replayed = replay_drafts(self.accept, gamma, worth=self.max_p)
        evaluated = float(replayed.evaluated.sum())
        return float(replayed.accepted.sum()) / evaluated if evaluated else None


def drafts_by_request(columns: Columns, longest: int) -> Drafts:
    """The table as arrays.

    Args:
        columns: of `records.traces`.
        longest: gamma of the trace.

    Raises:
        SpecbenchError: a request's positions are not 1, 2, ... in order.
    """
    request = np.asarray(columns["request"], dtype=np.int64)
    if not request.size:
        return Drafts([], [])
    begins = np.flatnonzero(np.diff(request, prepend=-1))
    position = np.asarray(columns["position"], dtype=np.int64)
    counted = np.arange(request.size) - np.repeat(
        begins, np.diff(begins, append=request.size)
    )  # from 0 in each request
    if (position != counted + 1).any():
        raise SpecbenchError("a trace's positions are not in order", "Trace again")
    parts: dict[str, list[Numbers]] = {
        name: np.split(_padded(columns[name], longest), begins[1:])
        for name in ("accept", "overlap", "max_p")
        if columns[name][0] is not None
    }
    return Drafts([columns["conversation"][begin] for begin in begins], **parts)


def summarize_trace(
    columns: Columns, longest: int, gammas: Iterable[int], seed: int = 0
) -> dict[str, Any]:
    """The derived fields of a TraceRecord.

    Args:
        columns: of `records.traces`.
        longest: gamma of the trace.
        gammas: to replay, each at most the longest.
        seed: of bootstrap intervals.
    """
    drafts = drafts_by_request(columns, longest)
    replays = {gamma: drafts.replay(gamma) for gamma in gammas}
    conversations = len(set(drafts.conversations))
    accepted, evaluated = (
        np.sum([replayed[which].sum(axis=1) for replayed in replays.values()], axis=0)
        for which in (1, 2)
    )
    alpha, alpha_ci = _ratio(drafts.conversations, accepted, evaluated, seed)
    mean, mean_ci = _position_mean(drafts, seed)
    return {
        "alpha": alpha,
        "alpha_ci": alpha_ci,
        "alpha_text": _alpha_text(drafts, replays),
        "position_mean": mean,
        "position_mean_ci": mean_ci,
        "by_gamma": [
            _by_gamma(drafts, gamma, replayed, seed) for gamma, replayed in replays.items()
        ],
        "num_prompts": conversations,
        "num_positions": sum(map(len, drafts.accept)),
        "warnings": few_prompts(conversations),
    }


def _by_gamma(drafts: Drafts, gamma: int, replayed: Replayed, seed: int) -> dict[str, Any]:
    names = drafts.conversations
    accepted, evaluated = replayed.accepted.sum(axis=1), replayed.evaluated.sum(axis=1)
    alpha, alpha_ci = _ratio(names, accepted, evaluated, seed)
    per_round, ends = _ratio(names, accepted, replayed.rounds, seed, upper=float(gamma))
    return {
        "gamma": gamma,
        "alpha": alpha,
        "alpha_ci": alpha_ci,
        "tau": None if per_round is None else 1.0 + per_round,
        "tau_ci": None if ends is None else (1.0 + ends[0], 1.0 + ends[1]),
        "max_p": drafts.mean_max_p(gamma),
        "num_rounds": float(replayed.rounds.sum()),
    }


def _alpha_text(drafts: Drafts, replays: dict[int, Replayed]) -> float | None:
    """Alpha by the text's tokens alone, above temperature 0."""
    if drafts.overlap is None:
        return None
    own = [replay_drafts(drafts.accept, gamma) for gamma in replays]
    evaluated = sum(float(replayed.evaluated.sum()) for replayed in own)
    accepted = sum(float(replayed.accepted.sum()) for replayed in own)
    return accepted / evaluated if evaluated else None


def _position_mean(drafts: Drafts, seed: int) -> tuple[float | None, tuple[float, float] | None]:
    """The mean chance of a draft's first token over all positions that have one."""
    tables = drafts.accept if drafts.overlap is None else drafts.overlap
    first = [table[:, 0] for table in tables]
    sums = np.array([np.nansum(values) for values in first])
    counts = np.array([np.count_nonzero(~np.isnan(values)) for values in first])
    return _ratio(drafts.conversations, sums, counts, seed)


def _ratio(
    names: Sequence[str],
    top: NDArray[Any],
    bottom: NDArray[Any],
    seed: int,
    upper: float = 1.0,
) -> tuple[float | None, tuple[float, float] | None]:
    """A ratio of sums over requests, and its interval by conversation."""
    total = float(np.sum(bottom))
    if not total:
        return None, None
    _, (tops, bottoms) = cluster_sums(names, top, bottom)
    interval = ratio_interval(tops, bottoms, seed=seed, upper=upper)
    return float(np.sum(top)) / total, interval.ends if interval else None


def _padded(lists: Sequence[Sequence[float]], longest: int) -> Numbers:
    """[rows, longest] with NaN behind the end of each list."""
    table = np.full((len(lists), longest), np.nan)
    for row, values in zip(table, lists, strict=True):
        row[: len(values)] = values
    return table
