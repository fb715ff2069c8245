"""The folder of a text: plain decoding alone, which drafters are traced on later.

It is a run like any other whose only cells are baselines. Drafters and draft lengths don't decide
what plain decoding says, so they are no part of its configuration: a drafter that is added later
finds the text where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from specbench.backends.base import Backend
from specbench.errors import SpecbenchError
from specbench.measure import device as machine
from specbench.records import provenance
from specbench.records.reading import Run
from specbench.records.schema import BASELINE_DRAFTER, Cell, CellRecord, Manifest
from specbench.sweep.config import SweepConfig, digest_of
from specbench.workloads.prompt import Workload

_NOT_TEXT = {"drafters", "gammas", "batch_sizes", "repeats", "backends"}


def text_folder(config: SweepConfig) -> Path:
    """``out``, else ``results/<target>-alpha-<8 hex>``: the same for the same text."""
    if config.out is not None:
        return config.out
    short = config.folder.name.rpartition("-")[0]
    return Path("results") / f"{short}-alpha-{digest_of(_measurement(config))[:8]}"


def text_manifest(config: SweepConfig, tasks: Sequence[dict[str, Any]]) -> Manifest:
    """The manifest of a text, as far as it is known before anything is loaded.

    Args:
        config: with the text's folder as ``out``.
        tasks: facts about the prompts.
    """
    values = _measurement(config)
    return Manifest(
        name=config.folder.name,
        config=values,
        config_hash=digest_of(values),
        seed=config.seed,
        tasks=list(tasks),
    )


def completed(manifest: Manifest, backend: Backend, threads: int) -> Manifest:
    """The same with what is known of target and machine."""
    facts = {
        **provenance.collect(),
        "threads": threads,
        "target": backend.target_facts,
        "device": machine.describe(backend.device),
        "warnings": list(backend.notices),
    }
    return Manifest(**{**manifest.model_dump(), **facts})


def config_of_run(run: Run, asked: SweepConfig) -> SweepConfig:
    """A run's configuration with the drafters, gammas, device and threads that are asked for.

    The text is read in the dtype that it was written in, since rounding may differ in another.

    Raises:
        SpecbenchError: the run does not say how its text was made.
    """
    fields = set(SweepConfig.model_fields)
    known = {name: value for name, value in run.manifest.config.items() if name in fields}
    if "tasks" not in known:
        raise SpecbenchError(
            f"{run.path} does not say which prompts it was measured with",
            "Trace a run of specbench run or specbench alpha",
        )
    known |= {name: getattr(asked, name) for name in ("drafters", "gammas", "device", "threads")}
    known |= {"dtype": run.manifest.target.get("dtype") or known.get("dtype", "auto")}
    return SweepConfig(**{**known, "out": run.path})


def plain_cells(config: SweepConfig, workloads: Iterable[Workload]) -> list[Cell]:
    """Plain decoding of every task and temperature, at batch size 1."""
    return [
        Cell(
            target=config.target_name,
            drafter=BASELINE_DRAFTER,
            gamma=0,
            temperature=temperature,
            top_k=config.top_k,
            top_p=config.top_p,
            batch_size=1,
            task=workload.name,
            backend=config.backends[0],
            seed=config.seed,
            baseline="first",
        )
        for workload in workloads
        for temperature in config.temperatures
    ]


def text_of(records: Iterable[CellRecord], cell: Cell) -> CellRecord | None:
    """The finished plain decoding that is a cell's text: at the smallest batch size, the first."""
    plain = [
        record
        for record in records
        if record.is_baseline
        and record.status == "ok"
        and (record.task, record.temperature) == (cell.task, cell.temperature)
        and (record.top_k, record.top_p) == (cell.top_k, cell.top_p)
        and record.context_length == cell.context_length
    ]
    plain.sort(key=lambda text: (text.batch_size, text.repeat, text.baseline != "first"))
    return plain[0] if plain else None


def _measurement(config: SweepConfig) -> dict[str, Any]:
    """What decides the text, as plain JSON values."""
    values = {name: value for name, value in config.measurement().items() if name not in _NOT_TEXT}
    return values | {"text_only": True}
