"""The tables of ``specbench alpha``: per text and drafter alpha, and tau at every gamma."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specbench.analysis.acceptance.tracing import by_text
from specbench.analysis.shown.names import counted, short_names
from specbench.cli._output import beside_label, few_prompts_note, number, print_table, with_interval
from specbench.records.conversations import rests_on_few

if TYPE_CHECKING:
    from specbench.records.traces import TraceRecord

_LABEL_WIDTH = 13
_GAMMAS_PER_TABLE = 7  # of which the columns fit beside alpha in 80 characters


def print_traces(traces: Sequence[TraceRecord]) -> None:
    """Print all texts, in the order given."""
    names = short_names(trace.drafter for trace in traces)
    for group in by_text(traces):
        text = group[0]
        title = (
            f"{text.task}, T = {text.temperature:g}: {counted(text.num_prompts or 0, 'prompt')}, "
            f"{counted(text.num_positions or 0, 'position')}"
        )
        gammas = sorted({gamma for trace in group for gamma in trace.gammas})
        for start in range(0, len(gammas), _GAMMAS_PER_TABLE):
            columns = gammas[start : start + _GAMMAS_PER_TABLE]
            rows: list[list[str]] = []
            for trace in group:
                rows += beside_label(names[trace.drafter], [_row(trace, columns)], _LABEL_WIDTH)
            headings = ("drafter", "α (95%)", "plain", *(f"γ={gamma}" for gamma in columns))
            print_table(title, headings, rows)
    print("α of the tokens that rounds evaluate, over all γ · γ=N: tokens per round, τ")
    print("plain: mean over all positions of the text, which rounds don't all evaluate")
    if any(trace.temperature > 0 for trace in traces):
        print("above T = 0 α is the mean of Σ min(p, q), for one-hot drafts of p(drafted)")
    if any(rests_on_few(trace.warnings) for trace in traces):
        print(few_prompts_note())


def _row(trace: TraceRecord, gammas: Sequence[int]) -> list[str]:
    taus = {traced.gamma: traced.tau for traced in trace.by_gamma}
    return [
        with_interval(trace.alpha, trace.alpha_ci),
        number(trace.position_mean),
        *(number(taus.get(gamma)) for gamma in gammas),
    ]
