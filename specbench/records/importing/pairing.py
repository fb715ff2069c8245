"""Speedups of imported cells over the plain ones beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import Any

from specbench.records.importing.cells import UNNAMED, Imported
from specbench.theory.intervals import paired_ratio_of_ratios

_SAME = {
    "target": "",
    "task": "",
    "temperature": 0.0,
    "top_k": 0,
    "top_p": 1.0,
    "batch_size": 1,
    "request_rate": 0.0,
    "backend": "",
}
"""What plain decoding has to share with a cell, and what it is where a key leaves it out."""


def add_speedups(cells: Sequence[Imported]) -> None:
    """Fill in speedup and noise floor where a plain cell of the same setting was imported too.

    Time per output token, plain over speculative. Where a source has the seconds and tokens of each
    prompt, over the prompts that both have, with an interval paired by prompt.
    """
    for cell in cells:
        plain = _beside(cell, cells)
        if not plain or cell.failed:
            continue
        speeds = _known(plain, "tok_per_s")
        differ = speeds if cell.whole_answers else _known(plain, "itl_s") or speeds
        if len(differ) > 1:
            cell.fields["noise_floor"] = max(differ) / min(differ) - 1.0
        if cell.is_baseline:
            continue
        paired = _paired(cell, plain)
        if not paired:
            _by_means(cell, plain)
        if paired and cell.whole_answers:
            cell.fields["end_to_end_speedup"] = cell.fields["speedup"]
        elif cell.fields.get("tok_per_s") and speeds and cell.fields.get("wall_s"):
            cell.fields["end_to_end_speedup"] = cell.fields["tok_per_s"] / fmean(speeds)


def unpaired(cells: Sequence[Imported]) -> list[str]:
    """Which cells have no speedup for want of plain decoding like them, or of times.

    Said with what the nearest one has otherwise. Empty where there is no plain decoding at all.
    """
    plain = [cell for cell in cells if cell.is_baseline and not cell.failed]
    found: dict[str, int] = {}
    for cell in cells:
        if not plain or cell.is_baseline or cell.failed or cell.fields.get("speedup"):
            continue
        text = "it or its plain decoding lacks the time per output token"
        if not _beside(cell, cells):
            nearest = min(plain, key=lambda other: len(_differences(cell, other)))
            differences = "; ".join(_differences(cell, nearest))
            text = f"the nearest plain decoding has another {differences}"
        found[text] = found.get(text, 0) + 1
    return [
        f"no speedup for {count} speculative cell{'' if count == 1 else 's'}: {text}"
        for text, count in found.items()
    ]


def _beside(cell: Imported, cells: Sequence[Imported]) -> list[Imported]:
    """Plain cells of the same setting that did not fail."""
    return [
        other
        for other in cells
        if other.is_baseline and not other.failed and not list(_unlike(cell, other))
    ]


def _unlike(one: Imported, other: Imported) -> Iterable[str]:
    return (name for name in _SAME if _of(one, name) != _of(other, name))


def _of(cell: Imported, name: str) -> Any:
    return cell.key.get(name, _SAME[name])


def _differences(cell: Imported, plain: Imported) -> list[str]:
    said = []
    for name in _unlike(cell, plain):
        there, here = _shown(plain, name), _shown(cell, name)
        naming = f": --{name} names it" if UNNAMED in (there, here) else ""
        said.append(f"{name.replace('_', ' ')} ({there}, not {here}{naming})")
    return said


def _shown(cell: Imported, name: str) -> str:
    value = _of(cell, name)
    if name == "request_rate":
        return f"{value:g} per second" if value else "inf"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _paired(cell: Imported, plain: Sequence[Imported]) -> bool:
    """By prompt, each of them counted once on both sides; False where no prompt is in both."""
    shared = {
        prompt: _mean([other.pairs[prompt] for other in plain if prompt in other.pairs])
        for prompt in cell.pairs
        if any(prompt in other.pairs for other in plain)
    }
    if not shared:
        return False
    base = list(shared.values())
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


def _known(cells: Sequence[Imported], name: str) -> list[float]:
    return [value for cell in cells if (value := cell.fields.get(name))]


def _mean(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return fmean(pair[0] for pair in pairs), fmean(pair[1] for pair in pairs)


def _by_means(cell: Imported, plain: Sequence[Imported]) -> None:
    times = _known(plain, "itl_s")
    if times and cell.fields.get("itl_s"):
        cell.fields["speedup"] = fmean(times) / cell.fields["itl_s"]
