"""``specbench reference``: the paper's measurements, and your own in the same settings.

specbench reference
specbench reference results/t5-3b
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specbench.cli._output import (
    FORMAT_METAVAR,
    OutputFormat,
    number,
    print_csv,
    print_json,
    print_notes,
    print_table,
    with_interval,
    wrapped,
)

if TYPE_CHECKING:
    from specbench.analysis.fitted import RunFit
    from specbench.analysis.others.published import Beside, Nearest, PaperRow

_PAPER = ("drafter", "T", "γ", "α", "c", "formula", "measured")
_OWN = ("γ", "α", "c", "speedup (95%)")
_SOURCE = (
    "Left: Leviathan, Kalman and Matias 2023 (arXiv 2211.17192), table 2: T5-XXL on a TPU-v4, one "
    "prompt at a time. formula: the closed form at their alpha, gamma and c."
)


def reference(
    run: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN", help="A run's folder, or its name in results/, to stand beside it."
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar=FORMAT_METAVAR, help="How to print the table.")
    ] = "table",
) -> None:
    """Set your measurements beside those of the paper that introduced the method.

    Table 2 of Leviathan et al. 2023 is T5-XXL on translation and summarization, greedy and
    sampling, drafted by three sizes of T5. What a RUN measured with drafters of these sizes on the
    same tasks and temperatures stands to the right, at the gamma that comes nearest. To measure it:

    specbench run --target google-t5/t5-3b --drafter model:google-t5/t5-small
    --task translation,summarization --gamma 3,5,7
    """
    chosen = OutputFormat.of(format)

    from specbench.analysis.fit import fit_run
    from specbench.analysis.others.published import beside_run, load_published, same_setting
    from specbench.records.store import load_run

    fitted = fit_run(load_run(run)) if run is not None else None
    rows = load_published().measured
    own = [same_setting(row, fitted) if fitted else None for row in rows]
    lines = list(zip(rows, beside_run(rows), own, strict=True))
    if chosen == OutputFormat.JSON:
        print_json(
            {"run": fitted.name if fitted else None, "rows": [_row(*line) for line in lines]}
        )
    elif chosen == OutputFormat.CSV:
        print_csv([_row(*line) for line in lines])
    else:
        _print_tables(lines, fitted)
    if fitted is not None and not any(own):
        print_notes(
            [
                f"{fitted.name} has no translation or summarization at temperature 0 or 1 and batch"
                " 1 with a draft model whose name ends in t5-small, t5-base or t5-large"
            ]
        )


def _print_tables(
    lines: list[tuple[PaperRow, Beside, Nearest | None]], fitted: RunFit | None
) -> None:
    from specbench.analysis.others.published import PAPER_TASKS

    headings = (*_PAPER, *_OWN) if fitted else _PAPER
    for task in dict.fromkeys(row.task for row, _, _ in lines):
        cells = [_cells(*line, fitted is not None) for line in lines if line[0].task == task]
        print_table(f"{PAPER_TASKS[task]}, {task}", headings, cells)
    yours = f" Right: {fitted.name}, target {fitted.target}." if fitted else ""
    print(wrapped(_SOURCE + yours, "", ""))


def _cells(row: PaperRow, beside: Beside, own: Nearest | None, with_run: bool) -> list[str]:
    cells = [
        row.drafter,
        f"{row.temperature:g}",
        str(row.gamma),
        number(row.alpha),
        number(row.c),
        number(beside.formula_speedup, 1),
        number(row.measured_speedup, 1),
    ]
    if own is None:
        return [*cells, *["-"] * (len(_OWN) if with_run else 0)]
    point = own.point
    return [
        *cells,
        str(point.gamma),
        number(point.alpha),
        number(point.c),
        with_interval(point.speedup, point.speedup_ci),
    ]


def _row(row: PaperRow, beside: Beside, own: Nearest | None) -> dict[str, Any]:
    point = own.point if own else None
    low, high = (point.speedup_ci if point else None) or (None, None)
    return {
        **vars(row),
        "formula_speedup": beside.formula_speedup,
        "own_drafter": own.key.drafter if own else None,
        "own_gamma": point.gamma if point else None,
        "own_alpha": point.alpha if point else None,
        "own_c": point.c if point else None,
        "own_speedup": point.speedup if point else None,
        "own_speedup_low": low,
        "own_speedup_high": high,
    }
