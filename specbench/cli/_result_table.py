"""The tables at the end of a run: one per task, 80 columns, legible without colour.

Numbers come from the cells' records; only the theory's prediction is computed here: for chains the
closed form, for trees and adaptive drafts what was accepted depth by depth, which is marked. What a
number rests on stands beside it: intervals, the noise floor of the block's two baselines, few
prompts, the losslessness verdict.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from specbench.analysis.shown.formats import noise
from specbench.analysis.shown.names import broken, counted, gamma_label, short_names
from specbench.cli._goodput_lines import goodput_lines
from specbench.cli._output import (
    FORM_MARKS,
    SYNTHETIC_NOTE,
    alpha_mark,
    few_prompts_note,
    form_notes,
    with_interval,
    wrapped,
)
from specbench.cli._plan_text import block_title
from specbench.records.conversations import rests_on_few
from specbench.records.schema import DIVERGED
from specbench.records.speedup import is_above_tau, told_apart
from specbench.theory import by_depth, closed_form

if TYPE_CHECKING:
    from specbench.records.schema import CellRecord

_LINE = 80
_ENDS = (15, 29, 34, 40, 47, 63, 70)  # columns that the numbers end at, the first one gamma's
_HEADINGS = ("γ", "α (95%)", "τ", "c", "tok/s", "speedup (95%)", "theory")


def result_lines(records: Sequence[CellRecord]) -> list[str]:
    """The tables of all tasks, in the order in which the tasks were measured."""
    lines: list[str] = []
    for task in dict.fromkeys(record.task for record in records):
        lines += ["", *task_lines([record for record in records if record.task == task])]
    diverged = [record for record in records if record.lossless == DIVERGED]
    if diverged:
        lines += [
            "",
            f"{DIVERGED}: {counted(len(diverged), 'cell')} gave other tokens than plain decoding,",
            "and no near tie explains it.",
            "That is a bug in the engine or the drafter; their speedups mean nothing:",
            *(f"  {record.cell_id}" for record in diverged),
        ]
    return lines[1:]


def task_lines(records: Sequence[CellRecord]) -> list[str]:
    """One task's table: a heading, then per block its title and a row per drafter and gamma."""
    lines = [_row("drafter", _HEADINGS, "lossless")]
    names = short_names(record.drafter for record in records)
    several = len({record.backend for record in records}) > 1
    for block in sorted({record.block for record in records}):
        cells = [record for record in records if record.block == block]
        lines += ["", *_block_title(cells, several)]
        drafter = None
        for record in sorted(
            (cell for cell in cells if not cell.is_baseline),
            key=lambda cell: (cell.drafter, cell.gamma),
        ):
            name = names[record.drafter] if record.drafter != drafter else ""
            lines += _cell_lines(record, name)
            drafter = record.drafter
        lines += [
            f"  {cell.drafter} ({cell.baseline}) {_failure(cell)}"
            for cell in cells
            if cell.is_baseline and cell.status != "ok"
        ]
        lines += goodput_lines(cells)
    return lines + _notes(records)


def next_commands(folder: Path) -> list[str]:
    """The two commands to type after a run."""
    name = shlex.quote(str(folder))
    return ["next:", f"  specbench plot {name}", f"  specbench optimal-gamma {name}"]


def warning_lines(warnings: Sequence[str]) -> list[str]:
    """What a whole run is warned of, after an empty line."""
    lines = []
    for warning in warnings:
        lines += wrapped(f"warning: {warning}", "", "  ").splitlines()
    return ["", *lines] if lines else []


def inside_noise(record: CellRecord) -> bool:
    """Whether a speedup can't be told from none: by interval, noise floor, or without interval."""
    if record.speedup is None:
        return False
    return not told_apart(record.speedup, record.speedup_ci, record.noise_floor)


def _block_title(cells: Sequence[CellRecord], several: bool) -> list[str]:
    speeds = [cell.tok_per_s for cell in cells if cell.is_baseline and cell.tok_per_s]
    floors = [cell.noise_floor for cell in cells if cell.noise_floor is not None]
    facts = []
    if speeds:  # their mean time per token is what speedups are against
        facts.append(f"plain decoding {statistics.harmonic_mean(speeds):.1f} tok/s")
    if floors:
        facts.append(f"noise floor {noise(max(floors))}")
    title, detail = block_title(cells[0], several), ", ".join(facts)
    if not detail:
        return [title]
    one_line = f"{title}: {detail}"
    return [one_line] if len(one_line) <= 80 else [title, f"  {detail}"]


def _cell_lines(record: CellRecord, name: str) -> list[str]:
    """A cell's row, under a line of its own for a name that leaves no room for gamma."""
    gamma = gamma_label(record.draft_form, record.gamma, record.draft_length_mean)
    lines = []
    if len(name) + 1 + max(len(gamma), 2) > _ENDS[0]:
        lines, name = broken(name, _LINE), ""
    if record.status != "ok":
        return [*lines, f"{name}{gamma:>{_ENDS[0] - len(name)}}  {_failure(record)}"]
    mark, theory = FORM_MARKS[record.draft_form], _prediction(record)
    numbers = (
        gamma,
        _alpha(record),
        _number(record.tau, 2, widest=4),
        _number(record.c, 3, widest=5),
        _number(record.tok_per_s, 1, widest=6),
        "~" * inside_noise(record) + with_interval(record.speedup, record.speedup_ci),
        mark * (theory is not None) + _number(theory, 2, widest=6 - len(mark)),
    )
    return [*lines, _row(name, numbers, record.lossless or "-")]


def _alpha(record: CellRecord) -> str:
    mark = alpha_mark(record.draft_form, record.synthetic) if record.alpha is not None else ""
    return mark + with_interval(record.alpha, record.alpha_ci)


def _prediction(record: CellRecord) -> float | None:
    """The speedup if a round cost its draft time and one plain step."""
    if record.alpha is None or record.c is None:
        return None
    if record.draft_form == "chain":
        return closed_form.speedup(record.alpha, record.gamma, record.c)
    tokens, length = _tokens_by_depth(record), record.draft_length_mean
    if tokens is None or length is None:
        return None
    return closed_form.extended_speedup(tokens, length, record.c)


def _tokens_by_depth(record: CellRecord) -> float | None:
    alphas, survival = record.alpha_by_position, record.survival_by_position
    if record.draft_form == "tree":
        return None if alphas is None else by_depth.expected_tokens(alphas)
    return None if survival is None else by_depth.surviving_tokens(survival)


def _failure(record: CellRecord) -> str:
    reason = "out of memory" if record.status == "out_of_memory" else f"failed: {record.error}"
    return " ".join(reason.split())[:60]


def _notes(records: Sequence[CellRecord]) -> list[str]:
    forms = {record.draft_form for record in records if record.status == "ok"}
    notes = form_notes(forms, "theory")
    if any(record.synthetic for record in records):
        notes.append(SYNTHETIC_NOTE)
    if any(rests_on_few(record.warnings) for record in records):
        notes.append(few_prompts_note())
    if any(inside_noise(record) for record in records):
        notes.append(
            "~ not distinguishable from no speedup (interval, noise floor, or no interval)"
        )
    above = [record for record in records if is_above_tau(record.speedup, record.tau)]
    if above:
        notes.append(
            f"speedup above τ in {counted(len(above), 'cell')}: noise, no drafter can do it"
        )
    return ["", *notes] if notes else []


def _number(value: float | None, digits: int = 2, widest: int = 99) -> str:
    """A number with ``digits`` decimals, or as many fewer as keep it within ``widest``."""
    if value is None:
        return "-"
    texts = (f"{value:.{decimals}f}" for decimals in range(digits, 0, -1))
    return next((text for text in texts if len(text) <= widest), f"{value:.0f}")


def _row(name: str, numbers: Sequence[str], verdict: str) -> str:
    """Numbers end at their columns; one that is too wide pushes others until there is room."""
    line = name
    for text, end in zip(numbers, _ENDS, strict=True):
        line += " " * max(1, end - len(line) - len(text)) + text
    return f"{line} {verdict}"
