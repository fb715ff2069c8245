"""Folders of runs whose files are rewritten."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specbench.records.reading import CELLS, MANIFEST


def change_cells(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Rewrite every cell's line."""
    lines = [json.loads(line) for line in (folder / CELLS).read_text().splitlines()]
    for line in lines:
        change(line)
    (folder / CELLS).write_text("".join(json.dumps(line) + "\n" for line in lines))


def change_manifest(folder: Path, **changes: Any) -> None:
    """Replace fields of the manifest."""
    file = folder / MANIFEST
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))


def update_cells(folder: Path, **fields: Any) -> None:
    """Replace fields of every cell's line."""
    change_cells(folder, lambda line: line.update(fields))
