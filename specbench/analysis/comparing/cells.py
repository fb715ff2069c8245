"""One run's cells as another run's can be set beside them: checked, named, repeats pooled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from specbench.analysis.checking.completeness import incomplete
from specbench.analysis.checking.violations import Violations, nothing_left, violations
from specbench.analysis.others import imported
from specbench.analysis.pooling import Raw, RawTables, Setting, groups
from specbench.analysis.rounds.between_cells import of_baselines
from specbench.analysis.shown.names import load_column, load_label, some, with_gamma
from specbench.errors import SpecbenchError
from specbench.records.reading import Run
from specbench.records.schema import BASELINE_DRAFTER, DIVERGED, CellKey, CellRecord, DraftForm
from specbench.records.summary import summarize
from specbench.theory.scatter import Scatter


class CellName(NamedTuple):
    """What makes cells of two runs the same; target and backend only where a run has several."""

    task: str
    temperature: float
    batch_size: int
    top_k: int
    top_p: float
    drafter: str
    gamma: int
    target: str
    backend: str
    request_rate: float = 0.0
    context_length: int | None = None

    @property
    def load(self) -> str:
        """How much was asked at once, in a table."""
        return load_column(self.batch_size, self.request_rate, self.context_length)

    @property
    def draft_form(self) -> DraftForm:
        """What gamma means."""
        return CellKey(**{**self._asdict(), "target": "x"}).draft_form

    def __str__(self) -> str:
        how = "plain decoding"
        if self.drafter != BASELINE_DRAFTER:
            how = with_gamma(self.drafter, self.draft_form, self.gamma)
        extras = [f"context {self.context_length}"] if self.context_length is not None else []
        extras += [f"top-k {self.top_k}"] if self.top_k else []
        extras += [f"top-p {self.top_p:g}"] if self.top_p != 1.0 else []
        extras += [name for name in (self.target, self.backend) if name]
        load = load_label(self.batch_size, self.request_rate)
        where = [self.task, f"T = {self.temperature:g}", load, *extras]
        return f"{', '.join(where)}, {how}"


class Several(NamedTuple):
    """Whether targets, and whether backends, tell cells of a run apart."""

    targets: bool
    backends: bool

    @classmethod
    def of(cls, a: Run, b: Run) -> Several:
        """Of two runs that are to be compared: where either of them has several."""
        targets, backends = (
            [{getattr(cell, name) for cell in run.cells} for run in (a, b)]
            for name in ("target", "backend")
        )
        return cls(max(map(len, targets)) > 1, max(map(len, backends)) > 1)

    def name(self, cell: CellRecord) -> CellName:
        """What a cell is called in both runs."""
        return CellName(
            task=cell.task,
            temperature=cell.temperature,
            batch_size=cell.batch_size,
            top_k=cell.top_k,
            top_p=cell.top_p,
            drafter=cell.drafter,
            gamma=0 if cell.is_baseline else cell.gamma,
            target=cell.target if self.targets else "",
            backend=cell.backend if self.backends else "",
            request_rate=cell.request_rate,
            context_length=cell.context_length,
        )


@dataclass(frozen=True)
class Side:
    """One run's numbers of a cell.

    Attributes:
        fields: as specbench.records.summary.summarize gives them.
        raw: rounds and requests; None of imported cells.
        doubts: why its speed says nothing; empty for an honest cell.
        cells: those that are pooled.
        moves: metric -> how much the log of a speed is off by what cells differ by, where that is
            told.
    """

    fields: Mapping[str, Any]
    batch_size: int
    raw: Raw | None
    doubts: tuple[str, ...]
    diverged: bool
    cells: Sequence[CellRecord]
    moves: Mapping[str, Scatter] = field(default_factory=dict)

    def moved(self, differ: Scatter, baselines: int) -> Side:
        """With what cells differ by, beside so many baselines."""
        if self.raw is None:
            return self
        own = 1.0 / len(self.cells)
        both = own + 1.0 / max(baselines, 1)
        return replace(self, moves={"tok_per_s": differ.times(own), "speedup": differ.times(both)})


@dataclass(frozen=True)
class CheckedRun:
    """One run's cells that can be used, those that can't, and notes on both.

    Attributes:
        failed: the name of every cell that failed, once for each of its repeats.
        incomplete: what is missing of the run's plan, in at most one sentence.
    """

    run: Run
    sides: Mapping[CellName, Side]
    unusable: Sequence[CellName]
    failed: Sequence[CellName]
    incomplete: Sequence[str]
    notes: Sequence[str]

    @classmethod
    def of(cls, run: Run, several: Several) -> CheckedRun:
        """Check and read a run as a fit does.

        Raises:
            SpecbenchError: no finished cell can be used.
        """
        tables = RawTables(run)
        wrong = violations(run, tables)
        sides = _sides(run, several, tables, wrong)
        if not sides:
            problem = nothing_left(run, wrong)
            raise SpecbenchError(f"in {run.path}: {problem.message}", problem.hint)
        lacking = incomplete(run)
        notes = [f"{run.path}: {text}" for text in (*wrong.sentences, *lacking)]
        if diverged := [str(name) for name, side in sides.items() if side.diverged]:
            notes.append(
                f"{run.path}: {DIVERGED}: output differs from plain decoding, a bug; its speed "
                f"means nothing: {some(diverged)}"
            )
        unusable = [several.name(cell) for cell in run.cells if cell.cell_id in wrong.unusable]
        failed = [several.name(cell) for cell in run.cells if cell.status != "ok"]
        if failed:
            notes.append(f"{run.path}: failed: {some(dict.fromkeys(map(str, failed)))}")
        return cls(run, sides, unusable, failed, lacking, notes)

    def why_not(self, name: CellName) -> str:
        """Why a cell of the other run is not among the sides, to be followed by the run."""
        if name in self.unusable:
            return "left out of"
        return "failed in" if name in self.failed else "not in"

    def lacks(self, name: CellName) -> bool:
        """Whether some repeats of a cell that can be used failed."""
        return name in self.failed

    def failures(self, name: CellName) -> str:
        """How many of a cell's repeats failed, to be followed by the run."""
        failed = self.failed.count(name)
        return f"{failed} of {failed + len(self.sides[name].cells)} failed"

    def only(self, other: CheckedRun) -> list[CellName]:
        """Cells that the other run does not have."""
        return [name for name in self.sides if name not in other.sides]


def _sides(
    run: Run, several: Several, tables: RawTables, wrong: Violations
) -> dict[CellName, Side]:
    """Every gamma of every group, and plain decoding once per setting."""
    usable = [cell for cell in run.cells if cell.cell_id not in wrong.unusable]
    plain = [cell for cell in usable if cell.is_baseline and cell.status == "ok"]
    scatter = of_baselines(plain, tables)
    found: dict[CellName, Side] = {}

    def add(cells: Sequence[CellRecord], baselines: Sequence[CellRecord]) -> None:
        if cells and (name := several.name(cells[0])) not in found:
            side = _side(cells, baselines, tables, wrong, run)
            differ = scatter.get(Setting.of(cells[0]))
            found[name] = side if differ is None else side.moved(differ, len(baselines))

    for group in groups(usable):
        add(group.baselines, [])
        for cells in group.cells.values():
            add(cells, group.baselines)
    for cell in plain:  # of settings in which no drafter was measured
        add([one for one in plain if Setting.of(one) == Setting.of(cell)], [])
    return found


def _side(
    cells: Sequence[CellRecord],
    baselines: Sequence[CellRecord],
    tables: RawTables,
    wrong: Violations,
    run: Run,
) -> Side:
    doubts = []
    if diverged := any(cell.lossless == DIVERGED for cell in cells):
        doubts.append(f"{DIVERGED} in {run.path}")
    if any(cell.cell_id in wrong.suspect for cell in cells):
        doubts.append(f"numbers that cannot be in {run.path}")
    batch_size = cells[0].batch_size
    if any(cell.imported_from is not None for cell in cells):
        return Side(imported.joined(cells), batch_size, None, tuple(doubts), diverged, cells)
    raw = tables.joined(cells)
    fields = summarize(cells[0], *raw, baselines=[tables.of(cell) for cell in baselines])
    return Side(fields, batch_size, raw, tuple(doubts), diverged, cells)
