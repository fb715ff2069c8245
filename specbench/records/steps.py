"""The step, one target forward shared by the rows of a batch: the unit of time.

`rounds` has one row per prompt and round; here its rows are gathered so that a step counts once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Columns = Mapping[str, Any]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Steps:
    """The steps of a cell in order of time; every field is one array [steps] but the flag."""

    draft_s: Numbers
    verify_s: Numbers
    other_s: Numbers
    drafted: Numbers  # levels of the deepest draft among the rows: the number of drafter steps
    emitted: Numbers  # tokens of all rows
    context: Numbers  # context lengths of all rows, added up
    active_rows: Numbers
    verified: Numbers  # tokens of all rows in the target forward
    sampling_s: Numbers  # the part of other_s in which tokens are chosen; NaN where not recorded
    all_full: bool = True

    @property
    def seconds(self) -> Numbers:
        """Duration of each step."""
        return self.draft_s + self.verify_s + self.other_s

    @property
    def tokens_per_s(self) -> float | None:
        """Tokens of all rows per second."""
        seconds = float(self.seconds.sum())
        return float(self.emitted.sum()) / seconds if seconds else None

    def __len__(self) -> int:
        return int(self.draft_s.size)

    def where(self, mask: NDArray[np.bool_], all_full: bool) -> Steps:
        """The steps that a mask picks."""
        arrays = (field.name for field in fields(self) if field.name != "all_full")
        picked = {name: getattr(self, name)[mask] for name in arrays}
        return Steps(**picked, all_full=all_full)


def all_steps(rounds: Columns) -> Steps:
    """Rows gathered by step: times once, tokens and context summed, drafts by the deepest."""
    step = integers(rounds, "step")
    order = np.argsort(step, kind="stable")  # nearly free: rounds are written in order of steps
    start = np.flatnonzero(np.diff(step[order], prepend=-1))
    first = order[start]
    one_row_each = start.size == step.size
    in_order = one_row_each and bool(np.all(np.diff(step) > 0))

    def once(name: str) -> Numbers:
        found = numbers(rounds, name)
        return found if in_order else np.asarray(found[first])

    def gathered(how: np.ufunc, name: str) -> Numbers:
        if one_row_each:
            return once(name)
        return np.asarray(how.reduceat(numbers(rounds, name)[order], start))

    return Steps(
        draft_s=once("draft_s"),
        verify_s=once("verify_s"),
        other_s=once("other_s"),
        drafted=gathered(np.maximum, "draft_levels"),
        emitted=gathered(np.add, "num_emitted"),
        context=gathered(np.add, "context_length"),
        active_rows=once("active_rows"),
        verified=gathered(np.add, "num_verified"),
        sampling_s=once("sampling_s") if "sampling_s" in rounds else np.full(first.size, np.nan),
    )


def counted_steps(rounds: Columns, batch_size: int) -> Steps:
    """The steps that speed is counted over: those with all slots full, or all if there is none."""
    steps = all_steps(rounds)
    full = steps.active_rows == batch_size
    if full.all():
        return steps
    return steps.where(full, True) if full.any() else replace(steps, all_full=False)


def speedup_over(steps: Steps, plain: Sequence[Steps]) -> float | None:
    """Plain decoding's seconds per token over those of a cell; None where one is not known.

    Args:
        steps: of the cell.
        plain: of each of its baselines.
    """
    seconds = sum(float(base.seconds.sum()) for base in plain)
    tokens = sum(float(base.emitted.sum()) for base in plain)
    speed = steps.tokens_per_s
    return speed * seconds / tokens if speed and tokens else None


def row_seconds(rounds: Columns) -> Numbers:
    """Duration of the step that each row belongs to: [rows]."""
    return numbers(rounds, "draft_s") + numbers(rounds, "verify_s") + numbers(rounds, "other_s")


def numbers(columns: Columns, name: str) -> Numbers:
    """A column as float64, NaN where missing."""
    return np.asarray(columns[name], dtype=np.float64)


def integers(columns: Columns, name: str) -> NDArray[np.int64]:
    """A column of counts or indices, which has no missing values."""
    return np.asarray(columns[name], dtype=np.int64)


def values(columns: Columns, name: str) -> list[Any]:
    """A column of texts or lists."""
    return list(columns[name])
