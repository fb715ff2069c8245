"""Alpha without a decoding loop: plain decoding's text, then every drafter traced on it.

The text is a run's: one that is there, whose recorded outputs serve, or one of plain decoding alone
that is made here and taken up again by the next call (:mod:`specbench.sweep.texts`). Traces lie in
the run's ``diagnostics/`` (:mod:`specbench.records.traces`); one that is there for the same text,
weights and draft lengths is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from specbench.backends.base import Backend, make_backend
from specbench.drafters.base import Drafter, drafter_class
from specbench.drafters.spec import DrafterSpec
from specbench.engine.request import Request
from specbench.errors import SpecbenchError
from specbench.measure import device as machine
from specbench.records import provenance
from specbench.records.reading import load_run
from specbench.records.schema import Cell, CellRecord
from specbench.records.store import RunWriter
from specbench.records.trace_summary import summarize_trace
from specbench.records.traces import TraceRecord, load_traces, write_trace
from specbench.records.uncertainty import write_uncertainty
from specbench.sweep.block import BlockRunner
from specbench.sweep.config import SweepConfig
from specbench.sweep.folder import opened, refuse_another, refuse_other_weights
from specbench.sweep.grid import Plan, checked_specs
from specbench.sweep.report import Reporter
from specbench.sweep.requests import RequestMaker, refuse_prompts
from specbench.sweep.runner import engine_options, load_workloads, task_facts
from specbench.sweep.texts import (
    completed,
    config_of_run,
    plain_cells,
    text_folder,
    text_manifest,
    text_of,
)
from specbench.weights.shapes import is_shape
from specbench.workloads.prompt import Workload


def trace(config: SweepConfig, report: Reporter, run: Path | None = None) -> Path:
    """Trace every drafter of a configuration; returns the folder with the traces.

    Args:
        config: drafters and gammas; without a run, also what the text is made of.
        report: hears of progress.
        run: the folder of a run, whose configuration decides all but drafters, gammas and device.

    Raises:
        SpecbenchError: a drafter can't be traced, there is no text, or anything that
            :func:`specbench.sweep.runner.run` refuses.
    """
    threads = machine.set_threads(config.threads)
    recorded = None if run is None else load_run(run)
    if recorded is None:
        update = {"out": text_folder(config), "retry_failed": True}
        config = config.model_copy(update=update)
    else:
        config = config_of_run(recorded, config)
    gammas = traceable(config, report)
    workloads = load_workloads(config)
    facts = task_facts(workloads)
    manifest = recorded.manifest if recorded else text_manifest(config, facts)
    refuse_another(config.folder, manifest.model_copy(update={"tasks": facts}))
    plain = plain_cells(config, workloads)
    if recorded and not any(text_of(recorded.cells, cell) for cell in plain):
        raise SpecbenchError(
            f"{recorded.path} holds no plain decoding to trace drafters on",
            "Without a RUN, specbench alpha makes a text of its own",
        )

    backend = make_backend(config.backends[0])
    backend.load(engine_options(config), report.progress)
    try:
        backend.refuse_traces()
        backend.check([_with(cell, text, 1) for cell in plain for text in gammas])
        refuse_prompts(config, backend, workloads)
        refuse_other_weights(config.folder, backend.target_facts, {})
        if recorded is None:
            manifest = completed(manifest, backend, threads)
        with opened(config, manifest) as writer:
            tracer = Tracer(config, backend, writer, report)
            texts = tracer.texts(plain, workloads, make=recorded is None)
            for text, requests in texts:
                tracer.trace(text, requests, gammas)
            if recorded is None:
                writer.manifest.finished = provenance.utc_now()
                writer.write_manifest()
    finally:
        backend.close()
    report.finished(config.folder)
    return config.folder


def traceable(config: SweepConfig, report: Reporter) -> dict[str, list[int]]:
    """The gammas to replay of each drafter; those that it can't have are said and left out.

    Raises:
        SpecbenchError: the target has random weights, one pass can't tell a drafter's alpha, or it
            can have none of the gammas.
    """
    if is_shape(config.target):
        raise SpecbenchError(
            f"target {config.target!r} has random weights: no drafter's alpha can be told of them",
            "Give a --target with weights",
        )
    found: dict[str, list[int]] = {}
    reasons: dict[str, None] = {}
    for spec in checked_specs(config):
        _refuse_untraceable(spec)
        for gamma in sorted(config.gammas):
            reason = drafter_class(spec).impossible(
                spec, gamma=gamma, temperature=config.temperatures[0], batch_size=1
            )
            if reason is None:
                found.setdefault(spec.text, []).append(gamma)
            else:
                reasons[reason] = None
        if spec.text not in found:
            raise SpecbenchError(f"drafter {spec.text!r}: {next(reversed(reasons))}")
    for reason in reasons:
        report.message(f"left out: {reason}")
    return found


class Tracer:
    """Gets the text of each block, and the traces on it."""

    def __init__(
        self, config: SweepConfig, backend: Backend, writer: RunWriter, report: Reporter
    ) -> None:
        self.config, self.backend, self.writer, self.report = config, backend, writer, report
        self.maker = RequestMaker(config, backend, writer, report)

    def texts(
        self, plain: Sequence[Cell], workloads: Iterable[Workload], *, make: bool
    ) -> list[tuple[CellRecord, list[Request]]]:
        """The plain decoding whose outputs are the text, and its prompts, for each block.

        Args:
            plain: one cell per block.
            workloads: those of the cells.
            make: measure what is missing; else leave it out, and say so.

        Raises:
            SpecbenchError: plain decoding failed.
        """
        by_name = {workload.name: workload for workload in workloads}
        if make:
            records = self.writer.records.values()
            self._make([cell for cell in plain if text_of(records, cell) is None], by_name)
        found = []
        for cell in plain:
            text = text_of(self.writer.records.values(), cell)
            if text is None:
                where = f"{cell.task} at T = {cell.temperature:g}"
                self.report.warning(f"there is no plain decoding of {where}: it is left out")
            else:
                found.append((text, self.maker.of(by_name[cell.task])))
        return found

    def _make(self, cells: Sequence[Cell], workloads: Mapping[str, Workload]) -> None:
        """Decode plainly.

        Raises:
            SpecbenchError: it failed.
        """
        if cells:
            self.report.started(Plan(list(cells)))
        numbers = {cell.cell_id: place for place, cell in enumerate(cells, 1)}
        runner = BlockRunner(self.config, self.backend, self.writer, self.report, numbers)
        for cell in cells:
            runner.run([cell], self.maker.of(workloads[cell.task]))
            record = self.writer.records[cell.cell_id]
            if record.status != "ok":
                raise SpecbenchError(f"plain decoding of {cell.task} failed: {record.error}")

    def trace(
        self, text: CellRecord, requests: Sequence[Request], gammas: Mapping[str, list[int]]
    ) -> None:
        """Trace the drafters that are not traced on this text yet, and write what was found.

        Raises:
            SpecbenchError: the prompts are not those that the text answers.
        """
        answered = self.writer.columns("requests", text.cell_id)
        ours = [(request.prompt_id, len(request.token_ids)) for request in requests]
        if ours != list(zip(answered["prompt_id"], answered["prompt_tokens"], strict=True)):
            raise SpecbenchError(
                f"the prompts of {text.task} are not those that {self.writer.folder} answered",
                "Trace with the prompt files and the version of specbench of that run",
            )
        left = self._left(text, gammas)
        if not left:
            return
        self.report.message(f"{text.task}, T = {text.temperature:g}: tracing {', '.join(left)}")
        cells = [_with(text.cell, drafter, wanted[-1]) for drafter, wanted in left.items()]
        found = self.backend.trace(cells, requests, answered["output_ids"])
        if found.uncertainty is not None:  # before the traces: where they are it is too
            write_uncertainty(self.writer, text, found.uncertainty)
        for cell in cells:
            columns = found.drafts[cell.cell_id]
            record = TraceRecord.of(
                cell,
                text.cell_id,
                drafter_sha256=self._sha256(cell.drafter),
                draft_sampling=self.backend.draft_sampling(cell),
                **summarize_trace(columns, cell.gamma, left[cell.drafter], cell.seed),
            )
            write_trace(self.writer, record, columns)

    def _left(self, text: CellRecord, gammas: Mapping[str, list[int]]) -> dict[str, list[int]]:
        """The gammas of each drafter that has to be traced, those that it was traced for too."""
        known = {
            old.drafter: set(old.gammas)
            for old in load_traces(self.writer.folder)
            if old.text_cell == text.cell_id and old.drafter_sha256 == self._sha256(old.drafter)
        }
        left = {}
        for drafter, wanted in gammas.items():
            there = known.get(drafter, set())
            if not there.issuperset(wanted):
                left[drafter] = sorted(there.union(wanted))
        return left

    def _sha256(self, drafter: str) -> str | None:
        found: str | None = self.backend.drafter_facts.get(drafter, {}).get("sha256")
        return found


def _refuse_untraceable(spec: DrafterSpec) -> None:
    """Raises SpecbenchError if rounds of a drafter can't be replayed from one pass."""
    kind = drafter_class(spec)
    point = Cell(target="", drafter=spec.text, gamma=1, temperature=0, batch_size=1, task="")
    reason = {
        "tree": "drafts trees",
        "adaptive": "chooses its draft length as it goes",
        "chain": "has no guess of its own" if kind.guesses is Drafter.guesses else None,
    }[point.draft_form]
    if reason is not None:
        raise SpecbenchError(
            f"drafter {spec.text!r} {reason}: one pass over a text can't tell its alpha",
            "Measure it with specbench run",
        )


def _with(plain: Cell, drafter: str, gamma: int) -> Cell:
    """A drafter's cell in the block of plain decoding: the same random numbers."""
    return plain.model_copy(update={"drafter": drafter, "gamma": gamma, "baseline": None})
