"""The text of ``specbench run --dry-run``: what would be measured, and how much that is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specbench.records.schema import Cell
    from specbench.sweep.config import SweepConfig


def plan_lines(plan: Any, sweep: SweepConfig) -> list[str]:
    """Lines of at most 80 columns for a plan: blocks with their cells, what was dropped, the size.

    Args:
        plan: ``cells`` in any order, and ``dropped``, a list of ``{"cell", "reason"}``.
        sweep: the configuration the plan was made from.
    """
    lines = [f"target {sweep.target_name}, to be written to {sweep.folder}", ""]
    blocks: dict[Any, list[Cell]] = {}
    for cell in plan.cells:
        blocks.setdefault(cell.block, []).append(cell)
    for cells in blocks.values():
        first = cells[0]
        lines.append(block_title(first))
        drafted = sorted((c.drafter, c.gamma) for c in cells if c.baseline is None)
        for drafter in dict.fromkeys(name for name, _ in drafted):
            gammas = ", ".join(str(gamma) for name, gamma in drafted if name == drafter)
            lines.append(f"  {drafter}  γ = {gammas}")
        baselines = sum(c.baseline is not None for c in cells)
        lines.append(f"  none (plain decoding)  {baselines} times")
    reasons = Counter(str(entry["reason"]) for entry in plan.dropped)
    if reasons:
        lines += ["", f"dropped {len(plan.dropped)} cells that cannot exist:"]
        lines += [f"  {count} × {reason}" for reason, count in reasons.items()]
    most = len(plan.cells) * sweep.prompts * sweep.max_new_tokens
    lines += [
        "",
        f"{len(plan.cells)} cells in {len(blocks)} blocks, "
        f"{sweep.prompts} prompts × {sweep.max_new_tokens} tokens each:",
        f"at most {most:,} tokens to generate, twice that for prompts of two turns",
    ]
    return lines


def estimate_lines(plan: Any, sweep: SweepConfig, weight_bytes: int, rate: float) -> list[str]:
    """How long the plan takes if every step costs one reading of the target's weights.

    That is the floor of plain decoding. Speculation needs fewer target steps but adds the
    drafter's, and prompts have to be read too, so it is an order of magnitude and says so.

    Args:
        plan: its ``cells`` are counted.
        sweep: prompts and tokens per cell.
        weight_bytes: of the target.
        rate: bytes per second that the memory moves.
    """
    steps = sum(
        sweep.prompts * sweep.max_new_tokens / min(cell.batch_size, sweep.prompts)
        for cell in plan.cells
    )
    seconds = steps * weight_bytes / rate
    return [
        f"estimate: about {duration(seconds)}, if each step costs one reading of the weights",
        f"({weight_bytes / 1e9:.2f} GB at the measured {rate / 1e9:.1f} GB/s)",
    ]


def duration(seconds: float) -> str:
    """Seconds for a person: ``40 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def block_title(cell: Any) -> str:
    """What the cells of a block share, e.g. ``chat, T = 0, batch 1``; defaults are not named."""
    parts = [cell.task, f"T = {cell.temperature:g}", f"batch {cell.batch_size}"]
    if cell.top_k:
        parts.append(f"top-k {cell.top_k}")
    if cell.top_p < 1:
        parts.append(f"top-p {cell.top_p:g}")
    if cell.backend != "native":
        parts.append(cell.backend)
    if cell.repeat:
        parts.append(f"repeat {cell.repeat + 1}")
    return ", ".join(parts)
