"""Speedups of imported cells over the plain ones beside them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from specbench.records.importing.cells import Imported
from specbench.theory.intervals import paired_ratio_of_ratios

_SAME = ("target", "task", "temperature", "batch_size", "backend")


def add_speedups(cells: Sequence[Imported]) -> None:
    """Fill in speedup and noise floor where a plain cell of the same setting was imported too.

    Time per output token, plain over speculative. Where a source has the seconds and tokens of each
    prompt, over the prompts that both have, with an interval paired by prompt.
    """
    for cell in cells:
        plain = [other for other in cells if other.is_baseline and _alike(other, cell)]
        if not plain:
            continue
        speeds = [speed for other in plain if (speed := other.fields.get("tok_per_s"))]
        if len(speeds) > 1:
            cell.fields["noise_floor"] = max(speeds) / min(speeds) - 1.0
        if cell.is_baseline:
            continue
        if not _paired(cell, plain):
            _by_means(cell, plain)
        if cell.fields.get("tok_per_s") and speeds and cell.fields.get("wall_s"):
            cell.fields["end_to_end_speedup"] = cell.fields["tok_per_s"] / fmean(speeds)


def _alike(one: Imported, other: Imported) -> bool:
    return all(one.key[name] == other.key[name] for name in _SAME)


def _paired(cell: Imported, plain: Sequence[Imported]) -> bool:
    """By prompt; False where no prompt is in both."""
    sums: dict[str, tuple[float, float]] = {}
    for other in plain:
        for prompt, (seconds, tokens) in other.pairs.items():
            before = sums.get(prompt, (0.0, 0.0))
            sums[prompt] = (before[0] + seconds, before[1] + tokens)
    shared = [prompt for prompt in cell.pairs if prompt in sums]
    if not shared:
        return False
    base = [sums[prompt] for prompt in shared]
    own = [cell.pairs[prompt] for prompt in shared]
    base_s, base_tokens, own_s, own_tokens = (
        [pair[place] for pair in pairs] for pairs in (base, own) for place in (0, 1)
    )
    if not all(map(sum, (base_s, base_tokens, own_s, own_tokens))):
        return False
    plain_s = sum(base_s) / sum(base_tokens)
    cell.fields["speedup"] = plain_s / (sum(own_s) / sum(own_tokens))
    interval = paired_ratio_of_ratios(base_s, base_tokens, own_s, own_tokens)
    cell.fields["speedup_ci"] = interval.ends if interval else None
    return True


def _by_means(cell: Imported, plain: Sequence[Imported]) -> None:
    times = [time for other in plain if (time := other.fields.get("itl_s"))]
    if times and cell.fields.get("itl_s"):
        cell.fields["speedup"] = fmean(times) / cell.fields["itl_s"]
