"""Reading a run: the manifest, the lines of `cells.jsonl`, and the raw tables behind a cell.

A line that a kill cut short (the last one, without its newline) is not a cell and is passed over;
any other line that can't be read is named with its number. Without torch, on any machine.

>>> run = load_run("results/mine")                                             # doctest: +SKIP
>>> run.rounds(run.cells[0].cell_id)["num_accepted"].mean()                    # doctest: +SKIP
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from specbench.errors import SpecbenchError
from specbench.records.schema import SCHEMA_VERSION, CellRecord, Manifest

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MANIFEST = "manifest.json"
CELLS = "cells.jsonl"
RESULTS = Path("results")

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Run:
    """A run on disk; `cells` has every finished cell once, failed ones too, in order of ending."""

    path: Path
    manifest: Manifest
    cells: list[CellRecord]

    def rounds(self, cell_id: str) -> pd.DataFrame:
        """One row per prompt and round; columns in specbench.records.tables.

        Raises:
            SpecbenchError: no such cell, or its table is missing or damaged.
        """
        return self._table("rounds", cell_id).to_pandas()

    def requests(self, cell_id: str) -> pd.DataFrame:
        """One row per request; columns in specbench.records.tables.

        Raises:
            SpecbenchError: no such cell, or its table is missing or damaged.
        """
        return self._table("requests", cell_id).to_pandas()

    def columns(self, part: str, cell_id: str, without: Collection[str] = ()) -> dict[str, Any]:
        """The table "rounds" or "requests" of a cell as arrays, without pandas.

        Args:
            without: columns that are not needed; lists take longest.
        """
        from specbench.records.tables import to_columns

        return to_columns(self._table(part, cell_id, without))

    def checked(
        self, cell_id: str, without: Collection[str] = ()
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Rounds and requests of a cell as arrays that can be calculated with.

        Args:
            without: columns of rounds that are not needed.

        Raises:
            SpecbenchError: a table is missing or damaged, lacks a column, or holds what is no
                count and no time; names the file and the reason.
        """
        from specbench.records.table_faults import table_fault

        rounds = self.columns("rounds", cell_id, without)
        requests = self.columns("requests", cell_id)
        if (fault := table_fault(rounds, requests)) is not None:
            part, reason = fault
            raise SpecbenchError(
                f"{_file(self.path, part, cell_id)} {reason}", _way_without(self.path, cell_id)
            )
        return rounds, requests

    def cell(self, cell_id: str) -> CellRecord:
        """The record of one cell.

        Raises:
            SpecbenchError: the run has no such cell.
        """
        for record in self.cells:
            if record.cell_id == cell_id:
                return record
        raise SpecbenchError(f"no cell {cell_id!r} in {self.path}", f"See {self.path / CELLS}")

    def of_backend(self, backend: str) -> Run:
        """This run with one engine's cells alone.

        Raises:
            SpecbenchError: it has none.
        """
        known = dict.fromkeys(cell.backend for cell in self.cells)
        if backend not in known:
            raise SpecbenchError(
                f"{self.path} has no cell of backend {backend!r}", f"It has {', '.join(known)}"
            )
        cells = [cell for cell in self.cells if cell.backend == backend]
        planned = self.manifest.num_cells
        if planned is not None:  # what is missing may be of any engine
            planned -= len(self.cells) - len(cells)
        manifest = self.manifest.model_copy(update={"num_cells": planned})
        return replace(self, manifest=manifest, cells=cells)

    def _table(self, part: str, cell_id: str, without: Collection[str] = ()) -> pa.Table:
        record = self.cell(cell_id)
        if record.status != "ok":
            raise SpecbenchError(
                f"cell {cell_id} has no {part}: it ended as {record.status}",
                "Run again with --resume --retry-failed",
            )
        if record.imported_from is not None and not _file(self.path, part, cell_id).exists():
            whose = f"it was imported from {record.imported_from}, whose results don't hold them"
            if record.server is not None:
                whose = f"it was measured on a server ({record.imported_from}), which tells none"
            raise SpecbenchError(f"cell {cell_id} has no {part}: {whose}")
        return load_table(self.path, part, cell_id, without)


def load_run(path: str | Path) -> Run:
    """Read a run by folder, or by its name in `results/`.

    Raises:
        SpecbenchError: no such run, or one of its files can't be read.
    """
    folder = _find(Path(path))
    return Run(folder, load_manifest(folder), load_cells(folder))


def list_runs() -> list[str]:
    """The names of the runs in `results/`, sorted."""
    return sorted(file.parent.name for file in RESULTS.glob(f"*/{MANIFEST}"))


def load_manifest(folder: Path) -> Manifest:
    """Read `manifest.json`.

    Raises:
        SpecbenchError: it can't be read, or another version of specbench gave it another shape.
    """
    file = folder / MANIFEST
    manifest = _parse(Manifest, _read(file).decode(errors="replace"), str(file))
    if manifest.schema_version != SCHEMA_VERSION:
        raise SpecbenchError(
            f"{file} has schema_version {manifest.schema_version}; "
            f"this release reads version {SCHEMA_VERSION} only",
            "Read the run with the version of specbench that wrote it",
        )
    return manifest


def load_cells(folder: Path) -> list[CellRecord]:
    """Read `cells.jsonl`; a cell that stands there twice counts once, as written last.

    Raises:
        SpecbenchError: a complete line can't be read; names the file and the line.
    """
    return list({cell.cell_id: cell for cell in load_lines(folder / CELLS, CellRecord)}.values())


def load_lines(file: Path, model: type[Model]) -> list[Model]:
    """Read a file of JSON lines; none where there is no file, and what a kill tore is left out.

    Raises:
        SpecbenchError: a complete line can't be read; names the file and the line.
    """
    if not file.exists():
        return []
    whole, _ = split_torn(_read(file))
    return [
        _parse(model, line.decode(errors="replace"), f"{file} line {number}")
        for number, line in enumerate(whole.split(b"\n"), start=1)
        if line.strip()
    ]


def load_table(folder: Path, part: str, cell_id: str, without: Collection[str] = ()) -> pa.Table:
    """Read `rounds/<cell_id>.parquet` or `requests/<cell_id>.parquet`.

    Raises:
        SpecbenchError: the file is missing or damaged.
    """
    import pyarrow as pa

    from specbench.records.tables import read_table

    file = _file(folder, part, cell_id)
    try:
        return read_table(file, without)
    except (OSError, pa.ArrowException) as error:
        reason = "is missing" if not file.exists() else "is damaged"
        raise SpecbenchError(f"{file} {reason}", _way_without(folder, cell_id)) from error


def _file(folder: Path, part: str, cell_id: str) -> Path:
    return folder / part / f"{cell_id}.parquet"


def _way_without(folder: Path, cell_id: str) -> str:
    """What to type about a cell whose tables are lost: without its line it was never measured."""
    cells = shlex.quote(str(folder / CELLS))
    pattern = cell_id.replace(".", r"\.")
    drop = f'sed -i.bak \'/"cell_id":"{pattern}"/d\' {cells}'
    command = load_manifest(folder).command
    ours = command.startswith(("specbench run", "specbench alpha"))
    again = f"`{command}`" if ours else "the `specbench run` command"
    return f"Leave the cell out with `{drop}`; {again} then measures it again"


def is_torn(file: Path) -> bool:
    """Whether a kill left half a line at the end of a file; one that is not there is whole."""
    return file.exists() and bool(split_torn(_read(file))[1])


def split_torn(content: bytes) -> tuple[bytes, bytes]:
    """Complete lines, and what a kill left behind the last newline."""
    end = content.rfind(b"\n") + 1
    return content[:end], content[end:]


def _find(path: Path) -> Path:
    for folder in (path, RESULTS / path):
        if (folder / MANIFEST).is_file():
            return folder
    runs = list_runs()
    known = f"Runs in {RESULTS}/: {', '.join(runs)}" if runs else "Start one with specbench run"
    what = f"{path} holds no run" if path.exists() else f"no run {str(path)!r}"
    raise SpecbenchError(what, known)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise SpecbenchError(f"cannot read {file}: {error.strerror}") from error


def _parse(model: type[Model], text: str, where: str) -> Model:
    try:
        return model.model_validate(json.loads(text))
    except json.JSONDecodeError as error:
        reason = f"not JSON ({error.msg} at column {error.colno})"
    except RecursionError:
        reason = "nested too deeply"
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        reason = f"{field}: {message}" if field else message
    raise SpecbenchError(f"cannot read {where}: {reason}", "Repair or delete it and resume the run")
