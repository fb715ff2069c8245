"""Results of a script as the stages would have written them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Cell = dict[str, Any]


def plain(batch_size: int = 1, **fields: Any) -> Cell:
    """A baseline's line."""
    return cell("none", 0, batch_size, **fields)


def cell(drafter: str, gamma: int, batch_size: int = 1, **fields: Any) -> Cell:
    """A cell's line."""
    key = {"drafter": drafter, "gamma": gamma, "batch_size": batch_size, "status": "ok"}
    name = f"{drafter}-{gamma}-{batch_size}-{fields.get('baseline', '')}"
    return {"cell_id": name, **key, **fields}


def write_run(out: Path, name: str, *cells: Cell, **manifest: Any) -> None:
    """Write a run's lines and manifest."""
    folder = out / name
    folder.mkdir(parents=True)
    lines = "".join(json.dumps(one) + "\n" for one in cells)
    (folder / "cells.jsonl").write_text(lines)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def write_fit(out: Path, name: str, drafter: str, errors: dict[int, float]) -> None:
    """Write a fit whose γ left out were predicted with these errors."""
    (out / "fits").mkdir(parents=True, exist_ok=True)
    held_out = [
        {"gamma": gamma, "error": error, "speedup": 2 * (1 + error)}
        for gamma, error in errors.items()
    ]
    points = [{"gamma": gamma, "error_extended": error / 2} for gamma, error in errors.items()]
    group = {"drafter": drafter, "prediction": {"held_out": held_out}, "points": points}
    (out / "fits" / f"{name}.json").write_text(json.dumps({"groups": [group]}))
