"""Runs a sweep: load, check, then block by block, every finished cell on disk before the next.

A cell that fails or runs out of memory becomes a line that says so, and the sweep goes on. A run
that was stopped continues when the same sweep is started again: finished cells are kept, the rest
measured. Nothing that the user could have got wrong is left to be found after the first
measurement.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from specbench.backends.base import Backend, EngineOptions, make_backend
from specbench.checkup import what_spoils
from specbench.engine.round import MARKS_PER_STEP
from specbench.errors import SpecbenchError
from specbench.measure import device as machine
from specbench.measure.bandwidth import copy_bandwidth, matmul_rate, read_bandwidth
from specbench.measure.clock import clock_for, seconds_per_mark
from specbench.records import provenance
from specbench.records.schema import Cell, Manifest
from specbench.records.store import RunWriter
from specbench.sweep.block import BlockRunner
from specbench.sweep.config import SweepConfig
from specbench.sweep.folder import (
    LOGS,
    is_complete,
    opened,
    refuse_another_run,
    refuse_other_weights,
)
from specbench.sweep.grid import Plan, checked_specs, plan
from specbench.sweep.report import Reporter
from specbench.sweep.requests import RequestMaker, for_batch, refuse_prompts
from specbench.sweep.served import ServedBlockRunner
from specbench.sweep.told import with_told
from specbench.workloads.load import load_workload
from specbench.workloads.prompt import Workload


def run(config: SweepConfig, report: Reporter) -> Path:
    """Measure every cell of a sweep that is not measured yet; returns the run's folder.

    Raises:
        SpecbenchError: anything wrong with names, weights, prompts or the output folder, before
            the first measurement; a full disk later, with all finished cells kept.
    """
    threads = machine.set_threads(config.threads)
    engines = {text: make_backend(text) for text in config.backends}
    config = with_told(config, engines)
    if any(engine.told is None for engine in engines.values()):
        checked_specs(config)
    workloads = load_workloads(config)
    counts = {workload.name: len(workload.prompts) for workload in workloads}
    grid = plan(config, counts, engines)
    refuse_another_run(config, task_facts(workloads))
    if is_complete(config, grid.cells):
        report.message(f"every cell of this sweep is in {config.folder} already")
        report.finished(config.folder)
        return config.folder

    notices = [*(workload.notice for workload in workloads if workload.notice), *grid.notes]
    for name, backend in engines.items():
        backend.load(engine_options(config), report.progress)
        try:
            before, grid = grid.reasons, grid.within(backend.context_limit, config, name)
            notices += [f"left out: {why}" for why in grid.reasons if why not in before]
            cells = [cell for cell in grid.cells if cell.backend == name]
            backend.check(cells)
            put = [workload.put(backend.prompt_form) for workload in workloads]
            refuse_prompts(config, backend, put, _contexts(cells))
            manifest = _manifest(config, grid, workloads, backend, threads)
            refuse_other_weights(config.folder, manifest.target, manifest.drafters)
            with opened(config, manifest) as writer:
                while notices:  # once, and when nothing is left that could be refused
                    report.message(notices.pop(0))
                _measure(config, grid, cells, put, backend, writer, report)
                if name == config.backends[-1]:
                    writer.manifest.finished = provenance.utc_now()
                    writer.write_manifest()
        finally:
            backend.close()
    report.finished(config.folder)
    return config.folder


def _measure(
    config: SweepConfig,
    grid: Plan,
    cells: Sequence[Cell],
    workloads: Sequence[Workload],
    backend: Backend,
    writer: RunWriter,
    report: Reporter,
) -> None:
    """The measuring part, with everything loaded and the folder open."""
    report.started(grid, len(writer.done & {cell.cell_id for cell in grid.cells}))
    maker = RequestMaker(config, backend, writer, report)
    by_name = {workload.name: workload for workload in workloads}
    for workload, length in itertools.product(workloads, _contexts(cells)):
        maker.of(workload, length)
    if backend.in_process and writer.manifest.bandwidth_bytes_per_s is None:
        dtype = getattr(torch, backend.target_facts["dtype"])
        writer.manifest.bandwidth_bytes_per_s = copy_bandwidth(backend.device)
        writer.manifest.read_bandwidth_bytes_per_s = read_bandwidth(backend.device)
        writer.manifest.matmul_flops_per_s = matmul_rate(backend.device, dtype)
        writer.manifest.timing = timing_facts(backend.device)
        writer.write_manifest()
    _say_what_spoils(backend.device, writer, report)
    numbers = {cell.cell_id: index for index, cell in enumerate(grid.cells, 1)}
    kind = BlockRunner if backend.in_process else ServedBlockRunner
    for block, turn in Plan(list(cells)).blocks():
        runner = kind(config, backend, writer, report, numbers)
        block_cells = [cell for cell in cells if cell.block == block]
        if all(cell.cell_id in writer.done for cell in turn):
            runner.settle(block_cells)  # a kill may have come between its last cell and this
            continue
        report.block_started(block)
        first = block_cells[0]
        requests = maker.of(by_name[first.task], first.context_length)
        runner.run(block_cells, for_batch(requests, first.batch_size), turn)
        if (
            backend.captured and backend.captured != writer.manifest.captured
        ):  # known from the first warm-up on
            writer.manifest.captured = backend.captured
            writer.write_manifest()
    writer.manifest.servers = {**writer.manifest.servers, **backend.server_facts}
    writer.write_manifest()


def _say_what_spoils(device: str, writer: RunWriter, report: Reporter) -> None:
    """Tell and record what makes times on this machine something else than its own; go on."""
    said = what_spoils(device)
    for sentence in said:
        report.warning(sentence)
    kept = writer.manifest.warnings
    writer.manifest.warnings = list(dict.fromkeys([*kept, *said]))
    writer.write_manifest()


def _contexts(cells: Iterable[Cell]) -> list[int | None]:
    """The context lengths of some cells, each once."""
    return list(dict.fromkeys(cell.context_length for cell in cells))


def engine_options(config: SweepConfig) -> EngineOptions:
    """How a sweep's target is loaded."""
    return EngineOptions(
        config.target,
        config.device,
        config.dtype,
        config.attention,
        target_quantization=config.target_quantization,
        ignore_eos=config.ignore_eos,
        engine_python=config.engine_python,
        engine_args=tuple(shlex.split(config.engine_args or "")),
        share_prefix=config.share_prefix,
        chat_template_args=config.chat_template_args,
        logs=config.folder / LOGS,
        cuda_graph=config.cuda_graph,
        compile=config.compile,
    )


def timing_facts(device: str) -> dict[str, Any]:
    """How rounds are timed, and the seconds of the host that it adds to each."""
    clock = clock_for(device)
    return {
        "method": clock.method,
        "marks_per_step": MARKS_PER_STEP,
        "seconds_per_step": MARKS_PER_STEP * seconds_per_mark(clock),
    }


def load_workloads(config: SweepConfig) -> list[Workload]:
    """Every task's prompts."""
    workloads: dict[str, Workload] = {}
    for task in config.tasks:
        for workload in load_workload(task, config.prompts, config.prompt_source):  # type: ignore[arg-type]
            if workload.name in workloads:
                raise SpecbenchError(
                    f"two tasks are called {workload.name!r}", "Rename one of the prompt files"
                )
            workloads[workload.name] = workload
    return list(workloads.values())


def _manifest(
    config: SweepConfig,
    grid: Plan,
    workloads: Sequence[Workload],
    backend: Backend,
    threads: int,
) -> Manifest:
    facts = provenance.collect()
    extra: dict[str, Any] = {"platform": facts.pop("platform"), "threads": threads}
    return Manifest(
        name=config.folder.name,
        config=config.measurement(),
        config_hash=config.digest(),
        seed=config.seed,
        device=machine.describe(backend.device) if backend.in_process else {},
        target=backend.target_facts,
        drafters=backend.drafter_facts,
        tasks=task_facts(workloads),
        servers=backend.server_facts,
        num_cells=len(grid.cells),
        dropped=grid.dropped,
        warnings=[*backend.notices, *grid.notes],
        **facts,
        **extra,
    )


def task_facts(workloads: Sequence[Workload]) -> list[dict[str, Any]]:
    return [
        {
            "name": workload.name,
            "version": workload.version,
            "source": workload.source,
            "licence": workload.licence,
            "num_prompts": len(workload.prompts),
        }
        for workload in workloads
    ]
