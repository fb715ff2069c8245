"""Which cells belong together, and their raw rounds joined.

A setting is what a baseline is measured for; a group is one drafter in one setting. Cells of a
group differ in gamma and repeat only. Repeats of one gamma are joined into one table, as if
measured in one go, so that pooled numbers come out of the same summary as a single cell's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from specbench.analysis.shown.names import engine_label, load_column, load_label
from specbench.records.reading import Run
from specbench.records.schema import CellRecord, DraftForm
from specbench.records.steps import Columns

Raw = tuple[Columns, Columns]
"""(rounds, requests) of one or more cells."""


class Setting(NamedTuple):
    """What a baseline is measured for; repeats are pooled."""

    task: str
    temperature: float
    batch_size: int
    target: str
    backend: str
    top_k: int
    top_p: float
    request_rate: float = 0.0
    context_length: int | None = None

    @classmethod
    def of(cls, cell: CellRecord) -> Setting:
        """The setting of a cell."""
        return cls(*(getattr(cell, name) for name in cls._fields))

    @property
    def load(self) -> str:
        """How much was asked at once, in a table: requests in flight, or per second."""
        return load_column(self.batch_size, self.request_rate, self.context_length)

    def __str__(self) -> str:
        load = load_label(self.batch_size, self.request_rate)
        text = f"{self.task}, T = {self.temperature:g}, {load}"
        text += f", context {self.context_length}" if self.context_length is not None else ""
        text += f", {engine_label(self.backend)}" if self.backend != "native" else ""
        text += f", top-k {self.top_k}" if self.top_k else ""
        return text + (f", top-p {self.top_p:g}" if self.top_p != 1.0 else "")


class GroupKey(NamedTuple):
    """One drafter in one setting."""

    setting: Setting
    drafter: str

    def __str__(self) -> str:
        return f"{self.drafter} ({self.setting})"


@dataclass(frozen=True)
class Group:
    """The finished cells of a group by gamma, and the finished baselines of its blocks."""

    key: GroupKey
    cells: Mapping[int, Sequence[CellRecord]]
    baselines: Sequence[CellRecord]

    @property
    def draft_form(self) -> DraftForm:
        """What gamma means for this drafter."""
        return next(cells[0].draft_form for cells in self.cells.values())


def groups(cells: Iterable[CellRecord]) -> list[Group]:
    """The groups of all finished cells, in the order in which their settings were measured."""
    finished = [cell for cell in cells if cell.status == "ok"]
    order = list(dict.fromkeys(Setting.of(cell) for cell in finished))
    keys = dict.fromkeys(
        GroupKey(Setting.of(cell), cell.drafter) for cell in finished if not cell.is_baseline
    )
    found = []
    for key in sorted(keys, key=lambda key: (order.index(key.setting), key.drafter)):
        here = [cell for cell in finished if Setting.of(cell) == key.setting]
        own = [cell for cell in here if cell.drafter == key.drafter]
        repeats = {cell.repeat for cell in own}
        found.append(
            Group(
                key,
                {
                    gamma: [cell for cell in own if cell.gamma == gamma]
                    for gamma in sorted({cell.gamma for cell in own})
                },
                [cell for cell in here if cell.is_baseline and cell.repeat in repeats],
            )
        )
    return found


class RawTables:
    """The tables of a run's cells, each read once.

    Args:
        without: columns of rounds that are not needed.
    """

    def __init__(self, run: Run, without: Collection[str] = ()) -> None:
        self._run, self._without = run, without
        self._read: dict[str, Raw] = {}

    def of(self, cell: CellRecord) -> Raw:
        """(rounds, requests) of a finished cell.

        Raises:
            SpecbenchError: a table is missing or damaged, or holds what can't be used.
        """
        if cell.cell_id not in self._read:
            self._read[cell.cell_id] = self._run.checked(cell.cell_id, self._without)
        return self._read[cell.cell_id]

    def joined(self, cells: Sequence[CellRecord]) -> Raw:
        """The tables of several cells one after the other, steps and requests numbered through."""
        parts = [self.of(cell) for cell in cells]
        if len(parts) == 1:
            return parts[0]
        steps = requests = 0
        shifted: list[Raw] = []
        for rounds, asked in parts:
            step, request = np.asarray(rounds["step"]), np.asarray(rounds["request"])
            shifted.append(({**rounds, "step": step + steps, "request": request + requests}, asked))
            steps += int(step.max(initial=-1)) + 1
            requests += len(asked["prompt_id"])
        return _stacked([part[0] for part in shifted]), _stacked([part[1] for part in shifted])


def _stacked(tables: Sequence[Columns]) -> Columns:
    stacked: dict[str, Any] = {}
    for name in tables[0]:
        values = [table[name] for table in tables]
        if all(isinstance(value, np.ndarray) for value in values):
            stacked[name] = np.concatenate(values)
        else:
            stacked[name] = [item for value in values for item in value]
    return stacked
