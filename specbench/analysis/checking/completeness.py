"""Whether a run holds all that it was to hold; what it says before that is provisional."""

from __future__ import annotations

import math
from typing import Any

from specbench.analysis.shown.names import counted
from specbench.records.reading import CELLS, Run, is_torn

_IN_BLOCK, _BLOCKS = ("drafters", "gammas"), ("temperatures", "batch_sizes", "repeats", "backends")


def incomplete(run: Run) -> list[str]:
    """What is missing of a run, in one sentence; empty where nothing is."""
    missing, planned = _missing(run)
    reasons = []
    if run.manifest.finished is None:
        reasons.append("the run has not ended")
    if missing:
        reasons.append(f"{missing} of {counted(planned, 'cell')} of the plan are missing")
    if is_torn(run.path / CELLS):
        reasons.append(f"the last line of {CELLS} is cut short, and its cell is left out")
    if not reasons:
        return []
    return [
        f"{'; '.join(reasons)}: all numbers are provisional; the same `specbench run` command, "
        "typed again, goes on"
    ]


def _missing(run: Run) -> tuple[int, int]:
    """Cells of the plan that have no line, and cells of the plan; 0 where it is not recorded.

    Older runs record no number: a block has two baselines, unless none of its cells can exist, and
    blocks are counted as few as the cells need.
    """
    config, manifest = run.manifest.config, run.manifest
    if manifest.num_cells is not None:
        return max(manifest.num_cells - len(run.cells), 0), manifest.num_cells
    in_block = math.prod(_length(config.get(name)) for name in _IN_BLOCK)
    blocks = len(manifest.tasks) * math.prod(_length(config.get(name)) for name in _BLOCKS)
    blocks *= _length(config.get("context_lengths", 1))  # missing: prompts as they are
    if not in_block * blocks:
        return 0, 0
    speculative = in_block * blocks - len(manifest.dropped)
    begun = len({cell.block for cell in run.cells})
    planned = speculative + 2 * max(begun, math.ceil(speculative / in_block))
    return max(planned - len(run.cells), 0), planned


def _length(axis: Any) -> int:
    return len(set(axis)) if isinstance(axis, list) else int(axis or 0)
