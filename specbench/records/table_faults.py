"""Whether a cell's two tables can be calculated with: what the columns must hold, row by row.

The identities of specbench.records.identities ask whether numbers agree with each other; this asks
before them whether they are numbers at all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specbench.records.steps import Columns, integers, row_seconds

_COUNTS = {
    "rounds": (
        "request",
        "step",
        "round",
        "context_length",
        "num_verified",
        "num_drafted",
        "draft_levels",
        "num_evaluated",
        "num_accepted",
        "num_emitted",
        "active_rows",
    ),
    "requests": ("num_tokens",),
}
_SECONDS = {
    "rounds": ("draft_s", "verify_s", "other_s"),
    "requests": ("prefill_s", "drafter_prefill_s", "ttft_s", "decode_s", "wall_s"),
}
_LISTS = {"rounds": (), "requests": ("prompt_id", "conversation", "output_ids")}

Fault = tuple[str, str]
"""("rounds" or "requests", what is wrong with that table: a sentence without its subject)."""


def table_fault(rounds: Columns, requests: Columns) -> Fault | None:
    """The first thing that keeps two tables from being used; None if nothing does.

    Columns are there and of their type; counts are whole; both counts and seconds are finite and
    not negative. Seconds of requests may be missing, nothing else. There is a request, every round
    belongs to one, and every step has an active row and takes time.
    """
    for part, columns in (("rounds", rounds), ("requests", requests)):
        reason = _missing(part, columns) or _wrong(part, columns)
        if reason is not None:
            return part, reason
    count = len(requests["prompt_id"])
    if not count:
        return "requests", "holds no request"
    owner = integers(rounds, "request")
    for wrong, reason in (
        (owner >= count, f"names a request beyond the {count} there are"),
        (integers(rounds, "active_rows") == 0, "has no active row"),
        (row_seconds(rounds) == 0.0, "has a step that takes no time"),
    ):
        if wrong.any():
            return "rounds", f"{reason}: row {_first(wrong)}"
    return None


def _missing(part: str, columns: Columns) -> str | None:
    needed = (*_COUNTS[part], *_SECONDS[part], *_LISTS[part])
    missing = [name for name in needed if name not in columns]
    return f"has no column {', '.join(missing)}" if missing else None


def _wrong(part: str, columns: Columns) -> str | None:
    for name in (*_COUNTS[part], *_SECONDS[part]):
        column = columns[name]
        if not isinstance(column, np.ndarray) or column.dtype.kind not in "iuf":
            return f"holds no numbers in {name}"
        fits = np.isfinite(column) & (column >= 0)
        if name in _COUNTS[part]:
            fits &= column == np.floor(column)
        elif part == "requests":
            fits |= np.isnan(column)
        if not fits.all():
            row = _first(~fits)
            held = "nothing" if np.isnan(column[row]) else f"{column[row]:g}"
            return f"holds {held} in {name}: row {row}"
    for name in _LISTS[part]:
        lacks = np.array([value is None for value in columns[name]], dtype=np.bool_)
        if lacks.any():
            return f"holds nothing in {name}: row {_first(lacks)}"
    return None


def _first(mask: NDArray[np.bool_]) -> int:
    return int(np.argmax(mask))
