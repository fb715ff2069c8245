"""What decoding made of the machine: bandwidth, operations, memory and energy.

One sentence on the least and the most of each, or a table with a row per drafter and gamma.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specbench.analysis.machine.columns import known_columns
from specbench.analysis.shown.formats import MISSING, span
from specbench.analysis.shown.names import short_names
from specbench.cli._output import beside_label, print_table
from specbench.records.schema import BASELINE_DRAFTER

if TYPE_CHECKING:
    from specbench.analysis.machine.measured import MachineUse

_LABEL_WIDTH = 14
_KEYS = ("drafter", "T", "B", "γ")


def machine_sentences(uses: Sequence[MachineUse]) -> list[str]:
    """The least and the most of what is known, over all cells; no sentence where nothing is."""
    told = {
        "bytes that must move need {} of the peak bandwidth": _over(uses, "moved", "{:.0%}"),
        "the GPU's counter saw {} of it": _over(uses, "counted", "{:.0%}"),
        "memory peaks at {} GB": span((_gb(use) for use in uses), "{:.2f}"),
        "{} rows fit without a drafter": _over(uses, "rows_without", "{:,.0f}"),
        "{} rows fit beside one": _over(uses, "rows_with", "{:,.0f}"),
        "an emitted token takes {} J": _over(uses, "energy_per_token_j", "{:.3g}"),
    }
    parts = [words.format(figures) for words, figures in told.items() if figures != MISSING]
    return [f"over all cells, {'; '.join(parts)}"] if parts else []


def print_machine(uses: Sequence[MachineUse]) -> None:
    """A table of the columns that the run has anything in; medians over tasks and repeats."""
    known = known_columns(uses)
    if not known:
        return
    names = short_names(use.drafter for use in uses)
    rows: list[list[str]] = []
    for use in uses:
        plain = use.drafter == BASELINE_DRAFTER
        label = "plain decoding" if plain else names[use.drafter]
        key = [f"{use.temperature:g}", str(use.batch_size), MISSING if plain else str(use.gamma)]
        figures = [column.text(use) for column in known.values()]
        rows += beside_label(label, [[*key, *figures]], _LABEL_WIDTH)
    print_table("limits: the machine, over tasks", (*_KEYS, *known), rows)
    print("\n".join(column.meaning for column in known.values()))
    print()


def machine_document(use: MachineUse) -> dict[str, Any]:
    """One row as plain data, for JSON."""
    return {
        "temperature": use.temperature,
        "batch_size": use.batch_size,
        "drafter": use.drafter,
        "gamma": use.gamma,
        "bandwidth_utilization": use.moved,
        "bandwidth_utilization_counted": use.counted,
        "compute_utilization": use.compute,
        "memory_peak_bytes": use.memory_bytes,
        "rows_without_drafter": use.rows_without,
        "rows_with_drafter": use.rows_with,
        "energy_per_token_j": use.energy_per_token_j,
        "timing_share": use.timing_share,
    }


def _over(uses: Sequence[MachineUse], field: str, form: str) -> str:
    return span((getattr(use, field) for use in uses), form)


def _gb(use: MachineUse) -> float | None:
    return None if use.memory_bytes is None else use.memory_bytes / 1e9
