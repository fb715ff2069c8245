"""The tables at the end of a run: one per task, 80 columns, legible without colour.

Numbers come from the cells' records; only the closed-form prediction is computed here. What a
number rests on stands beside it: intervals, the noise floor of the block's two baselines, few
prompts, the losslessness verdict.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specbench.cli._output import with_interval
from specbench.cli._plan_text import block_title
from specbench.theory import closed_form

if TYPE_CHECKING:
    from specbench.records.schema import CellRecord

_WIDTHS = (12, 2, 13, 4, 5, 6, 15, 6, 9)
_HEADINGS = ("drafter", "γ", "α (95%)", "τ", "c", "tok/s", "speedup (95%)", "theory", "lossless")
_LEFT_ALIGNED = {0, 8}
FEW_PROMPTS = "few prompts"


def result_lines(records: Sequence[CellRecord]) -> list[str]:
    """The tables of all tasks, in the order in which the tasks were measured."""
    lines: list[str] = []
    for task in dict.fromkeys(record.task for record in records):
        lines += ["", *task_lines([record for record in records if record.task == task])]
    diverged = [record for record in records if record.lossless == "DIVERGED"]
    if diverged:
        lines += [
            "",
            f"DIVERGED: {len(diverged)} cells gave other tokens than plain decoding,",
            "and no near tie explains it.",
            "That is a bug in the engine or the drafter; their speedups mean nothing:",
            *(f"  {record.cell_id}" for record in diverged),
        ]
    return lines[1:]


def task_lines(records: Sequence[CellRecord]) -> list[str]:
    """One task's table: a heading, then per block its title and a row per drafter and gamma."""
    lines = [_row(_HEADINGS).rstrip()]
    for block in sorted({record.block for record in records}):
        cells = [record for record in records if record.block == block]
        lines += ["", *_block_title(cells)]
        drafter = None
        for record in sorted(
            (cell for cell in cells if not cell.is_baseline),
            key=lambda cell: (cell.drafter, cell.gamma),
        ):
            lines += _cell_lines(record, name_it=record.drafter != drafter)
            drafter = record.drafter
        lines += [
            f"  {cell.drafter} ({cell.baseline}) {_failure(cell)}"
            for cell in cells
            if cell.is_baseline and cell.status != "ok"
        ]
    return lines + _notes(records)


def next_commands(folder: Path) -> list[str]:
    """The two commands to type after a run."""
    name = shlex.quote(str(folder))
    return ["next:", f"  specbench plot {name}", f"  specbench optimal-gamma {name}"]


def inside_noise(record: CellRecord) -> bool:
    """Whether a speedup can't be told from none: by interval, noise floor, or without interval."""
    if record.speedup is None:
        return False
    near = record.noise_floor is not None and abs(record.speedup - 1) <= record.noise_floor
    interval = record.speedup_ci
    return near or interval is None or interval[0] <= 1 <= interval[1]


def _block_title(cells: Sequence[CellRecord]) -> list[str]:
    speeds = [cell.tok_per_s for cell in cells if cell.is_baseline and cell.tok_per_s is not None]
    floors = [cell.noise_floor for cell in cells if cell.noise_floor is not None]
    facts = []
    if speeds:
        facts.append(f"plain decoding {sum(speeds) / len(speeds):.1f} tok/s")
    if floors:
        facts.append(f"noise floor ±{100 * max(floors):.1f}%")
    title, detail = block_title(cells[0]), ", ".join(facts)
    if not detail:
        return [title]
    one_line = f"{title}: {detail}"
    return [one_line] if len(one_line) <= 80 else [title, f"  {detail}"]


def _cell_lines(record: CellRecord, name_it: bool) -> list[str]:
    name = record.drafter if name_it else ""
    lines = []
    if len(name) > _WIDTHS[0]:
        lines, name = [name], ""
    if record.status != "ok":
        return [*lines, f"{name:<{_WIDTHS[0]}} {record.gamma:>{_WIDTHS[1]}}  {_failure(record)}"]
    fields = (
        name,
        str(record.gamma),
        with_interval(record.alpha, record.alpha_ci),
        _number(record.tau, 2, widest=4),
        _number(record.c, 3, widest=5),
        _number(record.tok_per_s, 1, widest=6),
        "~" * inside_noise(record) + with_interval(record.speedup, record.speedup_ci),
        _number(_prediction(record), 2, widest=6),
        record.lossless or "-",
    )
    return [*lines, _row(fields).rstrip()]


def _prediction(record: CellRecord) -> float | None:
    if record.alpha is None or record.c is None:
        return None
    return closed_form.speedup(record.alpha, record.gamma, record.c)


def _failure(record: CellRecord) -> str:
    reason = "out of memory" if record.status == "out_of_memory" else f"failed: {record.error}"
    return " ".join(reason.split())[:60]


def _rests_on_few(record: CellRecord) -> bool:
    return any(warning.startswith(FEW_PROMPTS) for warning in record.warnings)


def _notes(records: Sequence[CellRecord]) -> list[str]:
    notes = []
    if any(_rests_on_few(record) for record in records):
        notes.append(
            "few prompts: these intervals rest on fewer than 6 prompts (--prompts 6 or more)"
        )
    if any(inside_noise(record) for record in records):
        notes.append(
            "~ not distinguishable from no speedup (interval, noise floor, or no interval)"
        )
    return ["", *notes] if notes else []


def _number(value: float | None, digits: int = 2, widest: int = 99) -> str:
    """A number with ``digits`` decimals, or as many fewer as keep it within ``widest``."""
    if value is None:
        return "-"
    texts = (f"{value:.{decimals}f}" for decimals in range(digits, 0, -1))
    return next((text for text in texts if len(text) <= widest), f"{value:.0f}")


def _row(fields: Iterable[str]) -> str:
    return " ".join(
        f"{field:<{width}}" if position in _LEFT_ALIGNED else f"{field:>{width}}"
        for position, (field, width) in enumerate(zip(fields, _WIDTHS, strict=True))
    )
