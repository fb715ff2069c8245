"""Cell records as the end of a run sees them, for the tests of tables and progress."""

from __future__ import annotations

from typing import Any

from specbench.records.schema import Cell, CellRecord


def cell(**changes: Any) -> Cell:
    return Cell(
        **{
            "target": "tiny",
            "drafter": "ngram",
            "gamma": 4,
            "temperature": 0.0,
            "batch_size": 1,
            "task": "chat",
            **changes,
        }
    )


def record(status: str = "ok", measured: dict[str, Any] | None = None, **key: Any) -> CellRecord:
    """A drafting cell: alpha 0.8, c 0.02, speedup 2 unless ``measured`` says otherwise."""
    fields: dict[str, Any] = {"status": status}
    if status == "ok":
        fields |= {
            "alpha": 0.8,
            "alpha_ci": (0.7, 0.9),
            "tau": 3.3616,
            "c": 0.02,
            "tok_per_s": 62.5,
            "speedup": 2.0,
            "speedup_ci": (1.8, 2.2),
            "noise_floor": 0.013,
            "lossless": "identical",
        }
    return CellRecord.of(cell(**key), **(fields | (measured or {})))


def baselines(**key: Any) -> list[CellRecord]:
    """The block's first and last plain decoding, at 30 and 31 tokens a second."""
    return [
        CellRecord.of(
            cell(**{**key, "drafter": "none", "gamma": 0, "baseline": which}),
            tok_per_s=speed,
            noise_floor=0.013,
        )
        for which, speed in (("first", 30.0), ("last", 31.0))
    ]
