"""The script's answer: ``summary.json`` for programs, ``summary.txt`` for people, 80 columns.

Written after every stage, so that a script that was killed leaves what it knows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.gpu.criteria import all_criteria
from tests.gpu.plan import BATCH_SIZES
from tests.gpu.records import Records, mean_of
from tests.gpu.stages import Outcome
from tests.gpu.summary_text import lines

_PLAIN_RUNS = ("8b-compile", "8b", "8b-eager", "smollm2", "smollm2-eager")
_SYNTHETIC_RUNS = ("synthetic-model", "synthetic-eagle")


@dataclass(frozen=True)
class Facts:
    """Of the whole script: when, what it was asked, which commit, what is missing."""

    started: str
    seconds: float
    command: str
    commit: str | None
    missing_packages: tuple[str, ...]
    tiny: bool


def document(facts: Facts, outcomes: Sequence[Outcome], records: Records) -> dict[str, Any]:
    """Everything as plain data; shares and ratios as numbers, missing is null."""
    return {
        **asdict(facts),
        "machine": _machine(records),
        "stages": [asdict(outcome) for outcome in outcomes],
        "plain_decoding": _plain(records),
        "synthetic_cells": _synthetic(records),
        "criteria": [asdict(criterion) for criterion in all_criteria(records)],
    }


def write(out: Path, summary: dict[str, Any]) -> None:
    """Both files, each whole or as it was before."""
    texts = {
        "summary.json": json.dumps(summary, indent=2, ensure_ascii=False) + "\n",
        "summary.txt": "\n".join(lines(summary)) + "\n",
    }
    for name, text in texts.items():
        unfinished = out / f".{name}"
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, out / name)


def _machine(records: Records) -> dict[str, Any]:
    """What doctor found that is not ok, and the rates that a run measured."""
    checks = records.doctor().get("checks", [])
    manifests = map(records.manifest, (*_PLAIN_RUNS, *_SYNTHETIC_RUNS))
    manifest = next((one for one in manifests if one.get("bandwidth_bytes_per_s")), {})
    gpu = (manifest.get("device") or {}).get("gpu") or {}
    return {
        "gpu": gpu.get("name"),
        "driver": (gpu.get("nvml") or {}).get("driver"),
        "cpu": (manifest.get("device") or {}).get("cpu"),
        "torch": (manifest.get("packages") or {}).get("torch"),
        "transformers": (manifest.get("packages") or {}).get("transformers"),
        "bandwidth_bytes_per_s": manifest.get("bandwidth_bytes_per_s"),
        "read_bandwidth_bytes_per_s": manifest.get("read_bandwidth_bytes_per_s"),
        "matmul_flops_per_s": manifest.get("matmul_flops_per_s"),
        "doubts": [
            f"{one['verdict']}: {one['name']}: {one['value']}"
            for one in checks
            if one["verdict"] != "ok"
        ],
    }


def _plain(records: Records) -> list[dict[str, Any]]:
    rows = []
    for run in (*_PLAIN_RUNS, *records.engines()):
        for batch_size in BATCH_SIZES:
            cells = records.plain(run, batch_size)
            if cells:
                rows.append(
                    {
                        "run": run,
                        "batch_size": batch_size,
                        "tok_per_s": mean_of(cells, "tok_per_s"),
                        "step_s": mean_of(cells, "itl_s"),
                        "of_peak_copy": mean_of(cells, "bandwidth_utilization"),
                        "of_peak_read": mean_of(cells, "read_bandwidth_utilization"),
                        "noise_floor": mean_of(cells, "noise_floor"),
                    }
                )
    return rows


def _synthetic(records: Records) -> list[dict[str, Any]]:
    rows = []
    for run in _SYNTHETIC_RUNS:
        predicted = {
            (group["drafter"], cell["gamma"]): cell["speedup"]
            for group in records.fit(run).get("groups", [])
            for cell in (group.get("prediction") or {}).get("held_out", [])
        }
        for cell in sorted(records.drafted(run), key=lambda one: (one["drafter"], one["gamma"])):
            rows.append(
                {
                    "run": run,
                    "drafter": cell["drafter"],
                    "gamma": cell["gamma"],
                    "predicted_speedup": predicted.get((cell["drafter"], cell["gamma"])),
                    **{name: cell.get(name) for name in ("alpha", "tau", "c", "v", "speedup")},
                }
            )
    return rows
