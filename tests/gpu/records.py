"""Reads what the stages wrote, with the standard library only: whatever is there, or nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from tests.gpu.plan import DOCTOR, FITS

Cell = dict[str, Any]


@dataclass(frozen=True)
class Records:
    """The results of a script, one run per stage."""

    out: Path

    def cells(self, run: str) -> list[Cell]:
        """The measured cells of a run, the last line of each; none if it was not measured."""
        file = self.out / run / "cells.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        latest = {cell["cell_id"]: cell for line in lines if (cell := _parsed(line))}
        return [cell for cell in latest.values() if cell.get("status") == "ok"]

    def plain(self, run: str, batch_size: int = 1) -> list[Cell]:
        """Its baselines at a batch size."""
        return [
            cell
            for cell in self.cells(run)
            if cell["drafter"] == "none" and cell["batch_size"] == batch_size
        ]

    def drafted(self, run: str, batch_size: int = 1) -> list[Cell]:
        """Its speculative cells at a batch size."""
        return [
            cell
            for cell in self.cells(run)
            if cell["drafter"] != "none" and cell["batch_size"] == batch_size
        ]

    def engines(self) -> list[str]:
        """Runs of other engines."""
        return sorted(file.parent.name for file in self.out.glob("engine-*/cells.jsonl"))

    def manifest(self, run: str) -> dict[str, Any]:
        return _document(self.out / run / "manifest.json")

    def fit(self, run: str) -> dict[str, Any]:
        """What ``specbench fit`` says of a run."""
        return _document(self.out / FITS / f"{run}.json")

    def doctor(self) -> dict[str, Any]:
        return _document(self.out / DOCTOR)


def mean_of(cells: list[Cell], field: str) -> float | None:
    """The mean of a field where it was measured."""
    values = [cell[field] for cell in cells if cell.get(field) is not None]
    return fmean(values) if values else None


def _document(file: Path) -> dict[str, Any]:
    return _parsed(file.read_text(encoding="utf-8")) if file.exists() else {}


def _parsed(text: str) -> dict[str, Any]:
    """A JSON object; an empty one for what a killed process left half written."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
