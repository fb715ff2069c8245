"""Every cell as it was measured, plain decoding included, and those that failed, with why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from specbench.analysis.pooling import Setting
from specbench.analysis.shown.formats import (
    MISSING,
    SYNTHETIC_NOTE,
    alpha_mark,
    gigabytes,
    goodput,
    goodput_limits,
    milliseconds,
    number,
    share,
)
from specbench.analysis.shown.names import counted, gamma_label
from specbench.records.schema import CellRecord
from specbench.report import fields
from specbench.report.material import Material
from specbench.report.parts import Field, Paragraph, Part, Rows, Table

TITLE, ORDER = "Measured cells", 90
FIGURES: tuple[str, ...] = ()

_COLUMNS: dict[str, Callable[[CellRecord], Field]] = {
    "γ": lambda cell: gamma_label(cell.draft_form, cell.gamma) if cell.gamma else MISSING,
    "repeat": lambda cell: str(cell.repeat) if cell.repeat else MISSING,
    "prompts": lambda cell: _count(cell.num_prompts),
    "rounds": lambda cell: _count(cell.num_rounds),
    "α (95%)": lambda cell: fields.measured(
        cell.alpha, cell.alpha_ci, mark=alpha_mark("chain", cell.synthetic)
    ),
    "τ": lambda cell: number(cell.tau),
    "accepted / drafted": lambda cell: number(cell.draft_acceptance_rate),
    "tok/s": lambda cell: number(cell.tok_per_s, 1),
    "speedup (95%)": lambda cell: fields.measured(cell.speedup, cell.speedup_ci),
    "end to end": lambda cell: number(cell.end_to_end_speedup),
    "first token ms": lambda cell: milliseconds(cell.ttft_s),
    "per token ms": lambda cell: milliseconds(cell.itl_s),
    "requests/s": lambda cell: number(cell.requests_per_s),
    "in time/s": lambda cell: goodput(cell.goodput_per_s, cell.goodput_share),
    "draft ms": lambda cell: milliseconds(cell.draft_s),
    "verify ms": lambda cell: milliseconds(cell.verify_s),
    "other ms": lambda cell: milliseconds(cell.other_s),
    "memory GB": lambda cell: gigabytes(cell.memory_peak_bytes),
    "bandwidth": lambda cell: share(cell.bandwidth_utilization),
    "energy J": lambda cell: number(cell.energy_j, 1),
    "lossless": lambda cell: cell.lossless or MISSING,
}
_NOTES = (
    "end to end: speedup with prefill; per token: time between output tokens; draft, verify, "
    "other: mean times of a step; bandwidth: of the measured peak",
    "a speedup's interval here is of its own conversations alone; those above hold what differs "
    "between cells too",
)
_OF_SOME_RUNS = ("repeat", "requests/s", "in time/s")
"""Columns that other runs do not lack."""

_SUSPECT = "! numbers that cannot be, or that are not those of the cell's rounds: see the warnings"


def section(material: Material) -> Sequence[Part]:
    """A table of finished cells, without the columns that this run has nothing in; failed ones."""
    finished = [cell for cell in material.run.cells if cell.status == "ok"]
    parts: list[Part] = [_finished(finished, material)] if finished else []
    if material.failed:
        parts.append(_failed(material))
    return parts or [Paragraph("No cell was measured.")]


def _finished(cells: Sequence[CellRecord], material: Material) -> Table:
    known = {
        name: field
        for name, field in _COLUMNS.items()
        if any(field(cell) != MISSING for cell in cells)
    }
    lacking = [name for name in _COLUMNS if name not in known and name not in _OF_SOME_RUNS]
    settings = dict.fromkeys(Setting.of(cell) for cell in cells)
    groups = [
        Rows(
            [
                [_name(cell, material), *(field(cell) for field in known.values())]
                for cell in sorted(cells, key=_order)
                if Setting.of(cell) == setting
            ],
            str(setting),
        )
        for setting in settings
    ]
    notes = [*_NOTES, *([f"not recorded: {', '.join(lacking)}"] if lacking else [])]
    limits = [(cell.server or {}).get("goodput_limits_ms") for cell in cells]
    notes += [
        f"in time/s: requests per second within {told}, and their share"
        for told in dict.fromkeys(goodput_limits(one) for one in limits if one)
    ]
    if any(cell.cell_id in material.suspect for cell in cells):
        notes.append(_SUSPECT)
    if any(cell.synthetic for cell in cells):
        notes.append(SYNTHETIC_NOTE)
    caption = f"{counted(len(cells), 'finished cell')}"
    return Table(caption, ("drafter", *known), groups, frozenset({"lossless"}), notes)


def _order(cell: CellRecord) -> tuple[bool, str, int, int]:
    return not cell.is_baseline, cell.drafter, cell.gamma, cell.repeat


def _name(cell: CellRecord, material: Material) -> str:
    name = material.names[cell.drafter]
    if cell.is_baseline:
        name = f"plain decoding ({cell.baseline})" if cell.baseline else "plain decoding"
    return f"! {name}" if cell.cell_id in material.suspect else name


def _failed(material: Material) -> Table:
    rows = [
        [
            _name(cell, material),
            _COLUMNS["γ"](cell),
            str(Setting.of(cell)),
            cell.status.replace("_", " "),
            " ".join((cell.error or "no error recorded").split()),
        ]
        for cell in material.failed
    ]
    columns = ("drafter", "γ", "setting", "ended as", "error")
    caption = counted(len(rows), "failed cell")
    return Table(caption, columns, [Rows(rows)], frozenset({"setting", "ended as", "error"}))


def _count(number: int | None) -> str:
    return MISSING if number is None else f"{number:,}"
