"""Tokens per round of any gamma from a trace: the acceptance model that knows the text itself.

`specbench alpha RUN` records which tokens of plain decoding's text a drafter would have hit, from
every position on. Rounds replayed on it (:mod:`specbench.theory.replay`) are at temperature 0 the
loop's own; above it they are what a loop does on average on that text. No gamma of the loop is in
it, so it predicts one that was not measured, matches in stretches included, which no alpha by
position can tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.pooling import GroupKey
from specbench.errors import SpecbenchError
from specbench.records.reading import Run
from specbench.records.trace_summary import drafts_by_request
from specbench.records.traces import TraceRecord, load_trace, load_traces
from specbench.theory.clusters import Numbers, cluster_sums

NAME = "replay"


@dataclass(frozen=True, eq=False)
class ReplayedTokens:
    """A drafter's rounds on a text, by conversation.

    Attributes:
        names: [conversations].
        emitted: [conversations] tokens that rounds put out, whatever gamma is.
        rounds: gamma -> [conversations] rounds that this takes.
    """

    names: NDArray[np.str_]
    emitted: Numbers
    rounds: Mapping[int, Numbers]

    def per_round(self, gamma: int, kept: NDArray[np.bool_] | None = None) -> float:
        """Tokens that a round puts out, of the conversations in a mask; NaN where there is none."""
        mask = np.ones(self.names.size, dtype=np.bool_) if kept is None else kept
        rounds = float(self.rounds[gamma][mask].sum())
        return float(self.emitted[mask].sum()) / rounds if rounds else math.nan


@dataclass(frozen=True)
class Traces:
    """The traces of a run.

    Attributes:
        run: it.
        records: of its traces; none where they can't be read.
        problem: why not; None where they can, or there are none.
    """

    run: Run
    records: Sequence[TraceRecord]
    problem: str | None = None

    @classmethod
    def of(cls, run: Run) -> Traces:
        """Read the lines; a run without traces has none."""
        try:
            return cls(run, load_traces(run.path))
        except SpecbenchError as error:
            return cls(run, (), error.message)

    def replayed(self, key: GroupKey, gammas: Sequence[int]) -> ReplayedTokens | None:
        """Rounds of a group's drafter on the text of its setting.

        Args:
            key: of the group; what a drafter hits does not depend on the batch size.
            gammas: to replay.

        Returns:
            None where it was not traced as far as the longest draft.

        Raises:
            SpecbenchError: its table is missing or damaged.
        """
        setting = key.setting
        text = (setting.task, setting.temperature, setting.top_k, setting.top_p)
        wanted = (setting.target, key.drafter, text)
        fitting = (
            record
            for record in self.records
            if (record.target, record.drafter, record.setting) == wanted
            and record.gamma >= max(gammas, default=0)
        )
        record = next(fitting, None)
        return None if record is None else _replayed(self.run, record, gammas)


def _replayed(run: Run, record: TraceRecord, gammas: Sequence[int]) -> ReplayedTokens | None:
    drafts = drafts_by_request(load_trace(run.path, record), record.gamma)
    if not drafts.accept:
        return None
    positions = np.array([len(table) for table in drafts.accept], dtype=np.float64)
    rounds = [drafts.replay(gamma).rounds for gamma in gammas]
    names, (emitted, *by_gamma) = cluster_sums(drafts.conversations, positions, *rounds)
    return ReplayedTokens(
        np.asarray(names, dtype=np.str_), emitted, dict(zip(gammas, by_gamma, strict=True))
    )
