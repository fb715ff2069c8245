"""The table of ``specbench fit --convention``: a run's numbers as another tool reports them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specbench.analysis.shown.names import short_names
from specbench.cli._output import (
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
)
from specbench.records.spec_text import is_synthetic

if TYPE_CHECKING:
    from specbench.analysis.others.conventions import ConventionRow, Value

_LABEL_WIDTH = 13
_PER_LINE = 8


def print_convention(
    run: str, convention: str, rows: Sequence[ConventionRow], chosen: OutputFormat
) -> None:
    """Print every group and gamma; values by position stand below their row."""
    if chosen == OutputFormat.JSON:
        print_json({"run": run, "convention": convention, "rows": [_document(r) for r in rows]})
    elif chosen == OutputFormat.CSV:
        print_csv([_flat(_document(row)) for row in rows])
    else:
        _print_tables(convention, rows)
    if all(value is None for row in rows for value in row.numbers.values()):
        print_notes([f"nothing in this run tells what {convention} reports"])


def _print_tables(convention: str, rows: Sequence[ConventionRow]) -> None:
    names = short_names(row.key.drafter for row in rows)
    single = [name for name in rows[0].numbers if not _is_list(rows, name)]
    lists = [name for name in rows[0].numbers if name not in single]
    for task, here in by_task(rows, lambda row: row.key.setting).items():
        _print_one(f"{task}, as {convention} reports it", single, here, names)
        for name in lists:
            _print_one(f"{task}: {name}", [name], here, names, heading="")
    print_context_note(row.key.setting.context_length for row in rows)
    if any(is_synthetic(row.key.drafter) for row in rows):
        print(SYNTHETIC_NOTE)


def _is_list(rows: Sequence[ConventionRow], name: str) -> bool:
    by_name = ("position", "share of rounds")
    return any(isinstance(row.numbers[name], list) for row in rows) or any(
        text in name for text in by_name
    )


def _print_one(
    title: str,
    columns: Sequence[str],
    rows: Sequence[ConventionRow],
    names: dict[str, str],
    heading: str | None = None,
) -> None:
    lines: list[list[str]] = []
    for key in dict.fromkeys(row.key for row in rows):
        cells = [
            [f"{key.setting.temperature:g}", key.setting.load, str(row.gamma)]
            + [_text(row.numbers[name]) for name in columns]
            for row in rows
            if row.key == key
        ]
        lines += beside_label(names[key.drafter], cells, _LABEL_WIDTH)
    shown = columns if heading is None else [heading]
    print_table(title, ("drafter", "T", "B", "γ", *shown), lines, last_is_text=heading is not None)


def _text(value: Value) -> str:
    if isinstance(value, list):
        shown = [number(item).removeprefix("0") for item in value[:_PER_LINE]]
        return " ".join(shown) + (" ..." if len(value) > _PER_LINE else "")
    return number(value, 3)


def _document(row: ConventionRow) -> dict[str, Any]:
    return {
        **row.key.setting._asdict(),
        "drafter": row.key.drafter,
        "gamma": row.gamma,
        **row.numbers,
    }


def _flat(document: dict[str, Any]) -> dict[str, Any]:
    return {
        name: json.dumps(value) if isinstance(value, list) else value
        for name, value in document.items()
    }
