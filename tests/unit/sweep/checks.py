"""What must hold for any run on disk."""

from __future__ import annotations

from specbench.records.schema import CellRecord
from specbench.records.store import Run
from specbench.records.summary import summarize


def check_derived(run: Run) -> None:
    """Every derived field of every record equals what ``summarize`` makes of the tables now."""
    tables = {
        cell.cell_id: tuple(run.columns(part, cell.cell_id) for part in ("rounds", "requests"))
        for cell in run.cells
    }
    for cell in run.cells:
        baselines = [
            tables[other.cell_id]
            for which in ("first", "last")
            for other in run.cells
            if other.block == cell.block and other.baseline == which
        ]
        assert len(baselines) == 2
        cost = cell.model_dump()["cost"]
        fresh = summarize(cell, *tables[cell.cell_id], baselines=baselines, cost=cost)
        assert set(fresh.pop("warnings")) <= set(cell.warnings)
        expected = CellRecord.of(cell.cell, **fresh)
        for name in fresh:
            assert getattr(cell, name) == getattr(expected, name), (cell.cell_id, name)


def outputs(run: Run, cell: CellRecord) -> list[list[int]]:
    """The output tokens of a cell, request by request."""
    return [list(map(int, ids)) for ids in run.requests(cell.cell_id)["output_ids"]]
