"""The text of ``specbench run --dry-run``: what would be measured, and how much that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specbench.analysis.shown.names import broken, counted, engine_label, load_label
from specbench.cli._output import wrapped

if TYPE_CHECKING:
    from specbench.records.schema import Cell
    from specbench.sweep.config import SweepConfig


def plan_lines(plan: Any, sweep: SweepConfig) -> list[str]:
    """Lines of at most 80 columns for a plan: blocks with their cells, what was dropped, the size.

    Args:
        plan: ``cells`` in any order, ``dropped``, a list of ``{"cell", "reason"}``, and ``notes``.
        sweep: the configuration the plan was made from.
    """
    lines = [f"target {sweep.target_name}, to be written to {sweep.folder}", ""]
    blocks: dict[Any, list[Cell]] = {}
    for cell in plan.cells:
        blocks.setdefault(cell.block, []).append(cell)
    for cells in blocks.values():
        first = cells[0]
        lines.append(block_title(first))
        drafted = [cell for cell in cells if cell.baseline is None]
        for drafter in sorted({cell.drafter for cell in drafted}):
            lines += _drafter_lines([cell for cell in drafted if cell.drafter == drafter])
        baselines = sum(c.baseline is not None for c in cells)
        lines.append(f"  none (plain decoding)  {counted(baselines, 'time')}")
    reasons = Counter(str(entry["reason"]) for entry in plan.dropped)
    if reasons:
        lines += ["", f"dropped {counted(len(plan.dropped), 'cell')} that cannot exist:"]
        lines += [f"  {count} × {reason}" for reason, count in reasons.items()]
    if plan.notes:
        lines += ["", *(wrapped(note, "", "") for note in plan.notes)]
    most = sum(_requests(cell, sweep) for cell in plan.cells) * sweep.max_new_tokens
    lines += [
        "",
        f"{counted(len(plan.cells), 'cell')} in {counted(len(blocks), 'block')}, "
        f"{counted(sweep.prompts, 'prompt')} × {counted(sweep.max_new_tokens, 'token')} each:",
        f"at most {most:,} tokens to generate, twice that for prompts of two turns",
    ]
    return lines


def _drafter_lines(cells: Sequence[Cell]) -> list[str]:
    """A drafter with its gammas, the SPEC whole because it is to be checked before it runs."""
    first = cells[0]
    gammas = ", ".join(str(gamma) for gamma in sorted({cell.gamma for cell in cells}))
    sign = "≤" if first.draft_form == "adaptive" else "="
    line = f"  {first.drafter}  γ {sign} {gammas}"
    if len(line) <= 80:
        return [line]
    return [*(f"  {part}" for part in broken(first.drafter, 78)), f"    γ {sign} {gammas}"]


def estimate_lines(plan: Any, sweep: SweepConfig, weight_bytes: int, rate: float) -> list[str]:
    """How long the plan takes at least: one reading of the target's weights per token and slot.

    That is the floor of plain decoding. Prompts have to be read too, and speculation, which needs
    fewer target steps, adds the drafter's and dearer verification.

    Args:
        plan: its ``cells`` are counted.
        sweep: prompts and tokens per cell.
        weight_bytes: of the target.
        rate: bytes per second that the memory moves.
    """
    steps = sum(
        _requests(cell, sweep) * sweep.max_new_tokens / cell.batch_size for cell in plan.cells
    )
    seconds = steps * weight_bytes / rate
    return [
        f"estimate: at least {duration(seconds)}, if each step costs one reading of the weights",
        f"({weight_bytes / 1e9:.2f} GB at the measured {rate / 1e9:.1f} GB/s)",
    ]


def _requests(cell: Cell, sweep: SweepConfig) -> int:
    """Prompts of one turn that a cell serves."""
    from specbench.sweep.grid import num_requests

    return num_requests(sweep.prompts, cell.batch_size)


def duration(seconds: float) -> str:
    """Seconds for a person: ``40 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def block_title(cell: Any, several: bool = False) -> str:
    """What the cells of a block share, e.g. ``chat, T = 0, batch 1``; defaults are not named.

    Args:
        several: there are several engines, so that the native one is named too.
    """
    parts = [cell.task, f"T = {cell.temperature:g}", load_label(cell.batch_size, cell.request_rate)]
    if cell.context_length is not None:
        parts.append(f"context {cell.context_length}")
    if cell.top_k:
        parts.append(f"top-k {cell.top_k}")
    if cell.top_p < 1:
        parts.append(f"top-p {cell.top_p:g}")
    if cell.backend != "native" or several:
        parts.append(engine_label(cell.backend))
    if cell.repeat:
        parts.append(f"repeat {cell.repeat + 1}")
    return ", ".join(parts)
