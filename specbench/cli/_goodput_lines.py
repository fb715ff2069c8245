"""Goodput below a block of the table at the end of a run, where ``--goodput`` gave limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from specbench.analysis.shown.formats import goodput, goodput_limits
from specbench.analysis.shown.names import with_gamma
from specbench.cli._output import wrapped

if TYPE_CHECKING:
    from specbench.records.schema import CellRecord


def goodput_lines(cells: Sequence[CellRecord]) -> list[str]:
    """Good requests per second and their share, in each cell of a block that has them."""
    counted = [cell for cell in cells if cell.goodput_per_s is not None]
    if not counted:
        return []
    limits = goodput_limits((counted[0].server or {})["goodput_limits_ms"])
    told = (f"{_name(cell)} {goodput(cell.goodput_per_s, cell.goodput_share)}" for cell in counted)
    return wrapped(f"requests/s within {limits}: {'; '.join(told)}").splitlines()


def _name(cell: CellRecord) -> str:
    if cell.is_baseline:
        return f"plain decoding ({cell.baseline})" if cell.baseline else "plain decoding"
    return with_gamma(cell.drafter, cell.draft_form, cell.gamma)
