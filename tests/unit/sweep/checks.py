"""What must hold for any run on disk, and a scripted sweep's records by name."""

from __future__ import annotations

from collections.abc import Callable

from specbench.records.schema import Cell, CellRecord
from specbench.records.store import Run, load_run
from specbench.records.summary import summarize
from tests.unit.sweep.fakes import Sweep


def check_derived(run: Run) -> None:
    """Every derived field of every record equals what ``summarize`` makes of the tables now."""
    assert run.cells
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


def records(sweep: Sweep) -> dict[str, CellRecord]:
    """Every cell's record by what it is: "first", "last", 1, 3; there are some."""
    found = load_run(sweep.config.folder).cells
    assert found
    return {str(cell.baseline or cell.gamma): cell for cell in found}


def raising(error: BaseException, *cells: str) -> Callable[[Cell], None]:
    """Raise in the cells of these names (see ``records``)."""

    def check(cell: Cell) -> None:
        if str(cell.baseline or cell.gamma) in cells:
            raise error

    return check
