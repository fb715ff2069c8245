"""The lossless verdict across two runs: does rounding explain where their greedy texts part?

The target itself is asked, loaded as the first run had it: how close the two tokens are at a
parting, and how far its logits move with the shape of a forward, the longest verify of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from specbench.backends.base import Divergence, TieMeasure, make_backend
from specbench.engine.request import Request
from specbench.errors import SpecbenchError
from specbench.records.reading import Run
from specbench.records.schema import Cell, CellRecord
from specbench.sweep.config import SweepConfig
from specbench.sweep.folder import refuse_other_weights
from specbench.sweep.report import SilentReporter
from specbench.sweep.requests import RequestMaker
from specbench.sweep.runner import engine_options, load_workloads
from specbench.sweep.texts import config_of_run
from specbench.sweep.verdict import judge
from specbench.weights.progress import Progress


class Parted(Protocol):
    """Answers to one prompt that are not the same: token ids of either run."""

    @property
    def prompt_id(self) -> str: ...
    @property
    def a(self) -> Sequence[int]: ...
    @property
    def b(self) -> Sequence[int]: ...


def judge_partings(
    run: Run, partings: Iterable[tuple[CellRecord, Sequence[Parted]]], progress: Progress
) -> list[tuple[str | None, list[str]]]:
    """As :func:`specbench.sweep.verdict.judge`, of each cell whose texts are not another run's.

    Raises:
        SpecbenchError: the run does not tell its prompts, or its target or prompts are others now.
    """
    config = config_of_run(run, SweepConfig())
    config = config.model_copy(update={"drafters": []})
    widest = max((cell.gamma for cell in run.cells), default=0)
    backend = make_backend("native")
    backend.load(engine_options(config), progress)
    try:
        refuse_other_weights(run.path, backend.target_facts, {})
        maker = RequestMaker(config, backend, _AsRecorded(run.path), SilentReporter())
        put = [workload.put(backend.prompt_form) for workload in load_workloads(config)]
        workloads = {workload.name: workload for workload in put}
        judged = []
        for record, parted in partings:
            cell = record.cell.model_copy(update={"gamma": widest})
            made = maker.of(workloads[record.task], record.context_length)
            asked = {request.prompt_id: request for request in made}

            def measure(divergence: Divergence, cell: Cell = cell) -> TieMeasure | None:
                return backend.measure_tie(cell, divergence)

            requests = [_request(run, asked, one.prompt_id) for one in parted]
            answers = [one.a for one in parted], [one.b for one in parted]
            judged.append(judge(requests, *answers, measure))
        return judged
    finally:
        backend.close()


@dataclass(frozen=True)
class _AsRecorded:
    """A run's folder, whose recordings are read and left as they are."""

    folder: Path

    def write_extra(self, relative: str | Path, content: Any) -> Path:
        return self.folder / relative


def _request(run: Run, asked: dict[str, Request], prompt_id: str) -> Request:
    """The request of a prompt; one that was asked again has the same."""
    request = asked.get(prompt_id) or asked.get(prompt_id.rpartition("~")[0])
    if request is None:
        raise SpecbenchError(
            f"prompt {prompt_id!r} of {run.path} is not among its task's prompts now",
            "Judge with the prompt files and the version of specbench of that run",
        )
    return request
