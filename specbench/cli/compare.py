"""``specbench compare``: two runs side by side, and a regression gate.

specbench compare results/before results/after
specbench compare results/before results/after --fail-below 0.95
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specbench.analysis.shown.names import some
from specbench.cli._compared_texts import (
    TEXT_NOTE,
    Verdicts,
    text_document,
    text_mark,
    text_notes,
)
from specbench.cli._output import (
    FORMAT_METAVAR,
    SYNTHETIC_MARK,
    SYNTHETIC_NOTE,
    OutputFormat,
    beside_label,
    by_task,
    number,
    print_context_note,
    print_csv,
    print_json,
    print_notes,
    print_table,
    printable,
    wrapped,
)
from specbench.errors import SpecbenchError
from specbench.records.spec_text import is_synthetic

if TYPE_CHECKING:
    from specbench.analysis.comparing import ComparedCell, Comparison, Metric, Ratio

_SPEEDS = ("t/s A", "t/s B", "B / A (95%)")
_HEADINGS = ("drafter", "T", "B", "γ", *_SPEEDS, "speedup", "α", "τ", "text")
_RATIOS: tuple[Metric, ...] = ("speedup", "alpha", "tau")
_LABEL_WIDTH = 11  # "match=first"


def compare(
    run_a: Annotated[
        Path, typer.Argument(metavar="RUN_A", help="A run's folder, or its name in results/.")
    ],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="The run to hold against it.")],
    fail_below: Annotated[
        str | None,
        typer.Option(metavar="RATIO", help="End with 1 if a cell's B / A is below this."),
    ] = None,
    backend_a: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this engine's cells of RUN_A.")
    ] = None,
    backend_b: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this engine's cells of RUN_B.")
    ] = None,
    judge: Annotated[
        bool,
        typer.Option(
            "--judge", help="Load the target to tell whether rounding explains texts that differ."
        ),
    ] = False,
    format: Annotated[
        str, typer.Option(metavar=FORMAT_METAVAR, help="How to print the comparison.")
    ] = "table",
) -> None:
    """Set two runs side by side, as a table or a gate.

    Tokens per second, speedup, alpha and tau of both, with their ratios B / A. Cells match by task,
    temperature, top-k, top-p, batch size, drafter and gamma. Intervals are 95%: speed, alpha and
    tau are paired by conversation where both runs have their rounds. What does not match (target,
    device, dtype, versions, prompts, output lengths, cells in one run only) is noted by name. An
    interval knows how prompts differ, not how a machine differs from one day to the next.

    Two engines of one run are compared with --backend-a and --backend-b. Greedy texts are compared
    token by token where both runs hold the tokens: identical, or in how many prompts they differ.
    With --judge the target is loaded and asked whether rounding explains it, as specbench run
    judges a drafter: near-tie or DIVERGED.

    With --fail-below RATIO it is a gate: exit code 1 and one line with the cells that are slower,
    those whose tokens per second B / A have their whole interval below RATIO, or the ratio itself
    where there is no interval. Cells that can't be judged end it with 1 too, on a line of their
    own: those of A that are not in B, or failed there in any repeat, and those whose output
    DIVERGED or whose numbers cannot be; so does a B that is not complete. Otherwise 0.
    """
    chosen, limit = OutputFormat.of(format), _limit(fail_below)

    from specbench.analysis.comparing import compare_runs
    from specbench.records.store import load_run

    a, b = (
        load_run(run) if backend is None else load_run(run).of_backend(backend)
        for run, backend in ((run_a, backend_a), (run_b, backend_b))
    )
    comparison = compare_runs(a, b)
    verdicts: Verdicts = {}
    if judge:
        from specbench.cli._judged_texts import judged

        verdicts = judged(a, comparison)
    if chosen == OutputFormat.JSON:
        print_json(_document(comparison, verdicts))
    elif chosen == OutputFormat.CSV:
        print_csv([_row(cell, verdicts) for cell in comparison.cells])
    else:
        _print_tables(comparison, verdicts)
    print_notes(comparison.differences)
    print_notes(text_notes(comparison, verdicts))
    if limit is None:
        return
    slower = comparison.below(limit)
    if slower:
        named = "; ".join(f"{cell.name}: {_gate(cell.gate)}" for cell in slower)
        print(printable(f"slower than {limit:g} of {comparison.a}: {named}"), file=sys.stderr)
    if comparison.not_judged:
        print(printable(f"cannot be judged: {'; '.join(comparison.not_judged)}"), file=sys.stderr)
    if slower or comparison.not_judged:
        raise typer.Exit(1)


def _limit(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not 0.0 < limit < math.inf:
        raise SpecbenchError(f"--fail-below {text!r} is no ratio", "For example: 0.95")
    return limit


def _gate(ratio: Ratio) -> str:
    if ratio.interval is None:
        return f"{number(ratio.ratio)} (no interval)"
    low, high = ratio.interval
    return f"{number(ratio.ratio)} ({low:.2f}–{high:.2f})"


def _print_tables(comparison: Comparison, verdicts: Verdicts) -> None:
    for task, cells in by_task(comparison.cells, lambda cell: cell.name).items():
        lines: list[list[str]] = []
        for cell in cells:
            lines += beside_label(cell.name.drafter, [_line(cell, verdicts)], _LABEL_WIDTH)
        print_table(task, _HEADINGS, lines, last_is_text=True)
    print(wrapped(f"A {comparison.a} · B {comparison.b} · drafter none: plain decoding", ""))
    print("t/s: tokens per second · speedup, α, τ are ratios B / A too")
    print("intervals of these and accepted / drafted: in JSON and CSV")
    print(TEXT_NOTE)
    _print_parity(comparison)
    print_context_note(cell.name.context_length for cell in comparison.cells)
    if any(is_synthetic(cell.name.drafter) for cell in comparison.cells):
        print(SYNTHETIC_NOTE)


def _print_parity(comparison: Comparison) -> None:
    """Whether acceptance is the same on both sides, and where it is not."""
    told = [cell for cell in comparison.cells if cell.parity is not None]
    if not told:
        return
    apart = [str(cell.name) for cell in told if not cell.parity]
    count = f"{len(told) - len(apart)} of {len(told)}"
    where = f"; not in {some(apart)}" if apart else ""
    print(wrapped(f"acceptance is the same, within intervals, in {count} cells{where}", ""))


def _line(cell: ComparedCell, verdicts: Verdicts) -> list[str]:
    name, ratios = cell.name, cell.ratios
    speed = ratios["tok_per_s"]
    return [
        f"{name.temperature:g}",
        name.load,
        str(name.gamma),
        number(speed.a, 1),
        number(speed.b, 1),
        _ratio(speed),
        *(_marked(metric, name.drafter) + number(ratios[metric].ratio) for metric in _RATIOS),
        text_mark(cell, verdicts),
    ]


def _marked(metric: Metric, drafter: str) -> str:
    """The mark of what was set, not measured."""
    return SYNTHETIC_MARK if metric == "alpha" and is_synthetic(drafter) else ""


def _ratio(ratio: Ratio) -> str:
    if ratio.ratio is None or ratio.interval is None:
        return number(ratio.ratio)
    low, high = (f"{end:.2f}".removeprefix("0") for end in ratio.interval)
    return f"{ratio.ratio:.2f} {low}–{high}"


def _document(comparison: Comparison, verdicts: Verdicts) -> dict[str, Any]:
    return {
        "a": comparison.a,
        "b": comparison.b,
        "cells": [
            {
                **_key(cell),
                **{
                    metric: {
                        "a": ratio.a,
                        "b": ratio.b,
                        "ratio": ratio.ratio,
                        "ratio_ci": list(ratio.interval) if ratio.interval else None,
                    }
                    for metric, ratio in cell.ratios.items()
                },
                "parity": cell.parity,
                "text": text_document(cell, verdicts),
            }
            for cell in comparison.cells
        ],
        "differences": list(comparison.differences),
        "not_judged": comparison.not_judged,
    }


def _row(cell: ComparedCell, verdicts: Verdicts) -> dict[str, Any]:
    row = _key(cell)
    for metric, ratio in cell.ratios.items():
        low, high = ratio.interval or (None, None)
        row |= {f"{metric}_a": ratio.a, f"{metric}_b": ratio.b, f"{metric}_ratio": ratio.ratio}
        row |= {f"{metric}_ratio_low": low, f"{metric}_ratio_high": high}
    row["parity"] = cell.parity
    texts = text_document(cell, verdicts)
    return row | {f"text_{name}": value for name, value in texts.items()}


def _key(cell: ComparedCell) -> dict[str, Any]:
    return {name: None if value == "" else value for name, value in cell.name._asdict().items()}
