"""A run's folder from imported cells: the manifest says where every number comes from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specbench.errors import SpecbenchError
from specbench.records.importing.cells import Given, Imported
from specbench.records.importing.documents import Source
from specbench.records.provenance import command_line, package_versions, utc_now
from specbench.records.schema import Cell, CellRecord, Manifest
from specbench.records.store import RunWriter


def write(
    folder: Path,
    format: str,
    sources: Sequence[Source],
    cells: Sequence[Imported],
    given: Given,
    notes: Sequence[str],
) -> list[CellRecord]:
    """Write the run; importing the same files again writes the same cells again.

    Args:
        notes: what a reader should know, in whole sentences.

    Raises:
        SpecbenchError: the folder can't be written or holds another run.
    """
    config = {
        "format": format,
        "files": sorted(
            ({"name": source.path.name, "sha256": source.sha256} for source in sources),
            key=lambda file: (file["name"], file["sha256"]),
        ),
        **{name: value for name, value in asdict(given).items() if value is not None},
    }
    now = utc_now()
    manifest = Manifest(
        name=folder.resolve().name,
        command=command_line(),
        config=config,
        config_hash=hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest(),
        created=now,
        finished=now,
        packages={"specbench": package_versions(())["specbench"]},
        target={"name": cells[0].key["target"]},
        warnings=list(notes),
    )
    records = _records(format, cells)
    with RunWriter.open(folder, manifest) as writer:
        for record, cell in zip(records, cells, strict=True):
            writer.write_cell(record, cell.rounds, cell.requests)
    return records


def _records(format: str, cells: Sequence[Imported]) -> list[CellRecord]:
    """Records with ids of their own: cells with the same key are repeats of each other."""
    records: dict[str, CellRecord] = {}
    for cell in cells:
        start = int(cell.key.get("repeat", 0))
        for repeat in count(start):
            point = _point({**cell.key, "repeat": repeat})
            if point.cell_id not in records:
                break
        records[point.cell_id] = CellRecord.of(point, imported_from=format, **cell.fields)
    return list(records.values())


def _point(key: dict[str, Any]) -> Cell:
    """A cell's key.

    Raises:
        SpecbenchError: a file holds a value that no cell can have.
    """
    try:
        return Cell(**key)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        raise SpecbenchError(f"{name} {first['input']!r}: {first['msg']}") from error
