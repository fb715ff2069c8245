"""Two runs side by side, cell by cell: ratios B / A with intervals, and what does not match.

Cells are the same if task, temperature, top-k, top-p, batch size, drafter and gamma are, whatever
the machine: repeats are pooled. Where both runs asked the same prompts, ratios are paired by
conversation, so what makes a prompt easy drops out; speed at batch sizes above 1 is over time. The
ratio of speedups is put together from both runs' own intervals, as if they had been independent,
which is the wider way where prompts are the same.

Source of that: Zou and Donner 2008, "Construction of confidence limits about effect measures: a
general approach", on the log scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from specbench.analysis import imported
from specbench.analysis.checking import Violations, nothing_left, violations
from specbench.analysis.names import some, with_gamma
from specbench.analysis.pooling import DIVERGED, Raw, RawTables, Setting, groups
from specbench.analysis.unlike import RawPair, asked_differences, run_differences
from specbench.errors import SpecbenchError
from specbench.records.reading import Run
from specbench.records.schema import BASELINE_DRAFTER, CellKey, CellRecord, DraftForm
from specbench.records.steps import Numbers, counted_steps, integers, numbers, values
from specbench.records.summary import summarize
from specbench.theory.clusters import MIN_TIME_BLOCKS, cluster_sums, time_blocks
from specbench.theory.intervals import paired_ratio_of_ratios, product_of_ratios

Metric = Literal["tok_per_s", "speedup", "alpha", "tau"]
METRICS: tuple[Metric, ...] = ("tok_per_s", "speedup", "alpha", "tau")

Ends = tuple[float, float]


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

    @property
    def draft_form(self) -> DraftForm:
        """What gamma means."""
        return CellKey(**{**self._asdict(), "target": "x"}).draft_form

    def __str__(self) -> str:
        how = "plain decoding"
        if self.drafter != BASELINE_DRAFTER:
            how = with_gamma(self.drafter, self.draft_form, self.gamma)
        extras = [f"top-k {self.top_k}"] if self.top_k else []
        extras += [f"top-p {self.top_p:g}"] if self.top_p != 1.0 else []
        extras += [name for name in (self.target, self.backend) if name]
        where = [self.task, f"T = {self.temperature:g}", f"batch {self.batch_size}", *extras]
        return f"{', '.join(where)}, {how}"


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


@dataclass(frozen=True)
class ComparedCell:
    """A cell that both runs have.

    Attributes:
        doubts: why its speed says nothing; empty for an honest cell.
    """

    name: CellName
    ratios: Mapping[Metric, Ratio]
    doubts: tuple[str, ...] = ()

    @property
    def gate(self) -> Ratio:
        """What a regression shows in: tokens per second, or the speedup where no speed is known."""
        speed = self.ratios["tok_per_s"]
        return speed if speed.ratio is not None else self.ratios["speedup"]


@dataclass(frozen=True)
class Comparison:
    """All cells of both runs that match, and sentences on what does not.

    Attributes:
        left_out: cells of one run that the other lacks because they failed or can't be used.
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
    several = _several(a, b)
    left, right = _Checked.of(a, several), _Checked.of(b, several)
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
        cells.append(ComparedCell(name, _ratios(one, other), (*one.doubts, *other.doubts)))
        if one.raw is not None and other.raw is not None:
            pairs.append(RawPair(str(name), name.task, one.raw, other.raw))
    notes = [*left.notes, *right.notes, *run_differences(a, b), *asked_differences(a, b, pairs)]
    notes += [
        f"only in {one.run.path}: {some(map(str, one.only(other)))}"
        for one, other in ((left, right), (right, left))
        if one.only(other)
    ]
    lost = [f"{name}: left out of {a.path}" for name in left.unusable if name in right.only(left)]
    lost += [f"{name}: left out of {b.path}" for name in right.unusable if name in left.only(right)]
    lost += [f"{name}: failed in {b.path}" for name in right.failed if name in left.only(right)]
    return Comparison(str(a.path), str(b.path), tuple(cells), tuple(notes), tuple(lost))


def _is_below(ratio: Ratio, limit: float) -> bool:
    if ratio.ratio is None:
        return False
    return (ratio.interval[1] if ratio.interval else ratio.ratio) < limit


@dataclass(frozen=True)
class _Side:
    """One run's numbers of a cell; raw tables where it has them."""

    fields: Mapping[str, Any]
    batch_size: int
    raw: Raw | None
    doubts: tuple[str, ...]
    diverged: bool


@dataclass(frozen=True)
class _Checked:
    """One run's cells that can be used, those that can't, and notes on both."""

    run: Run
    sides: Mapping[CellName, _Side]
    unusable: Sequence[CellName]
    failed: Sequence[CellName]
    notes: Sequence[str]

    @classmethod
    def of(cls, run: Run, several: tuple[bool, bool]) -> _Checked:
        """Check and read a run as a fit does.

        Raises:
            SpecbenchError: no finished cell can be used.
        """
        tables = RawTables(run)
        wrong = violations(run, tables)
        sides = _cells(run, several, tables, wrong)
        if not sides:
            problem = nothing_left(run, wrong)
            raise SpecbenchError(f"in {run.path}: {problem.message}", problem.hint)
        unusable = [cell for cell in run.cells if cell.cell_id in wrong.unusable]
        failed = [cell for cell in run.cells if cell.status != "ok"]
        notes = [f"{run.path}: {sentence}" for sentence in wrong.sentences]
        if diverged := [str(name) for name, side in sides.items() if side.diverged]:
            notes.append(
                f"{run.path}: {DIVERGED}: output differs from plain decoding, a bug; its speed "
                f"means nothing: {some(diverged)}"
            )
        left_out, lost = ([_name_of(cell, several) for cell in part] for part in (unusable, failed))
        return cls(run, sides, left_out, lost, notes)

    def only(self, other: _Checked) -> list[CellName]:
        """Cells that the other run does not have."""
        return [name for name in self.sides if name not in other.sides]


def _several(a: Run, b: Run) -> tuple[bool, bool]:
    """Whether targets, and whether backends, tell cells of a run apart."""
    targets, backends = (
        [{getattr(cell, name) for cell in run.cells} for run in (a, b)]
        for name in ("target", "backend")
    )
    return max(map(len, targets)) > 1, max(map(len, backends)) > 1


def _name_of(cell: CellRecord, several: tuple[bool, bool]) -> CellName:
    return CellName(
        task=cell.task,
        temperature=cell.temperature,
        batch_size=cell.batch_size,
        top_k=cell.top_k,
        top_p=cell.top_p,
        drafter=cell.drafter,
        gamma=0 if cell.is_baseline else cell.gamma,
        target=cell.target if several[0] else "",
        backend=cell.backend if several[1] else "",
    )


def _cells(
    run: Run, several: tuple[bool, bool], tables: RawTables, wrong: Violations
) -> dict[CellName, _Side]:
    """Every gamma of every group, and plain decoding once per setting."""
    usable = [cell for cell in run.cells if cell.cell_id not in wrong.unusable]
    plain = [cell for cell in usable if cell.is_baseline and cell.status == "ok"]
    found: dict[CellName, _Side] = {}

    def add(cells: Sequence[CellRecord], baselines: Sequence[CellRecord]) -> None:
        if cells and (name := _name_of(cells[0], several)) not in found:
            found[name] = _side(cells, baselines, tables, wrong, run)

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
) -> _Side:
    doubts = []
    if diverged := any(cell.lossless == DIVERGED for cell in cells):
        doubts.append(f"{DIVERGED} in {run.path}")
    if any(cell.cell_id in wrong.doubtful for cell in cells):
        doubts.append(f"numbers that cannot be in {run.path}")
    batch_size = cells[0].batch_size
    if any(cell.imported_from is not None for cell in cells):
        return _Side(imported.joined(cells), batch_size, None, tuple(doubts), diverged)
    raw = tables.joined(cells)
    fields = summarize(cells[0], *raw, baselines=[tables.of(cell) for cell in baselines])
    return _Side(fields, batch_size, raw, tuple(doubts), diverged)


def _ratios(a: _Side, b: _Side) -> dict[Metric, Ratio]:
    return {
        metric: Ratio(a.fields.get(metric), b.fields.get(metric), _interval(metric, a, b))
        for metric in METRICS
    }


def _interval(metric: Metric, a: _Side, b: _Side) -> Ends | None:
    if metric == "speedup" or a.raw is None or b.raw is None:
        return _independent(a.fields, b.fields, metric)
    if metric == "tok_per_s" and a.batch_size > 1:
        return _over_time(a.batch_size, a.raw, b.raw)
    left, right = _by_conversation(a.raw, metric), _by_conversation(b.raw, metric)
    if left.keys() == right.keys():
        columns = np.array([(*right[name], *left[name]) for name in left]).reshape(-1, 4)
        interval = paired_ratio_of_ratios(*columns.T)
    else:
        (top, bottom), (base_top, base_bottom) = (
            np.array(list(sums.values())).reshape(-1, 2).T for sums in (right, left)
        )
        interval = product_of_ratios([(top, bottom), (base_bottom, base_top)])
    return interval.ends if interval else None


def _over_time(batch_size: int, a: Raw, b: Raw) -> Ends | None:
    """Speed of a batch: tokens per row and round vary between conversations, steps over time."""
    own, base = _speed_parts(batch_size, b), _speed_parts(batch_size, a)
    if min(own.steps.size, base.steps.size) < MIN_TIME_BLOCKS:
        return None
    interval = product_of_ratios(
        [
            (own.tokens, own.rows),
            (own.steps, own.seconds),
            (base.rows, base.tokens),
            (base.seconds, base.steps),
        ]
    )
    if interval is None:
        return None
    rows = own.rows_per_step / base.rows_per_step  # known, and 1 where all slots were full
    return rows * interval.low, rows * interval.high


class _SpeedParts(NamedTuple):
    """tokens, rows: by conversation; steps, seconds: by time block; of the counted steps."""

    tokens: Numbers
    rows: Numbers
    steps: Numbers
    seconds: Numbers
    rows_per_step: float


def _speed_parts(batch_size: int, raw: Raw) -> _SpeedParts:
    rounds, requests = raw
    steps = counted_steps(rounds, batch_size)
    active = numbers(rounds, "active_rows")
    counted = active == batch_size if steps.all_full else np.ones(active.size, dtype=np.bool_)
    conversations = np.asarray(values(requests, "conversation"), dtype=np.str_)
    _, (tokens, rows) = cluster_sums(
        conversations[integers(rounds, "request")],
        numbers(rounds, "num_emitted") * counted,
        counted,
    )
    seconds, count = time_blocks(steps.seconds, np.ones(len(steps)))
    return _SpeedParts(tokens, rows, count, seconds, float(steps.active_rows.mean()))


def _independent(a: Mapping[str, Any], b: Mapping[str, Any], metric: Metric) -> Ends | None:
    """Zou and Donner's limits of a ratio, from the limits of its two parts."""
    ends_a, ends_b = a.get(f"{metric}_ci"), b.get(f"{metric}_ci")
    if ends_a is None or ends_b is None or min(*ends_a, *ends_b) <= 0.0:
        return None
    middle_a, middle_b = math.log(a[metric]), math.log(b[metric])
    (low_a, high_a), (low_b, high_b) = (
        [math.log(end) for end in ends] for ends in (ends_a, ends_b)
    )
    middle = middle_b - middle_a
    below = math.hypot(middle_b - low_b, high_a - middle_a)
    above = math.hypot(high_b - middle_b, middle_a - low_a)
    return math.exp(middle - below), math.exp(middle + above)


def _by_conversation(raw: Raw, metric: Metric) -> dict[str, Numbers]:
    """Conversation -> the two sums whose ratio the metric is, at batch size 1 for speed."""
    rounds, requests = raw
    accepted = integers(rounds, "num_accepted")
    top, bottom = accepted + 1, np.ones(accepted.size)
    if metric == "alpha":
        top, bottom = accepted, numbers(rounds, "num_evaluated")
    elif metric == "tok_per_s":
        parts = (numbers(rounds, name) for name in ("draft_s", "verify_s", "other_s"))
        top, bottom = integers(rounds, "num_emitted"), np.asarray(sum(parts))
    conversations = np.asarray(values(requests, "conversation"), dtype=np.str_)
    names, columns = cluster_sums(conversations[integers(rounds, "request")], top, bottom)
    return dict(zip(names.tolist(), np.column_stack(columns), strict=True))


def _first_of(run: Run, found: Iterable[CellName]) -> str:
    return f"{run.path} has {next(iter(found))}"
