"""What the scripts share: the target, prompts as requests, one way to run a cell."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from specbench.backends.base import EngineOptions
from specbench.backends.native import NativeBackend
from specbench.engine.request import Generation, Limits, Request
from specbench.records.schema import Cell
from specbench.weights.progress import TerminalProgress
from specbench.workloads.load import load_workload
from specbench.workloads.render import render

TASKS = ("translation", "summarization", "code", "chat")


def load_backend(target: str | None, dtype: str) -> NativeBackend:
    """The native backend with a target on the CPU or GPU that ``auto`` finds."""
    backend = NativeBackend()
    backend.load(EngineOptions(target, dtype=dtype), TerminalProgress())
    return backend


def load_requests(backend: NativeBackend, questions: Path | None, count: int) -> list[Request]:
    """First turns of ``count`` prompts, spread evenly over categories or tasks."""
    if questions is not None:
        workloads = load_workload(str(questions), count)
    else:
        workloads = [w for task in TASKS for w in load_workload(task, count, "offline")]
    turns = itertools.zip_longest(*(workload.prompts for workload in workloads))
    prompts = [prompt for group in turns for prompt in group if prompt is not None][:count]
    return [
        Request(
            f"{prompt.task}/{prompt.id}", prompt.id, render(prompt, 0, [], backend.tokenizer),
            labels={"task": prompt.task, "category": prompt.category, "turn": 0, "source": ""},
        )
        for prompt in prompts
    ]  # fmt: skip


def cell(drafter: str, gamma: int, batch_size: int, temperature: float = 0.0) -> Cell:
    """A cell of the comparison; ``none`` is the baseline."""
    baseline = "first" if drafter == "none" else None
    return Cell(
        target="target", drafter=drafter, gamma=gamma, temperature=temperature,
        batch_size=batch_size, task="bench", baseline=baseline,
    )  # fmt: skip


def run_cell(
    backend: NativeBackend, what: Cell, requests: Sequence[Request], limits: Limits
) -> Generation:
    """One cell over requests that are prefilled already."""
    backend.check([what])
    return backend.generate(what, requests, limits)


def decode_seconds(generation: Generation) -> float:
    """Seconds of all rounds, each step once."""
    return sum(sum(times) for times in step_times(generation))


def step_times(generation: Generation) -> list[tuple[float, float, float]]:
    """(draft, verify, other) seconds of every step."""
    rounds = generation.rounds
    columns = zip(
        rounds["step"], rounds["draft_s"], rounds["verify_s"], rounds["other_s"], strict=True
    )
    return list({step: times for step, *times in columns}.values())  # type: ignore[misc]


def ignore_stops(model: torch.nn.Module) -> None:
    """Make Hugging Face's ``generate`` run to the length limit."""
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0


def left_padded(requests: Sequence[Request]) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask of a batch as ``generate`` wants it."""
    longest = max(len(request.token_ids) for request in requests)
    ids = [[0] * (longest - len(r.token_ids)) + list(r.token_ids) for r in requests]
    mask = [[0] * (longest - len(r.token_ids)) + [1] * len(r.token_ids) for r in requests]
    return torch.tensor(ids), torch.tensor(mask)


def first_of(request: Request, token: int) -> Request:
    """The request continued by its first output token."""
    return replace(request, token_ids=[*request.token_ids, token])
