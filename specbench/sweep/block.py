"""One block of a sweep: baseline, cells in random order, baseline; each written when it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from specbench.backends.base import Backend, Divergence, TieMeasure
from specbench.engine.request import Generation, Request
from specbench.errors import SpecbenchError
from specbench.records.schema import Cell, CellRecord
from specbench.records.store import RunWriter
from specbench.records.summary import summarize
from specbench.records.tables import Columns
from specbench.sweep.config import SweepConfig
from specbench.sweep.failures import in_one_line, status_of
from specbench.sweep.report import Reporter
from specbench.sweep.requests import limits_of
from specbench.sweep.verdict import DIVERGED, judge
from specbench.sweep.watching import CellWatch

Tables = tuple[Columns, Columns]


class BlockRunner:
    """Measures the cells of one block and derives their records.

    Args:
        numbers: position of each cell in the whole sweep, for progress.
    """

    def __init__(
        self,
        config: SweepConfig,
        backend: Backend,
        writer: RunWriter,
        report: Reporter,
        numbers: Mapping[str, int],
    ) -> None:
        self.config = config
        self.backend = backend
        self.writer = writer
        self.report = report
        self.numbers = numbers
        self.limits = limits_of(config, backend)

    def run(
        self,
        cells: Sequence[Cell],
        requests: Sequence[Request],
        turn: Sequence[Cell] | None = None,
    ) -> None:
        """Measure what is not done yet, then fill in what needs both baselines.

        Args:
            cells: of the whole block.
            requests: the block's prompts.
            turn: the cells whose turn it is, if not all: an engine may want other blocks' between.
        """
        left = [cell for cell in turn or cells if cell.cell_id not in self.writer.done]
        try:
            broken = self._begin(requests, left)
            for cell in left:
                self.report.cell_started(cell, self.numbers[cell.cell_id], len(self.numbers))
                if broken is None:
                    record = self._measure(cell, cells, requests)
                else:
                    record = self._failed(cell, broken)
                self.report.cell_finished(record)
        finally:
            self.backend.end_block()
        self.settle(cells)

    def _begin(self, requests: Sequence[Request], cells: Sequence[Cell]) -> Exception | None:
        """Prefill and warm up; what went wrong, which is then the fate of all cells."""
        try:
            self.backend.begin_block(requests, cells, self.limits)
        except Exception as error:
            return error
        return None

    def _measure(
        self, cell: Cell, cells: Sequence[Cell], requests: Sequence[Request]
    ) -> CellRecord:
        """Run one cell and write it; a failure is written too."""
        watch = CellWatch(self.backend)
        try:
            with watch:
                generation = self.backend.generate(cell, requests, self.limits)
        except Exception as error:
            return self._failed(cell, error)
        try:
            record = self._record(cell, cells, requests, generation)
        except SpecbenchError:  # the baseline's tables cannot be read back
            raise
        except Exception as error:
            return self._failed(cell, error)
        record = record.updated(**watch.fields(record, generation))
        self.writer.write_cell(record, generation.rounds, generation.requests)
        return record

    def _record(
        self,
        cell: Cell,
        cells: Sequence[Cell],
        requests: Sequence[Request],
        generation: Generation,
    ) -> CellRecord:
        tables = (generation.rounds, generation.requests)
        baselines = self._baselines(cells)
        cost = self._cost(cell)
        fields = summarize(cell, *tables, baselines=baselines, cost=cost)
        lossless, sentences = self._verdict(cell, baselines, requests, generation)
        fields["warnings"] = [*fields["warnings"], *generation.notes, *sentences]
        if lossless == DIVERGED:
            worst = next(text for text in sentences if text.startswith(DIVERGED))
            self.report.warning(f"{cell.cell_id} is not lossless: {worst}")
        sampling = self.backend.draft_sampling(cell)
        prefix = self.backend.shared_prefix
        return CellRecord.of(
            cell,
            lossless=lossless,
            cost=cost,
            draft_sampling=sampling,
            shared_prefix=prefix,
            **fields,
        )

    def _verdict(
        self,
        cell: Cell,
        baselines: Sequence[Tables],
        requests: Sequence[Request],
        generation: Generation,
    ) -> tuple[str | None, list[str]]:
        """Compare greedy output with the first baseline's; None where that says nothing."""
        replayed = any(generation.rounds["replayed"])
        if cell.temperature > 0 or cell.baseline == "first" or replayed or not baselines:
            return None, []
        problems: dict[str, None] = {}

        def measure(divergence: Divergence) -> TieMeasure | None:
            try:
                return self.backend.measure_tie(cell, divergence)
            except Exception as error:  # the cell was measured well; only its verdict is unknown
                problems[f"no verdict: the logit gap is not measurable: {in_one_line(error)}"] = (
                    None
                )
                return None

        expected = [list(ids) for ids in baselines[0][1]["output_ids"]]
        verdict, sentences = judge(requests, expected, generation.outputs, measure)
        return verdict, [*sentences, *problems]

    def _baselines(self, cells: Sequence[Cell]) -> list[Tables]:
        """The tables of the block's baselines that are written, first one first."""
        return [
            (
                self.writer.columns("rounds", cell.cell_id),
                self.writer.columns("requests", cell.cell_id),
            )
            for cell in cells
            if cell.is_baseline and self._is_ok(cell)
        ]

    def _cost(self, cell: Cell) -> dict[str, float | None]:
        facts = self.writer.manifest
        return {
            **self.backend.cost(cell),
            "peak_bandwidth_bytes_per_s": facts.bandwidth_bytes_per_s,
            "peak_read_bytes_per_s": facts.read_bandwidth_bytes_per_s,
            "peak_flops_per_s": facts.matmul_flops_per_s,
            "timing_s_per_step": facts.timing.get("seconds_per_step"),
        }

    def _failed(self, cell: Cell, error: Exception) -> CellRecord:
        """A failure as a record; memory is given back before the next cell."""
        if self.backend.device.startswith("cuda"):
            torch.cuda.empty_cache()
        record = CellRecord.of(
            cell,
            status=status_of(error),
            error=in_one_line(error),
        )
        self.writer.write_cell(record)
        return record

    def settle(self, cells: Sequence[Cell]) -> None:
        """Derive every record of a measured block again, now against both baselines."""
        baselines = self._baselines(cells)
        settled = []
        for cell in cells:
            if not self._is_ok(cell):
                continue
            old = self.writer.records[cell.cell_id]
            fields = self._derived(cell, old, baselines)
            fields["warnings"] = list(dict.fromkeys([*fields["warnings"], *old.warnings]))
            new = old.updated(**fields)
            if new != old:
                settled.append(new)
        if settled:
            self.writer.update_cells(settled)

    def _derived(self, cell: Cell, old: CellRecord, baselines: Sequence[Tables]) -> dict[str, Any]:
        """What follows from the tables of a written cell."""
        tables = (
            self.writer.columns("rounds", cell.cell_id),
            self.writer.columns("requests", cell.cell_id),
        )
        cost: dict[str, Any] = old.model_extra.get("cost") or {} if old.model_extra else {}
        return summarize(cell, *tables, baselines=baselines, cost=cost)

    def _is_ok(self, cell: Cell) -> bool:
        record = self.writer.records.get(cell.cell_id)
        return record is not None and record.status == "ok"
