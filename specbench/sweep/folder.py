"""What the output folder says before anything is loaded: continue, refuse, or nothing to do.

A run is continued only if it is the same one: configuration, prompts and weights. Each is checked
as soon as it is known, the configuration before the weights are read.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.records.reading import CELLS, MANIFEST, is_torn, load_cells, load_manifest
from specbench.records.resuming import continued
from specbench.records.schema import Cell, Manifest
from specbench.records.store import RunWriter
from specbench.sweep.config import SweepConfig

REFERENCES = "references"
"""The folder of recorded greedy outputs; see ``sweep.requests``."""

LOGS = "logs"
"""The folder of what servers print that were started for the run."""

_WAY_OUT = "Choose another folder with --out, or delete this one"


def refuse_another_run(config: SweepConfig, tasks: Sequence[dict[str, Any]]) -> None:
    """Refuse a folder that holds a run of another configuration or of other prompts.

    Args:
        config: its folder may hold a run.
        tasks: what the manifest will say about the prompts.

    Raises:
        SpecbenchError: naming the keys, or the task whose prompts are others.
    """
    new = Manifest(
        name=config.folder.name,
        config=config.measurement(),
        config_hash=config.digest(),
        seed=config.seed,
        tasks=list(tasks),
    )
    refuse_another(config.folder, new)


def refuse_another(folder: Path, new: Manifest) -> None:
    """Refuse a folder whose run has not the configuration and the prompts of a manifest.

    Raises:
        SpecbenchError: naming the keys, or the task whose prompts are others.
    """
    if not (folder / MANIFEST).exists():
        return
    old = load_manifest(folder)
    continued(old, new, folder)
    before = {task.get("name"): task for task in old.tasks}
    for task in new.tasks:
        there = before.get(task["name"], {}).get("source")
        if there is not None and there != task["source"]:
            raise SpecbenchError(
                f"{folder} was measured with other prompts of {task['name']} "
                f"({_short(there)} there, {_short(task['source'])} here)",
                _WAY_OUT,
            )


def refuse_other_weights(
    folder: Path, target: Mapping[str, Any], drafters: Mapping[str, Mapping[str, Any]]
) -> None:
    """Cells of two sets of weights are not mixed in one run.

    Args:
        folder: of the run, which may not be there yet.
        target: the manifest's facts about the target.
        drafters: those about drafters with weights of their own, by SPEC.

    Raises:
        SpecbenchError: the folder's run names another SHA-256.
    """
    if not (folder / MANIFEST).exists():
        return
    there = load_manifest(folder)
    pairs = [(str(target.get("name")), there.target, target)]
    pairs += [
        (f"drafter {spec}", there.drafters.get(spec, {}), drafters[spec]) for spec in drafters
    ]
    for name, old, new in pairs:
        before, now = old.get("sha256"), new.get("sha256")
        if before and before != now and "sha256" in new:  # a server does not tell its weights
            raise SpecbenchError(
                f"{folder} was measured with other weights of {name} "
                f"(sha256 {before[:12]}, now {str(now)[:12]})",
                _WAY_OUT,
            )


def is_complete(config: SweepConfig, cells: Sequence[Cell]) -> bool:
    """Whether the folder's run has every cell and was finished, so that nothing must be loaded."""
    if config.retry_failed or not (config.folder / MANIFEST).exists():
        return False
    manifest = load_manifest(config.folder)
    if manifest.finished is None or is_torn(config.folder / CELLS):
        return False
    done = {record.cell_id for record in load_cells(config.folder)}
    dropped = {entry["cell"] for entry in manifest.dropped}  # when the target was known
    gone = {cell.block for cell in cells if cell.cell_id in dropped}
    return all(cell.cell_id in done or cell.block in gone for cell in cells)


@contextlib.contextmanager
def opened(config: SweepConfig, manifest: Manifest) -> Iterator[RunWriter]:
    """The run's writer. What a run leaves that fails before its first cell is taken away again.

    Else a prompt that is too long would leave a folder that refuses the corrected command. Only a
    folder that was empty or not there is emptied, and only while this process holds its lock.

    Raises:
        SpecbenchError: as :meth:`RunWriter.open`.
    """
    folder = config.folder
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    empty = bool(made) or (folder.is_dir() and not any(folder.iterdir()))
    try:
        with RunWriter.open(
            folder, manifest, config.resume, retry_failed=config.retry_failed
        ) as writer:
            try:
                yield writer
            except Exception:
                if empty and not writer.records:
                    _remove_all(folder)
                raise
    except Exception:
        for path in made:
            with contextlib.suppress(OSError):  # not empty
                path.rmdir()
        raise


def _remove_all(folder: Path) -> None:
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _short(source: str) -> str:
    """A source with the first 12 digits of its hash."""
    return re.sub(r"(sha256:[0-9a-f]{12})[0-9a-f]+", r"\1", source)
