"""Writing a run so that a kill at any moment loses at most the cell being measured.

A cell's tables are written, synced and renamed first, *then* one line is appended to `cells.jsonl`:
a table without a line does not exist. Everything that can be wrong with the folder is found by
:meth:`RunWriter.open`, before the first measurement.

    with RunWriter.open(Path("results/mine"), manifest, resume=False) as writer:
        for cell in cells:
            if cell.cell_id not in writer.done:
                writer.write_cell(CellRecord.of(cell, **summary), rounds, requests)

Reading back is :func:`load_run`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from filelock import BaseFileLock

from specbench.records.files import (
    TEMPORARY_SUFFIX,
    append_durably,
    disk_errors,
    lock_folder,
    probe,
    sync_folder,
    write_durably,
)
from specbench.records.reading import (
    CELLS,
    MANIFEST,
    Run,
    list_runs,
    load_cells,
    load_manifest,
    load_run,
    load_table,
    split_torn,
)
from specbench.records.resuming import FOLDERS, continued, refuse_foreign
from specbench.records.schema import CellRecord, Manifest
from specbench.records.tables import (
    SCHEMAS,
    Columns,
    to_arrow,
    to_columns,
    write_table,
)

__all__ = ["Run", "RunWriter", "list_runs", "load_run"]


class RunWriter:
    """The one writer of a run's folder. Make one with :meth:`open`; use it as a context manager.

    `manifest` may be changed at any time; :meth:`write_manifest` puts it on disk.
    """

    def __init__(self, folder: Path, manifest: Manifest, lock: BaseFileLock) -> None:
        self.folder = folder
        self.manifest = manifest
        self._lock = lock
        self._records: dict[str, CellRecord] = {}
        self._retry: set[str] = set()

    @classmethod
    def open(
        cls, folder: Path, manifest: Manifest, resume: bool = False, *, retry_failed: bool = False
    ) -> RunWriter:
        """Start a run in a folder, or take one up where it stopped.

        A folder that holds a run of the same `config_hash` is resumed, asked or not. `resume` on a
        folder without a run starts one: a kill may have come before anything was written.

        Args:
            folder: made if missing; must be empty or hold a run of this configuration.
            manifest: of this start; on resume it keeps the old run's `created`, warnings and
                measured rates, and names what changed on the machine since.
            resume: whether the user asked to; if there is nothing to resume, the manifest warns.
            retry_failed: leave cells that failed or ran out of memory out of `done`.

        Raises:
            SpecbenchError: the folder can't be written, the disk is full, another process writes
                there, it holds something else or a run of another configuration.
        """
        with disk_errors(f"results to {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            refuse_foreign(folder)
            lock = lock_folder(folder)
        try:
            writer = cls(folder, manifest, lock)
            if (folder / MANIFEST).exists():
                writer._take_up(load_manifest(folder), retry_failed)
            elif resume:
                manifest.warnings.append(
                    f"nothing to resume in {folder}: started from the beginning"
                )
            with disk_errors(f"results to {folder}"):
                probe(folder)
                for name in FOLDERS:
                    (folder / name).mkdir(exist_ok=True)
                sync_folder(folder)
                sync_folder(folder.parent)
            writer._clean()
            writer.write_manifest()
        except BaseException:
            lock.release()
            raise
        return writer

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let another process write here. Nothing is left to flush."""
        self._lock.release()

    @property
    def done(self) -> set[str]:
        """Ids of the cells that need no measuring, those that failed included."""
        return set(self._records) - self._retry

    @property
    def records(self) -> dict[str, CellRecord]:
        """Cell id -> record of every cell with a line, in order of ending."""
        return dict(self._records)

    def columns(self, part: str, cell_id: str) -> dict[str, Any]:
        """The table "rounds" or "requests" of a written cell, as arrays and lists.

        Raises:
            SpecbenchError: it is missing or damaged.
        """
        return to_columns(load_table(self.folder, part, cell_id))

    def write_cell(
        self, record: CellRecord, rounds: Columns | None = None, requests: Columns | None = None
    ) -> None:
        """Write a finished cell: its tables first, then its line.

        A failed one has no tables; an imported one has those that its source knows.

        A cell that already has a line (a retried one) replaces it.

        Raises:
            SpecbenchError: the disk is full or refuses; earlier cells stay as they are.
            ValueError: a column is missing, or an "ok" cell comes without its tables.
        """
        tables = {"requests": requests, "rounds": rounds}
        if record.imported_from is not None:
            tables = {part: columns for part, columns in tables.items() if columns is not None}
        if record.status == "ok":
            arrow = {
                part: to_arrow(columns or {}, SCHEMAS[part]) for part, columns in tables.items()
            }
            with disk_errors(f"cell {record.cell_id} to {self.folder}"):
                for part, table in arrow.items():
                    write_table(self.folder / part / f"{record.cell_id}.parquet", table)
        if record.cell_id in self._records:
            self.update_cells([record])
        else:
            with disk_errors(f"cell {record.cell_id} to {self.folder}"):
                append_durably(self.folder / CELLS, _line(record))
            self._records[record.cell_id] = record
        self._retry.discard(record.cell_id)

    def update_cells(self, records: Iterable[CellRecord]) -> None:
        """Replace the lines of these cells, all at once; the order of lines stays.

        Raises:
            SpecbenchError: the disk refuses; the old lines stay.
            KeyError: a cell was never written.
        """
        updated = dict(self._records)
        for record in records:
            if record.cell_id not in updated:
                raise KeyError(record.cell_id)
            updated[record.cell_id] = record
        with disk_errors(f"{CELLS} in {self.folder}"):
            write_durably(
                self.folder / CELLS, b"".join(_line(record) for record in updated.values())
            )
        self._records = updated

    def write_manifest(self) -> None:
        """Put the manifest on disk, whole.

        Raises:
            SpecbenchError: the disk is full or refuses; the old one stays.
        """
        text = self.manifest.model_dump_json(indent=2) + "\n"
        with disk_errors(f"{MANIFEST} in {self.folder}"):
            write_durably(self.folder / MANIFEST, text.encode())

    def write_extra(self, relative: str | Path, content: Any) -> Path:
        """Write a side file durably: `*.json` from plain data, `*.parquet` from columns.

        Raises:
            SpecbenchError: the disk is full or refuses.
            ValueError: the path leaves the run's folder or has another suffix.
        """
        path = self.folder / relative
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise ValueError(f"{relative} lies outside the run's folder")
        with disk_errors(f"{relative} in {self.folder}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.suffix == ".json":
                text = json.dumps(content, indent=2, allow_nan=False) + "\n"
                write_durably(path, text.encode())
            elif path.suffix == ".parquet":
                write_table(path, to_arrow(content))
            else:
                raise ValueError(f"{relative} is neither .json nor .parquet")
        return path

    def _take_up(self, old: Manifest, retry_failed: bool) -> None:
        """Continue a run: same configuration only; the torn last line of a kill is dropped."""
        self.manifest = continued(old, self.manifest, self.folder)
        self._records = {record.cell_id: record for record in load_cells(self.folder)}
        if retry_failed:
            self._retry = {key for key, row in self._records.items() if row.status != "ok"}
        file = self.folder / CELLS
        if file.exists():
            whole, torn = split_torn(file.read_bytes())
            if torn:
                with disk_errors(f"{CELLS} in {self.folder}"):
                    write_durably(file, whole)

    def _clean(self) -> None:
        """Remove temporaries of a killed writer. Tables without a line are overwritten later."""
        for pattern in (f".*{TEMPORARY_SUFFIX}", f"*/.*{TEMPORARY_SUFFIX}"):
            for file in self.folder.glob(pattern):
                with contextlib.suppress(OSError):
                    file.unlink()


def _line(record: CellRecord) -> bytes:
    return record.model_dump_json().encode() + b"\n"
