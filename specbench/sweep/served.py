"""One block of a sweep on servers: as any block, but records come from requests and counters.

Memory, bandwidth and energy are the server's, which may be on another machine: they are not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specbench.engine.request import Generation, Request
from specbench.records.schema import Cell, CellRecord
from specbench.records.served import Served, summarize_served
from specbench.records.served.goodput import parse_limits
from specbench.sweep.block import BlockRunner
from specbench.sweep.verdict import IDENTICAL


class ServedBlockRunner(BlockRunner):
    """Measures the cells of one block on servers."""

    def _measure(
        self, cell: Cell, cells: Sequence[Cell], requests: Sequence[Request]
    ) -> CellRecord:
        try:
            generation = self.backend.generate(cell, requests, self.limits)
            record = self._served(cell, cells, generation)
        except Exception as error:
            return self._failed(cell, error)
        self.writer.write_cell(record, None, generation.requests)
        return record

    def _served(self, cell: Cell, cells: Sequence[Cell], generation: Generation) -> CellRecord:
        plain, server = self._baselines(cells), generation.server
        if self.config.goodput is not None:
            server = {**server, "goodput_limits_ms": parse_limits(self.config.goodput)}
        fields = summarize_served(cell, generation.requests, server, plain)
        lossless, sentences = _verdict(cell, generation.requests, plain)
        fields["warnings"] = [*fields["warnings"], *generation.notes, *sentences]
        return CellRecord.of(
            cell,
            imported_from=server["kind"],
            server=server,
            lossless=lossless,
            draft_sampling=self.backend.draft_sampling(cell),
            **fields,
        )

    def _derived(self, cell: Cell, old: CellRecord, baselines: Sequence[Served]) -> dict[str, Any]:
        requests = self.writer.columns("requests", cell.cell_id)
        return summarize_served(cell, requests, old.server or {}, baselines)

    def _baselines(self, cells: Sequence[Cell]) -> list[Served]:
        return [
            (
                self.writer.columns("requests", cell.cell_id),
                self.writer.records[cell.cell_id].server or {},
            )
            for cell in cells
            if cell.is_baseline and self._is_ok(cell)
        ]


def _verdict(
    cell: Cell, requests: dict[str, list[Any]], plain: Sequence[Served]
) -> tuple[str | None, list[str]]:
    """Whether greedy answers are plain decoding's; None where they differ, or need not agree.

    Why they differ can't be told from outside: rounding flips near ties, and no logit is seen.
    """
    if cell.temperature > 0 or cell.baseline == "first" or not plain:
        return None, []
    expected = dict(zip(plain[0][0]["prompt_id"], _outputs(plain[0][0]), strict=True))
    pairs = zip(requests["prompt_id"], _outputs(requests), strict=True)
    differ = sum(answer != expected.get(prompt) for prompt, answer in pairs)
    if not differ:
        return IDENTICAL, []
    return None, [
        f"{differ} of {len(expected)} answers differ from plain decoding's; whether rounding alone "
        "explains it can't be seen from outside the server"
    ]


def _outputs(requests: Any) -> list[Any]:
    """Token ids where the server tells them, else texts."""
    ids = [None if one is None else list(one) for one in requests["output_ids"]]
    return list(requests["text"]) if None in ids else ids
