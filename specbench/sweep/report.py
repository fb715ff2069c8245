"""What a sweep tells while it runs; the command line shows it, tests collect it.

The runner knows nothing of terminals: it calls these methods and goes on.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from specbench.weights.progress import SILENT, Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specbench.records.schema import Block, Cell, CellRecord


class PlanLike(Protocol):
    """What a reporter reads of a plan."""

    @property
    def cells(self) -> Sequence[Cell]:
        """All cells of the grid, baselines included, finished ones too."""


class Reporter(Protocol):
    """Receives a sweep's events, in this order: started, then per block its cells, then finished.

    ``message`` and ``warning`` may come at any time; both are one line of text.

    Attributes:
        progress: shows the slow steps before ``started``: downloads, conversions, loading.
    """

    progress: Progress

    def started(self, plan: PlanLike, done: int = 0) -> None:
        """The grid is known and the output folder is open; ``done`` cells are there already."""

    def block_started(self, block: Block) -> None:
        """The cells of one (task, temperature, batch size, repeat, …) follow."""

    def cell_started(self, cell: Cell, index: int, total: int) -> None:
        """Cell number ``index`` (from 1) of ``total`` begins."""

    def cell_finished(self, record: CellRecord) -> None:
        """A cell's line is written; its status may be a failure."""

    def message(self, text: str) -> None:
        """Something worth knowing, e.g. where the prompts come from."""

    def warning(self, text: str) -> None:
        """Something that makes the measurement worth less, e.g. another process on the GPU."""

    def finished(self, run_folder: Path) -> None:
        """Everything is written."""


class SilentReporter:
    """Shows nothing; keeps messages and warnings, for use from Python and in tests."""

    def __init__(self) -> None:
        self.progress: Progress = SILENT
        self.messages: list[str] = []
        self.warnings: list[str] = []
        self.records: list[CellRecord] = []

    def started(self, plan: PlanLike, done: int = 0) -> None:
        self.records.clear()

    def block_started(self, block: Block) -> None:
        pass

    def cell_started(self, cell: Cell, index: int, total: int) -> None:
        pass

    def cell_finished(self, record: CellRecord) -> None:
        self.records.append(record)

    def message(self, text: str) -> None:
        self.messages.append(text)

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def finished(self, run_folder: Path) -> None:
        pass
