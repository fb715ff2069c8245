"""Traces of a run, read without torch: alpha and tau of drafters from one pass over a text.

What a loop of any gamma would show is in each trace's line.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from specbench.analysis.shown.documents import two_columns
from specbench.errors import SpecbenchError
from specbench.records.reading import Run
from specbench.records.traces import TraceRecord, load_traces


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
            **_value("alpha", traced.alpha, traced.alpha_ci),
            **_value("tau", traced.tau, traced.tau_ci),
            **_value("alpha_all_gammas", trace.alpha, trace.alpha_ci),
            **_value("position_mean", trace.position_mean, trace.position_mean_ci),
            "num_prompts": trace.num_prompts,
            "max_p": traced.max_p,
            "num_rounds": traced.num_rounds,
        }
        for trace in traces
        for traced in trace.by_gamma
    ]


def _value(
    name: str, value: float | None, interval: tuple[float, float] | None
) -> dict[str, float | None]:
    return {name: value, **two_columns(name, interval)}
