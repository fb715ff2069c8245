"""What a reader should know before believing the numbers: one sentence each, most serious first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from specbench.analysis.pooling import DIVERGED
from specbench.records.schema import CellRecord
from specbench.records.summary import FEW_PROMPTS

if TYPE_CHECKING:
    from specbench.analysis.fit import GroupFit

_NAMED = 3  # so many are named one by one, the others counted


def run_notes(groups: Sequence[GroupFit], failed: Sequence[CellRecord]) -> tuple[str, ...]:
    """The notes on a fitted run; empty if there is nothing to warn about.

    Args:
        groups: the fitted groups.
        failed: cells that failed or ran out of memory.
    """
    notes = [*_diverged(groups), *_without_baseline(groups), *_failed(failed)]
    silent = [str(group.key) for group in groups if group.alpha is None]
    if silent:
        notes.append(f"no token was ever drafted, so there is no alpha: {_some(silent)}")
    few = [group for group in groups if group.num_prompts < FEW_PROMPTS]
    if few:
        tasks = _some(dict.fromkeys(group.key.setting.task for group in few))
        fewest = min(group.num_prompts for group in few)
        notes.append(
            f"few prompts: intervals rest on {fewest} {_plural('conversation', fewest)} ({tasks}); "
            f"from {FEW_PROMPTS} on they mean something (--prompts)"
        )
    partial = [group for group in groups if group.model is not None and group.noise_floor is None]
    if partial:
        where = _some(dict.fromkeys(str(group.key.setting) for group in partial))
        notes.append(f"only one baseline finished, so there is no noise floor: {where}")
    if any("all slots full" in text for group in groups for text in group.warnings):
        notes.append("some cells never had all slots full: their speed is over all steps")
    return tuple(notes)


def _diverged(groups: Iterable[GroupFit]) -> list[str]:
    where = [
        f"{group.key.drafter} γ = {point.gamma} ({group.key.setting})"
        for group in groups
        for point in group.points
        if point.lossless == DIVERGED
    ]
    if not where:
        return []
    return [
        f"DIVERGED: output differs from plain decoding, a bug; its speedup means nothing: "
        f"{_some(where)}"
    ]


def _without_baseline(groups: Iterable[GroupFit]) -> list[str]:
    settings = dict.fromkeys(
        str(group.key.setting)
        for group in groups
        if all(point.noise_floor is None and point.v is None for point in group.points)
        and all(point.speedup is None for point in group.points)
    )
    if not settings:
        return []
    return [f"no baseline finished, so there is no speedup, c or v: {_some(settings)}"]


def _failed(failed: Sequence[CellRecord]) -> list[str]:
    if not failed:
        return []
    named = [
        f"{cell.baseline + ' baseline' if cell.baseline else f'{cell.drafter} γ = {cell.gamma}'} "
        f"({cell.task}, T = {cell.temperature:g}, batch {cell.batch_size}): "
        f"{cell.error or cell.status.replace('_', ' ')}"
        for cell in failed
    ]
    return [f"{len(failed)} {_plural('cell', len(failed))} failed and left out: {_some(named)}"]


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return "; ".join(listed[:_NAMED]) + more


def _plural(noun: str, count: int) -> str:
    return noun if count == 1 else f"{noun}s"
