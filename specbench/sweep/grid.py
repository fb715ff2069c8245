"""From a configuration to cells: what will be measured, in blocks, and what cannot exist.

A block is what shares its baselines: one task, temperature, batch size, context and repeat. Inside
it a baseline comes first *and* last, so that drift of the machine hits both, and the cells between
them run in an order drawn from the seed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specbench import registry
from specbench.backends.base import Backend, make_backend
from specbench.drafters.base import drafter_class
from specbench.drafters.spec import SERVER_KINDS, DrafterSpec, parse_spec
from specbench.errors import SpecbenchError
from specbench.records.schema import BASELINE_DRAFTER, Block, Cell
from specbench.records.spec_text import is_synthetic
from specbench.sweep.config import SweepConfig
from specbench.sweep.options import OPTION_FIELDS
from specbench.weights.shapes import is_shape
from specbench.workloads.load import load_workload

_AXES = {"drafters", "gammas", "temperatures", "batch_sizes", "request_rates", "context_lengths"}


@dataclass(frozen=True)
class Plan:
    """The cells of a sweep in measuring order, and the combinations that cannot exist.

    Attributes:
        cells: baselines included.
        dropped: ``{"cell": ..., "reason": ...}`` for each combination left out.
        notes: what is measured in another way than one might think.
    """

    cells: list[Cell]
    dropped: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def blocks(self) -> Iterator[tuple[Block, list[Cell]]]:
        """Consecutive cells that share their baselines, in order; an engine that has its cells
        arranged otherwise may have several such groups of one block."""
        for block, cells in itertools.groupby(self.cells, key=lambda cell: cell.block):
            yield block, list(cells)

    @property
    def reasons(self) -> list[str]:
        """Why combinations were left out, each reason once."""
        return list(dict.fromkeys(entry["reason"] for entry in self.dropped))

    def within(self, context_limit: int, config: SweepConfig, backend: str) -> Plan:
        """Without the contexts that a backend's target does not reach, listed among the dropped.

        Raises:
            SpecbenchError: no cell remains.
        """
        room = room_needed(config)
        cells: list[Cell] = []
        dropped = list(self.dropped)
        for cell in self.cells:
            length = cell.context_length
            if cell.backend != backend or length is None or length + room <= context_limit:
                cells.append(cell)
            elif not cell.is_baseline:
                reason = (
                    f"context {length} with output and draft is beyond the target's {context_limit}"
                )
                dropped.append({"cell": cell.cell_id, "reason": reason})
        return _checked(Plan(cells, dropped, self.notes), config)


def plan(
    config: SweepConfig,
    tasks: Mapping[str, int] | None = None,
    engines: Mapping[str, Backend] | None = None,
) -> Plan:
    """All cells of a sweep.

    Args:
        config: the grid's axes.
        tasks: the workloads' names and how many prompts each has, if they are loaded already;
            otherwise prompt files are read, and a task of specbench is taken to have enough.
        engines: by what the user typed, if they are made already.

    Raises:
        SpecbenchError: a drafter SPEC can't be right, or no cell remains.
    """
    engines = engines or {text: make_backend(text) for text in config.backends}
    if any(engine.told is None for engine in engines.values()):
        checked_specs(config)
    prompts = dict(tasks) if tasks is not None else _count_prompts(config)
    contexts: Sequence[int | None] = config.context_lengths or [None]
    cells: list[Cell] = []
    dropped: list[dict[str, Any]] = []
    axes = itertools.product(
        config.backends,
        prompts,
        config.temperatures,
        _loads(config),
        contexts,
        range(config.repeats),
    )
    for backend, task, temperature, (batch_size, request_rate), context_length, repeat in axes:
        shared: dict[str, Any] = {
            "target": config.target_name,
            "temperature": temperature,
            "top_k": config.top_k,
            "top_p": config.top_p,
            "batch_size": batch_size,
            "task": task,
            "backend": backend,
            "repeat": repeat,
            "seed": config.seed,
            "request_rate": request_rate,
            "context_length": context_length,
        }
        engine = engines[backend]
        block: list[Cell] = []
        for drafter, gamma in itertools.product(config.drafters, config.gammas):
            if not engine.speculates:
                break
            cell = Cell(drafter=drafter, gamma=gamma, **shared)
            reason = engine.impossible(cell) or _unpaddable(engine, context_length)
            if reason is None:
                block.append(cell)
            else:
                dropped.append({"cell": cell.cell_id, "reason": reason})
        plain = Cell(drafter=BASELINE_DRAFTER, gamma=0, **shared)
        if block or not engine.speculates:
            cells += _in_order(block, plain, with_plain=engine.decodes_plainly)
    cells = [
        cell
        for backend, engine in engines.items()
        for cell in engine.arranged([one for one in cells if one.backend == backend])
    ]
    notes = [
        f"{task}: {prompts[task]} prompts for {batch_size} slots are asked in turn, "
        f"{num_requests(prompts[task], batch_size)} requests in all"
        for task in prompts
        for batch_size in config.batch_sizes
        if prompts[task] < batch_size
    ]
    return _checked(Plan(cells, dropped, notes), config)


def _unpaddable(engine: Backend, context_length: int | None) -> str | None:
    """Why an engine's prompts can't be brought to a length; None if they can, or need not be."""
    if engine.in_process or context_length is None:
        return None
    return "a server renders its prompts: --context-length is for engines in this process"


def num_requests(prompts: int, batch_size: int) -> int:
    """Requests of a cell: each prompt, or as many as fill every slot twice if they are too few."""
    return prompts if prompts >= batch_size else 2 * batch_size


def room_needed(config: SweepConfig) -> int:
    """Tokens of a row's context that are not its prompt: the output and a draft beyond its end."""
    return config.max_new_tokens + max(config.gammas) + 1


def _checked(made: Plan, config: SweepConfig) -> Plan:
    """A plan that has cells.

    Raises:
        SpecbenchError: it has none.
    """
    if not made.cells:
        raise SpecbenchError(
            f"no cell can be measured: {'; '.join(made.reasons)}",
            f"Change {_axes(config)}",
        )
    return made


def _axes(config: SweepConfig) -> str:
    """The options that made the grid what it is: those that were given, else all."""
    fields = {
        field: f"--{option}"
        for option, field in OPTION_FIELDS.items()
        if field in _AXES | {"backends"}
    }
    given = [name for field, name in fields.items() if field in config.model_fields_set]
    *others, last = given or fields.values()
    return f"{', '.join(others)} or {last}" if others else last


def checked_specs(config: SweepConfig) -> list[DrafterSpec]:
    """The drafters' SPECs; costs nothing, so it can be asked first.

    Raises:
        SpecbenchError: one of them can't be right.
    """
    specs = [parse_spec(text) for text in config.drafters]
    for spec in specs:
        if spec.kind in SERVER_KINDS:
            continue  # for the server to say
        drafter_class(spec).check(spec)
        _refuse_random_weights(spec, config.target)
    return specs


def _loads(config: SweepConfig) -> list[tuple[int, float]]:
    """(batch size, request rate) of each block; rates alone where only they were asked for."""
    closed = [(batch_size, 0.0) for batch_size in config.batch_sizes]
    opened = [(1, rate) for rate in config.request_rates or ()]
    return [*closed, *opened] if not opened or "batch_sizes" in config.model_fields_set else opened


def _refuse_random_weights(spec: DrafterSpec, target: str | None) -> None:
    """Raises SpecbenchError if acceptance would be that of weights that mean nothing."""
    if is_synthetic(spec.text) or not (spec.has_random_weights or is_shape(target)):
        return
    whose = "drafter" if spec.has_random_weights else "target"
    raise SpecbenchError(
        f"drafter {spec.text!r} would be accepted by chance: the weights of the {whose} are random",
        f"Write synthetic:A,cost={spec.text}, which is accepted with chance A and costs its time",
    )


def _in_order(block: list[Cell], baseline: Cell, *, with_plain: bool) -> list[Cell]:
    """Baseline, the cells in seeded random order, baseline; an engine may have no baseline."""
    first, last = (baseline.model_copy(update={"baseline": end}) for end in ("first", "last"))
    shuffled = sorted(block, key=lambda cell: (cell.drafter, cell.gamma))  # however it was typed
    random.Random(f"{baseline.seed}/{baseline.block}").shuffle(shuffled)
    return [first, *shuffled, last] if with_plain else shuffled


def _count_prompts(config: SweepConfig) -> dict[str, int]:
    """Name of each workload -> how many prompts it will have, at most."""
    known = registry.names("tasks")
    counts: dict[str, int] = {}
    for task in config.tasks:
        if task in known:
            counts[task] = config.prompts
        else:
            counts |= {w.name: len(w.prompts) for w in load_workload(task, config.prompts)}
    return counts
