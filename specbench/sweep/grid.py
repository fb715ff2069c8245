"""From a configuration to cells: what will be measured, in blocks, and what cannot exist.

A block is what shares its baselines: one task, temperature, batch size and repeat. Inside it a
baseline comes first *and* last, so that drift of the machine hits both, and the cells between them
run in an order drawn from the seed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from specbench import registry
from specbench.drafters.base import drafter_class
from specbench.drafters.spec import parse_spec
from specbench.errors import SpecbenchError
from specbench.records.schema import BASELINE_DRAFTER, Block, Cell
from specbench.sweep.config import SweepConfig
from specbench.workloads.load import load_workload


@dataclass(frozen=True)
class Plan:
    """The cells of a sweep in measuring order, and the combinations that cannot exist.

    Attributes:
        cells: baselines included.
        dropped: ``{"cell": ..., "reason": ...}`` for each combination left out.
    """

    cells: list[Cell]
    dropped: list[dict[str, Any]] = field(default_factory=list)

    def blocks(self) -> Iterator[tuple[Block, list[Cell]]]:
        """Cells grouped by what shares their baselines, in order."""
        for block, cells in itertools.groupby(self.cells, key=lambda cell: cell.block):
            yield block, list(cells)


def plan(config: SweepConfig, tasks: Sequence[str] | None = None) -> Plan:
    """All cells of a sweep.

    Args:
        config: the grid's axes.
        tasks: names of the workloads, if they are loaded already; prompt files are read otherwise.

    Raises:
        SpecbenchError: a drafter SPEC can't be right, or no cell remains.
    """
    specs = [parse_spec(text) for text in config.drafters]
    for spec in specs:
        drafter_class(spec).check(spec)
    names = list(tasks) if tasks is not None else _task_names(config)
    cells: list[Cell] = []
    dropped: list[dict[str, Any]] = []
    axes = itertools.product(
        config.backends, names, config.temperatures, config.batch_sizes, range(config.repeats)
    )
    for backend, task, temperature, batch_size, repeat in axes:
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
        }
        block: list[Cell] = []
        for spec, gamma in itertools.product(specs, config.gammas):
            cell = Cell(drafter=spec.text, gamma=gamma, **shared)
            reason = drafter_class(spec).impossible(
                spec, gamma=gamma, temperature=temperature, batch_size=batch_size
            )
            if batch_size > config.prompts:
                reason = (
                    f"batch size {batch_size} needs as many prompts, there are {config.prompts}"
                )
            if reason is None:
                block.append(cell)
            else:
                dropped.append({"cell": cell.cell_id, "reason": reason})
        if block:
            cells += _in_order(block, Cell(drafter=BASELINE_DRAFTER, gamma=0, **shared))
    if not cells:
        reasons = "; ".join(dict.fromkeys(entry["reason"] for entry in dropped))
        raise SpecbenchError(f"no cell can be measured: {reasons}")
    return Plan(cells, dropped)


def _in_order(block: list[Cell], baseline: Cell) -> list[Cell]:
    """Baseline, the cells in seeded random order, baseline."""
    first, last = (baseline.model_copy(update={"baseline": end}) for end in ("first", "last"))
    shuffled = list(block)
    random.Random(f"{baseline.seed}/{baseline.block}").shuffle(shuffled)
    return [first, *shuffled, last]


def _task_names(config: SweepConfig) -> list[str]:
    known = registry.names("tasks")
    names: list[str] = []
    for task in config.tasks:
        found = [task] if task in known else [w.name for w in load_workload(task, config.prompts)]
        names += [name for name in found if name not in names]
    return names
