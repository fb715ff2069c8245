"""Traces of drafters on a text: their table, their line in `diagnostics/traces.jsonl`.

A trace is what `specbench alpha` writes (see `specbench.engine.teacher`): for every position of
plain decoding's output at which a draft may begin, the chance that each of its tokens is accepted.
There is one table `diagnostics/<cell_id>.parquet` per drafter and text; it is in place before the
line that names it, and the lines are written whole, so a kill leaves no half of either.

>>> columns_of([])["accept"]
[]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from specbench.errors import SpecbenchError
from specbench.records.files import disk_errors, write_durably
from specbench.records.reading import load_lines
from specbench.records.schema import Cell, CellId, CellKey
from specbench.records.store import RunWriter
from specbench.records.tables import Columns, read_table, to_arrow, to_columns, write_table

FOLDER = "diagnostics"
TRACES = Path(FOLDER) / "traces.jsonl"

TRACE = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("request", pa.int32()),  # index into the plain decoding's requests
        ("conversation", pa.string()),
        ("position", pa.int32()),  # tokens generated before the draft, as in rounds
        # per drafted token, given that those before it were accepted:
        ("accept", pa.list_(pa.float32())),  # the text's token: 0 or 1, or min(1, q / p)
        ("overlap", pa.list_(pa.float32())),  # sum of min(p, q); null at temperature 0
        ("max_p", pa.list_(pa.float32())),  # the target's largest p; of one-hot drafts above it
    ]
)


@dataclass(frozen=True)
class TracedText:
    """What one pass over a text gives.

    Attributes:
        drafts: by name of a drafter, or by cell id, its columns of ``TRACE``.
        uncertainty: the target's own, columns of `records.uncertainty`; None at temperature 0.
    """

    drafts: dict[str, Columns]
    uncertainty: Columns | None


class TracedGamma(BaseModel):
    """What a loop of one gamma would show, replayed; intervals are 95%, by conversation.

    Attributes:
        max_p: mean of the target's largest p over the evaluated positions, of one-hot drafts above
            temperature 0: their alpha is not above it.
    """

    model_config = ConfigDict(extra="allow")

    gamma: int = Field(ge=1)
    alpha: float | None = None
    alpha_ci: tuple[float, float] | None = None
    tau: float | None = None
    tau_ci: tuple[float, float] | None = None
    max_p: float | None = None
    num_rounds: float | None = None


class TraceRecord(CellKey):
    """One line of `diagnostics/traces.jsonl`; `gamma` is the longest draft that was traced.

    Attributes:
        text_cell: id of the plain decoding whose outputs were the text.
        drafter_sha256: of the drafter's weights, if it has any.
        alpha: accepted / evaluated over the rounds of all gammas; at temperature 0 the loop's own,
            above it the overlap of the positions that a loop evaluates, in expectation.
        alpha_text: the same from min(1, q / p) of the text's tokens alone: more noise.
        position_mean: plain mean over all positions, whether a loop evaluates them or not.
        num_prompts: conversations.
        num_positions: at which a draft may begin.
    """

    cell_id: CellId
    text_cell: str
    drafter_sha256: str | None = None
    draft_sampling: Literal["sampled", "one-hot"] | None = None
    alpha: float | None = None
    alpha_ci: tuple[float, float] | None = None
    alpha_text: float | None = None
    position_mean: float | None = None
    position_mean_ci: tuple[float, float] | None = None
    by_gamma: list[TracedGamma] = Field(default_factory=list)
    num_prompts: int | None = None
    num_positions: int | None = None
    warnings: list[str] = Field(default_factory=list)

    @classmethod
    def of(cls, cell: Cell, text_cell: str, **fields: Any) -> TraceRecord:
        """The line of a cell, traced on the outputs of another."""
        key = {**cell.model_dump(), "cell_id": cell.cell_id, "text_cell": text_cell}
        return cls(**{**key, **fields})

    @property
    def setting(self) -> tuple[str, float, int, float]:
        """Task, temperature, top-k and top-p."""
        return (self.task, self.temperature, self.top_k, self.top_p)

    @property
    def gammas(self) -> list[int]:
        """Those that were replayed."""
        return [traced.gamma for traced in self.by_gamma]


def columns_of(rows: Sequence[dict[str, Any]], schema: pa.Schema = TRACE) -> dict[str, list[Any]]:
    """Lines of a table as its columns."""
    return {name: [row[name] for row in rows] for name in schema.names}


def write_trace(writer: RunWriter, record: TraceRecord, columns: Columns) -> None:
    """Write a trace's table, then its line; the drafter's older trace on the same text goes.

    Raises:
        SpecbenchError: the disk is full or refuses; earlier traces stay.
    """
    table, folder = to_arrow(columns, TRACE), writer.folder / FOLDER
    old = load_traces(writer.folder)
    new = {(trace.text_cell, trace.drafter): trace for trace in [*old, record]}
    lines = "".join(f"{trace.model_dump_json()}\n" for trace in new.values())
    with disk_errors(f"the trace {record.cell_id} to {writer.folder}"):
        write_table(folder / f"{record.cell_id}.parquet", table)
        write_durably(writer.folder / TRACES, lines.encode())
        for gone in {trace.cell_id for trace in old} - {trace.cell_id for trace in new.values()}:
            (folder / f"{gone}.parquet").unlink(missing_ok=True)


def load_traces(folder: Path) -> list[TraceRecord]:
    """The traces of a run, in the order in which they were first written; may be none.

    Raises:
        SpecbenchError: a line can't be read; names the file and the line.
    """
    return load_lines(folder / TRACES, TraceRecord)


def load_trace(folder: Path, record: TraceRecord) -> dict[str, Any]:
    """The table of a trace as columns.

    Raises:
        SpecbenchError: it is missing or damaged.
    """
    file = folder / FOLDER / f"{record.cell_id}.parquet"
    try:
        return to_columns(read_table(file))
    except (OSError, pa.ArrowInvalid) as error:
        reason = "is missing" if not file.exists() else "is damaged"
        raise SpecbenchError(
            f"{file} {reason}", f"Delete {folder / TRACES} and trace again with specbench alpha"
        ) from error
