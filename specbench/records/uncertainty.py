"""How sure the target is of its own text: `diagnostics/uncertainty.json`, where a run has it.

One entry per task and temperature above 0, means over the positions of plain decoding's output, of
the distribution p after temperature, top-k and top-p; the positions one by one are in the table
`diagnostics/<text_cell>.parquet`. `specbench alpha` writes both in passing.

[{"task": "chat", "temperature": 1.0, "text_cell": "chat-t1-b1-r0-none-first-0a1b2c",
  "num_prompts": 24, "positions": 1512, "entropy": 1.9, "second_moment": 7.2, "max_p": 0.55}]
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from specbench.errors import SpecbenchError
from specbench.records.files import disk_errors
from specbench.records.schema import CellRecord
from specbench.records.store import RunWriter
from specbench.records.tables import Columns, to_arrow, write_table

UNCERTAINTY = Path("diagnostics") / "uncertainty.json"

MOMENTS = ("entropy", "second_moment", "max_p")

POSITIONS = pa.schema(
    [
        ("prompt_id", pa.string()),
        ("request", pa.int32()),  # index into the plain decoding's requests
        ("conversation", pa.string()),
        ("position", pa.int32()),  # tokens generated before, as in rounds
        *((name, pa.float32()) for name in MOMENTS),
    ]
)


class Uncertainty(BaseModel):
    """Moments of the target's next-token distribution on one task at one temperature.

    Attributes:
        text_cell: id of the plain decoding that the positions are of, where that is known.
        num_prompts: conversations.
        positions: tokens that the means are over.
        entropy: mean of -sum p ln p, nats.
        second_moment: mean of sum p ln^2 p.
        max_p: mean of the largest p.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    task: str
    temperature: float = Field(ge=0)
    top_k: int = Field(default=0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    text_cell: str | None = None
    num_prompts: int | None = None
    positions: int = Field(ge=1)
    entropy: float = Field(ge=0)
    second_moment: float = Field(ge=0)
    max_p: float = Field(gt=0, le=1)

    @property
    def setting(self) -> tuple[str, float, int, float]:
        """What decides p: task, temperature, top-k and top-p."""
        return (self.task, self.temperature, self.top_k, self.top_p)


def write_uncertainty(writer: RunWriter, text: CellRecord, columns: Columns) -> None:
    """Write the table of a text's positions, then its entry; an older one of the same goes.

    Args:
        text: plain decoding above temperature 0.
        columns: of ``POSITIONS``; an empty table has no means, and so no entry.

    Raises:
        SpecbenchError: the disk is full or refuses, or the entries that are there can't be read.
    """
    known = {entry.setting: entry for entry in load_uncertainty(writer.folder)}
    if not len(columns["position"]):
        return
    means: dict[str, Any] = {name: float(np.mean(columns[name])) for name in MOMENTS}
    entry = Uncertainty(
        task=text.task,
        temperature=text.temperature,
        top_k=text.top_k,
        top_p=text.top_p,
        text_cell=text.cell_id,
        num_prompts=len(set(columns["conversation"])),
        positions=len(columns["position"]),
        **means,
    )
    file = writer.folder / UNCERTAINTY.parent / f"{text.cell_id}.parquet"
    with disk_errors(f"the target's entropy to {writer.folder}"):
        write_table(file, to_arrow(columns, POSITIONS))
    entries = (known | {entry.setting: entry}).values()
    writer.write_extra(UNCERTAINTY, [entry.model_dump(mode="json") for entry in entries])


def load_uncertainty(folder: Path) -> list[Uncertainty]:
    """All entries of a run; empty where it recorded none.

    Raises:
        SpecbenchError: the file can't be read.
    """
    file = folder / UNCERTAINTY
    if not file.exists():
        return []
    try:
        return TypeAdapter(list[Uncertainty]).validate_python(json.loads(file.read_bytes()))
    except (OSError, ValueError) as error:
        first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise SpecbenchError(
            f"cannot read {file}: {first}", "Delete it; the run's numbers do not depend on it"
        ) from error
