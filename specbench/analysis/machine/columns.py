"""What cells made of the machine as people read it: columns of a table, the same everywhere.

A column that nothing is known of is left out, and :func:`unknown_of` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specbench.analysis.machine.measured import MachineUse
from specbench.analysis.shown.formats import MISSING, gigabytes, number, share


@dataclass(frozen=True)
class Column:
    """One figure of the machine.

    Attributes:
        text: of a row, a dash where it is not known.
        meaning: of the heading, under the table.
        missing: what there is no record of, where no row has it.
    """

    text: Callable[[MachineUse], str]
    meaning: str
    missing: str


def _rows(use: MachineUse) -> str:
    """Those without a drafter, and beside one."""
    known = [rows for rows in (use.rows_without, use.rows_with) if rows is not None]
    return "/".join(f"{rows:.0f}" for rows in known) or MISSING


COLUMNS = {
    "moved": Column(
        lambda use: share(use.moved),
        "moved: bytes that must move, of the measured peak bandwidth",
        "bandwidth used",
    ),
    "counted": Column(
        lambda use: share(use.counted),
        "counted: bytes that the GPU's own counter saw, of the same peak",
        "bandwidth counted by the GPU",
    ),
    "compute": Column(
        lambda use: share(use.compute, 1),
        "compute: the target's operations, of the measured matmul rate",
        "operations",
    ),
    "GB": Column(lambda use: gigabytes(use.memory_bytes), "GB: memory at its peak", "peak memory"),
    "rows": Column(
        _rows,
        "rows: that fit into memory, without the drafter/beside it",
        "rows that fit into memory",
    ),
    "J/token": Column(
        lambda use: number(use.energy_per_token_j, 3),
        "J/token: energy of the whole card per emitted token",
        "energy",
    ),
}
"""By heading."""


def known_columns(uses: Sequence[MachineUse]) -> dict[str, Column]:
    """The columns that some row has a figure in."""
    return {
        heading: column
        for heading, column in COLUMNS.items()
        if any(column.text(use) != MISSING for use in uses)
    }


def unknown_of(uses: Sequence[MachineUse]) -> list[str]:
    """A sentence that names the other columns, with the reason if the record has one for all."""
    known = known_columns(uses)
    missing = [column.missing for heading, column in COLUMNS.items() if heading not in known]
    if not missing or not uses:
        return []
    reasons = {use.uncounted for use in uses}
    reason = reasons.pop() if len(reasons) == 1 else None
    because = f" ({reason})" if reason and "counted" not in known else ""
    return [f"there is no record of {', '.join(missing)}{because}"]
