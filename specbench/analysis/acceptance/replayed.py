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
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.pooling import GroupKey, RawTables
from specbench.errors import SpecbenchError
from specbench.records.conversations import conversations_of
from specbench.records.reading import Run, is_torn
from specbench.records.steps import numbers
from specbench.records.trace_summary import drafts_by_request
from specbench.records.traces import TRACES, TraceRecord, load_trace, load_traces
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
        tables: its tables.
        records: of its traces; none where they can't be read.
        problems: why one can't be used, each once; filled as they are asked for.
    """

    run: Run
    tables: RawTables
    records: Sequence[TraceRecord]
    problems: dict[str, None] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, tables: RawTables) -> Traces:
        """Read the lines; a run without traces has none."""
        records, problem = readable_traces(run)
        return cls(run, tables, records, {} if problem is None else {problem: None})

    def check(self) -> Sequence[str]:
        """Why traces can't be used, of all that there are."""
        for record in self.records:
            try:
                self._check(record)
            except SpecbenchError as error:
                self._refuse(record.drafter, record.task, record.temperature, error.message)
        return list(self.problems)

    def replayed(self, key: GroupKey, gammas: Sequence[int]) -> ReplayedTokens | None:
        """Rounds of a group's drafter on the text of its setting.

        Args:
            key: of the group; what a drafter hits does not depend on the batch size.
            gammas: to replay.

        Returns:
            None where it was not traced as far as the longest draft, its trace can't be used, or
            prompts were padded, for traces are of prompts as they are.
        """
        setting = key.setting
        if setting.context_length is not None:
            return None
        text = (setting.task, setting.temperature, setting.top_k, setting.top_p)
        wanted = (setting.target, key.drafter, text)
        fitting = (
            record
            for record in self.records
            if (record.target, record.drafter, record.setting) == wanted
            and record.gamma >= max(gammas, default=0)
        )
        record = next(fitting, None)
        if record is None:
            return None
        try:
            self._check(record)
            return _replayed(self.run, record, gammas)
        except SpecbenchError as error:
            self.refuse(key, error.message)
            return None

    def refuse(self, key: GroupKey, reason: str) -> None:
        """Note why a group's trace is not used."""
        self._refuse(key.drafter, key.setting.task, key.setting.temperature, reason)

    def _refuse(self, drafter: str, task: str, temperature: float, reason: str) -> None:
        where = f"{task}, T = {temperature:g}"
        self.problems[f"the trace of {drafter} ({where}) cannot be used: {reason}"] = None

    def _check(self, record: TraceRecord) -> None:
        """Raises SpecbenchError if a trace is not of this run's text or weights."""
        plain = {cell.cell_id: cell for cell in self.run.cells if cell.status == "ok"}
        text = plain.get(record.text_cell)
        if text is None or not text.is_baseline:
            raise SpecbenchError(f"its text, {record.text_cell}, is not in the run")
        weights = self.run.manifest.drafters.get(record.drafter, {}).get("sha256")
        if weights is not None and record.drafter_sha256 != weights:
            raise SpecbenchError("it is of other weights than the run's")
        drafts = drafts_by_request(load_trace(self.run.path, record), record.gamma)
        _, requests = self.tables.of(text)
        conversations = conversations_of(requests)
        expected = cluster_sums(conversations, np.maximum(numbers(requests, "num_tokens") - 1, 0))
        traced = cluster_sums(drafts.conversations, [len(table) for table in drafts.accept])
        if _positions(*expected) != _positions(*traced):
            raise SpecbenchError("its positions are not those of the text")


def readable_traces(run: Run) -> tuple[Sequence[TraceRecord], str | None]:
    """The lines of a run's traces that can be read, and what can't be."""
    try:
        records = load_traces(run.path)
    except SpecbenchError as error:
        return (), f"no trace is used: {error.message}"
    if is_torn(run.path / TRACES):
        return records, f"the last line of {TRACES} is cut short, and its trace is left out"
    return records, None


def _positions(names: NDArray[np.str_], sums: Sequence[Numbers]) -> dict[str, float]:
    counted = zip(names.tolist(), sums[0].tolist(), strict=True)
    return {name: count for name, count in counted if count}


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
