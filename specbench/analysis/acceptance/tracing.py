"""Traces of a run, read without torch: alpha and tau of drafters from one pass over a text.

What a loop of any gamma would show is in each trace's line; its table gives the counts by
conversation and position that acceptance models are fitted to: those of rounds and those of a trace
are judged alike (:mod:`specbench.analysis.acceptance.verdict`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from specbench.errors import SpecbenchError
from specbench.records.reading import Run
from specbench.records.trace_summary import drafts_by_request
from specbench.records.traces import TraceRecord, load_trace, load_traces
from specbench.theory.acceptance import Sample, counts_of
from specbench.theory.clusters import Numbers


def traces_of(run: Run) -> list[TraceRecord]:
    """The traces of a run by task and temperature, those of one text together.

    Raises:
        SpecbenchError: it has none, or a line can't be read.
    """
    found = load_traces(run.path)
    if not found:
        raise SpecbenchError(
            f"no drafter was traced in {run.path}", "Name one: specbench alpha RUN --drafter SPEC"
        )
    texts = list(dict.fromkeys(trace.text_cell for trace in found))
    return sorted(found, key=lambda trace: texts.index(trace.text_cell))


def by_text(traces: Iterable[TraceRecord]) -> Iterator[list[TraceRecord]]:
    """Traces on one text each, in order."""
    for _, group in itertools.groupby(traces, key=lambda trace: trace.text_cell):
        yield list(group)


def sample_of_trace(run: Run, trace: TraceRecord, gammas: Sequence[int] = ()) -> Sample:
    """Replayed counts by conversation and position, as rounds of these gammas would give them.

    Above temperature 0 they are expectations, not whole numbers.

    Args:
        gammas: each at most the longest that was traced; by default those that were replayed.

    Raises:
        SpecbenchError: the table is missing or damaged, or a gamma is longer than the trace.
    """
    drafts = drafts_by_request(load_trace(run.path, trace), trace.gamma)
    names, where = np.unique(np.asarray(drafts.conversations, dtype=np.str_), return_inverse=True)

    def summed(by_request: Numbers) -> Numbers:
        total = np.zeros((names.size, by_request.shape[1]))
        np.add.at(total, where, by_request)
        return total

    sample = {}
    for gamma in gammas or trace.gammas:
        replayed = drafts.replay(gamma)
        counts = counts_of(names, summed(replayed.accepted), summed(replayed.evaluated))
        sample[gamma] = counts.rows(counts.evaluated[:, 0] > 0.0)
    return {gamma: counts for gamma, counts in sample.items() if counts.names.size}


def trace_document(run: Run, traces: Sequence[TraceRecord]) -> dict[str, Any]:
    """What ``--format json`` prints."""
    return {"run": run.manifest.name, "traces": [trace.model_dump(mode="json") for trace in traces]}


def trace_rows(traces: Iterable[TraceRecord]) -> list[dict[str, Any]]:
    """What ``--format csv`` prints: a row per drafter and gamma."""
    return [
        {
            "task": trace.task,
            "temperature": trace.temperature,
            "drafter": trace.drafter,
            "gamma": traced.gamma,
            **_ends("alpha", traced.alpha, traced.alpha_ci),
            **_ends("tau", traced.tau, traced.tau_ci),
            **_ends("alpha_all_gammas", trace.alpha, trace.alpha_ci),
            **_ends("position_mean", trace.position_mean, trace.position_mean_ci),
            "num_prompts": trace.num_prompts,
            "max_p": traced.max_p,
            "num_rounds": traced.num_rounds,
        }
        for trace in traces
        for traced in trace.by_gamma
    ]


def _ends(
    name: str, value: float | None, interval: tuple[float, float] | None
) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {name: value, f"{name}_low": low, f"{name}_high": high}
