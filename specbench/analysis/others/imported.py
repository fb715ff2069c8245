"""Groups of imported cells: what another tool's summary tells, in the words of a fitted group.

There are no rounds to fit, so c, v and overhead are None, and so are intervals unless the importer
could make them from a source's prompts. What is known of a gamma is what its record says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from specbench.analysis.pooling import Group
from specbench.analysis.rounds.model import MeasuredRounds, RoundShape
from specbench.records.schema import CellRecord, DraftForm
from specbench.theory.cost_model import CostFit, fit_totals

_COUNTS = ("num_rounds", "num_drafted", "num_evaluated", "num_accepted")


def is_imported(group: Group) -> bool:
    """Whether the group's cells come from another tool."""
    return any(cell.imported_from is not None for cells in group.cells.values() for cell in cells)


def summaries(group: Group) -> dict[int, dict[str, Any]]:
    """gamma -> fields as specbench.records.summary.summarize gives them, as far as they are known.

    Of several repeats counts are added up, everything else is a mean, and no interval is left.
    """
    return {gamma: joined(cells) for gamma, cells in group.cells.items()}


def pooled_alpha(fields: Mapping[int, Mapping[str, Any]]) -> float | None:
    """Alpha over all gammas: accepted / evaluated, or, of one gamma without counts, its own."""
    alphas = [summary["alpha"] for summary in fields.values()]
    if None in alphas:
        return None
    counts = [(summary["num_accepted"], summary["num_evaluated"]) for summary in fields.values()]
    if all(accepted is not None and evaluated for accepted, evaluated in counts):
        return float(sum(pair[0] for pair in counts) / sum(pair[1] for pair in counts))
    return float(fmean(alphas))


def alpha_interval(fields: Mapping[int, Mapping[str, Any]]) -> tuple[float, float] | None:
    """The pooled alpha's, which is known where one cell is all there is."""
    if len(fields) != 1:
        return None
    (summary,) = fields.values()
    found: tuple[float, float] | None = summary["alpha_ci"]
    return found


def warnings(group: Group) -> list[str]:
    """Of the group's cells and of the plain decoding beside them, each once."""
    cells = [*(cell for own in group.cells.values() for cell in own), *group.baselines]
    return list(dict.fromkeys(text for cell in cells for text in cell.warnings))


def measured_model(fields: Mapping[int, Mapping[str, Any]]) -> MeasuredRounds | None:
    """The measured speedups as a model that answers at measured gammas; None without any.

    A round's parts are not known, only its whole cost: tau / speedup, in units of T1.
    """
    known = {
        gamma: (summary["tau"], summary["speedup"])
        for gamma, summary in fields.items()
        if summary["tau"] and summary["speedup"]
    }
    if not known:
        return None
    shapes = {
        gamma: RoundShape((), 0.0, tau / speedup, 0.0) for gamma, (tau, speedup) in known.items()
    }
    return MeasuredRounds({gamma: tau for gamma, (tau, _) in known.items()}, shapes)


def round_costs(form: DraftForm, fields: Mapping[int, Mapping[str, Any]]) -> CostFit | None:
    """Costs of a round of a chain over gamma, of which only the sums can be told."""
    if form != "chain":
        return None
    return fit_totals(
        {
            gamma: summary["tau"] / summary["speedup"]
            for gamma, summary in fields.items()
            if summary["tau"] and summary["speedup"]
        }
    )


def joined(cells: Sequence[CellRecord]) -> dict[str, Any]:
    """The fields of one cell, or of repeats of it together."""
    if len(cells) == 1:
        return cells[0].model_dump()
    rows = [cell.model_dump() for cell in cells]
    joined: dict[str, Any] = {name: _mean([row[name] for row in rows]) for name in rows[0]}
    for name in _COUNTS:
        counts = [row[name] for row in rows]
        joined[name] = None if None in counts else sum(counts)
    joined["warnings"] = list(dict.fromkeys(text for row in rows for text in row["warnings"]))
    return joined


def _mean(values: Sequence[Any]) -> Any:
    """Of numbers, or place by place of lists of one length; None where one is missing."""
    if all(isinstance(value, int | float) for value in values):
        return fmean(values)
    if all(isinstance(value, list) for value in values) and len({len(v) for v in values}) == 1:
        return [_mean(column) for column in zip(*values, strict=True)]
    return None
