"""Two runs side by side, cell by cell: ratios B / A with intervals, and what does not match.

Cells are the same if task, temperature, top-k, top-p, batch size, drafter and gamma are, whatever
the machine: repeats are pooled.

    cells     what each run has, checked as a fit checks it
    ratios    intervals of B / A
    texts     whether greedy answers are the same
    unlike    what the runs differ in: machine, versions, what was asked

>>> comparison = compare_runs(load_run("results/before"), load_run("results/after"))
...                                                                             # doctest: +SKIP
>>> [str(cell.name) for cell in comparison.below(0.95)]                         # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from specbench.analysis.comparing.cells import CellName, CheckedRun, Several, Side
from specbench.analysis.comparing.ratios import ACCEPTANCE, METRICS, Ends, Metric, ratio_ends
from specbench.analysis.comparing.texts import Texts, compare_texts
from specbench.analysis.comparing.unlike import RawPair, asked_differences, run_differences
from specbench.analysis.shown.names import some
from specbench.errors import SpecbenchError
from specbench.records.reading import Run
from specbench.records.schema import BASELINE_DRAFTER

__all__ = ["METRICS", "ComparedCell", "Comparison", "Metric", "Ratio", "compare_runs"]


@dataclass(frozen=True)
class Ratio:
    """One number of both runs; the ratio is B / A, None where either is missing or A is 0."""

    a: float | None
    b: float | None
    interval: Ends | None = None

    @property
    def ratio(self) -> float | None:
        """B / A."""
        return self.b / self.a if self.a and self.b is not None else None

    @property
    def is_one(self) -> bool | None:
        """Whether both are the same: equal, or 1 is in the interval; None where neither is told."""
        if self.ratio == 1.0:
            return True
        if self.interval is None:
            return None
        return self.interval[0] <= 1.0 <= self.interval[1]


@dataclass(frozen=True)
class ComparedCell:
    """A cell that both runs have.

    Attributes:
        doubts: why its speed says nothing; empty for an honest cell.
    """

    name: CellName
    ratios: Mapping[Metric, Ratio]
    texts: Texts
    doubts: tuple[str, ...] = ()

    @property
    def parity(self) -> bool | None:
        """Whether acceptance is the same: every interval of B / A that is known holds 1, or the
        numbers are equal. None where nothing can be told, as of plain decoding."""
        if self.name.drafter == BASELINE_DRAFTER:
            return None
        told = [self.ratios[metric].is_one for metric in ACCEPTANCE]
        known = [same for same in told if same is not None]
        return all(known) if known else None

    @property
    def gate(self) -> Ratio:
        """What a regression shows in: tokens per second, or the speedup where no speed is known."""
        speed = self.ratios["tok_per_s"]
        return speed if speed.ratio is not None else self.ratios["speedup"]


@dataclass(frozen=True)
class Comparison:
    """All cells of both runs that match, and sentences on what does not.

    Attributes:
        left_out: cells of A that B lacks or has in part, those of B that A has but can't be used
            there, and what B lacks of its own plan.
    """

    a: str
    b: str
    cells: tuple[ComparedCell, ...]
    differences: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def below(self, limit: float) -> list[ComparedCell]:
        """Cells that are slower in B: their whole interval, or else their ratio, is below."""
        return [cell for cell in self.cells if not cell.doubts and _is_below(cell.gate, limit)]

    @property
    def not_judged(self) -> list[str]:
        """Cells that no gate can pass, with the reason: doubtful ones and those left out."""
        doubtful = [f"{cell.name}: {'; '.join(cell.doubts)}" for cell in self.cells if cell.doubts]
        return [*doubtful, *self.left_out]


def compare_runs(a: Run, b: Run) -> Comparison:
    """Set two runs side by side.

    Raises:
        SpecbenchError: they have no cell in common that can be used.
    """
    several = Several.of(a, b)
    left, right = CheckedRun.of(a, several), CheckedRun.of(b, several)
    shared = [name for name in left.sides if name in right.sides]
    if not shared:
        raise SpecbenchError(
            f"no finished cell of {a.path} is in {b.path}: {_first_of(a, left.sides)}, "
            f"{_first_of(b, right.sides)}",
            "Cells match by task, temperature, batch size, top-k, top-p, drafter and gamma",
        )
    cells, pairs = [], []
    for name in shared:
        one, other = left.sides[name], right.sides[name]
        texts = compare_texts(a, one.cells, b, other.cells)
        cells.append(ComparedCell(name, _ratios(one, other), texts, (*one.doubts, *other.doubts)))
        if one.raw is not None and other.raw is not None:
            pairs.append(RawPair(str(name), name.task, one.raw, other.raw))
    notes = [*left.notes, *right.notes, *run_differences(a, b), *asked_differences(a, b, pairs)]
    notes += [
        f"only in {one.run.path}: {some(map(str, one.only(other)))}"
        for one, other in ((left, right), (right, left))
        if one.only(other)
    ]
    lost = [f"{name}: left out of {a.path}" for name in left.unusable if name in right.only(left)]
    lost += [f"{name}: {right.why_not(name)} {b.path}" for name in left.only(right)]
    neither = [name for name in right.failed if name not in {**left.sides, **right.sides}]
    lost += [f"{name}: failed in {b.path}" for name in dict.fromkeys(neither)]
    lost += [f"{name}: {right.failures(name)} in {b.path}" for name in shared if right.lacks(name)]
    lost += [f"{b.path}: {sentence}" for sentence in right.incomplete]
    said = tuple(dict.fromkeys(notes))  # a run beside itself has all of them twice
    return Comparison(str(a.path), str(b.path), tuple(cells), said, tuple(lost))


def _ratios(a: Side, b: Side) -> dict[Metric, Ratio]:
    return {
        metric: Ratio(a.fields.get(metric), b.fields.get(metric), ratio_ends(metric, a, b))
        for metric in METRICS
    }


def _is_below(ratio: Ratio, limit: float) -> bool:
    if ratio.ratio is None:
        return False
    return (ratio.interval[1] if ratio.interval else ratio.ratio) < limit


def _first_of(run: Run, found: Iterable[CellName]) -> str:
    return f"{run.path} has {next(iter(found))}"
