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
from specbench.analysis.names import with_gamma
from specbench.analysis.pooling import Raw, RawTables, groups
from specbench.errors import SpecbenchError
from specbench.records.reading import Run
from specbench.records.schema import BASELINE_DRAFTER, CellRecord, DraftForm
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
        return CellRecord(cell_id="", **{**self._asdict(), "target": "x"}).draft_form

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
    """A cell that both runs have."""

    name: CellName
    ratios: Mapping[Metric, Ratio]

    @property
    def gate(self) -> Ratio:
        """What a regression shows in: tokens per second, or the speedup where no speed is known."""
        speed = self.ratios["tok_per_s"]
        return speed if speed.ratio is not None else self.ratios["speedup"]


@dataclass(frozen=True)
class Comparison:
    """All cells of both runs that match, and sentences on what does not."""

    a: str
    b: str
    cells: tuple[ComparedCell, ...]
    differences: tuple[str, ...]

    def below(self, limit: float) -> list[ComparedCell]:
        """Cells that are slower in B: their whole interval, or else their ratio, is below."""
        return [cell for cell in self.cells if _is_below(cell.gate, limit)]


def compare_runs(a: Run, b: Run) -> Comparison:
    """Set two runs side by side.

    Raises:
        SpecbenchError: they have no cell in common, or a table can't be read.
    """
    several = _several(a, b)
    left, right = _cells(a, several), _cells(b, several)
    shared = [name for name in left if name in right]
    if not shared:
        raise SpecbenchError(
            f"no finished cell of {a.path} is in {b.path}: {_missing(left, right)}",
            "Cells match by task, temperature, batch size, top-k, top-p, drafter and gamma",
        )
    cells = tuple(ComparedCell(name, _ratios(left[name], right[name])) for name in shared)
    only = [*_only(a, left, right), *_only(b, right, left)]
    return Comparison(str(a.path), str(b.path), cells, (*_differences(a, b), *only))


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


def _several(a: Run, b: Run) -> tuple[bool, bool]:
    """Whether targets, and whether backends, tell cells of a run apart."""
    targets, backends = (
        [{getattr(cell, name) for cell in run.cells} for run in (a, b)]
        for name in ("target", "backend")
    )
    return max(map(len, targets)) > 1, max(map(len, backends)) > 1


def _cells(run: Run, several: tuple[bool, bool]) -> dict[CellName, _Side]:
    """Every gamma of every group, and plain decoding once per setting."""
    tables = RawTables(run)
    found: dict[CellName, _Side] = {}
    for group in groups(run.cells):
        setting = group.key.setting
        where = (setting.task, setting.temperature, setting.batch_size, setting.top_k)
        tail = (setting.target if several[0] else "", setting.backend if several[1] else "")
        plain = CellName(*where, setting.top_p, BASELINE_DRAFTER, 0, *tail)
        if plain not in found and group.baselines:
            found[plain] = _side(group.baselines, [], tables)
        for gamma, cells in group.cells.items():
            name = CellName(*where, setting.top_p, group.key.drafter, gamma, *tail)
            found[name] = _side(cells, group.baselines, tables)
    return found


def _side(cells: Sequence[CellRecord], baselines: Sequence[CellRecord], tables: RawTables) -> _Side:
    if any(cell.imported_from is not None for cell in cells):
        return _Side(imported.joined(cells), cells[0].batch_size, None)
    raw = tables.joined(cells)
    fields = summarize(cells[0], *raw, baselines=[tables.of(cell) for cell in baselines])
    return _Side(fields, cells[0].batch_size, raw)


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


def _differences(a: Run, b: Run) -> list[str]:
    """What the runs themselves differ in, by name, with both values."""
    left, right = _facts(a), _facts(b)
    names = [name for name in dict.fromkeys([*left, *right]) if left.get(name) != right.get(name)]
    return [
        f"another {name}: {_shown(left.get(name))} in {a.path}, "
        f"{_shown(right.get(name))} in {b.path}"
        for name in names
    ]


def _facts(run: Run) -> dict[str, str | None]:
    manifest = run.manifest
    gpu = manifest.device.get("gpu")
    machine = gpu.get("name") if isinstance(gpu, dict) else manifest.device.get("cpu")
    backends = sorted({cell.backend for cell in run.cells})
    facts: dict[str, Any] = {
        "target": manifest.target.get("name"),
        "dtype": manifest.target.get("dtype"),
        "attention": manifest.target.get("attention"),
        "backend": ", ".join(backends) or None,
        "device": manifest.device.get("device"),
        "machine": machine,
        "number of threads": manifest.device.get("threads"),
        "seed": manifest.seed,
        "commit": (manifest.git or {}).get("commit"),
    }
    weights = {"target": manifest.target, **manifest.drafters}
    facts |= {f"sha256 of {name}": found.get("sha256") for name, found in weights.items()}
    facts |= {f"version of {name}": version for name, version in manifest.packages.items()}
    return {name: None if value is None else str(value) for name, value in facts.items()}


def _shown(value: str | None) -> str:
    return "not known" if value is None else value


def _only(run: Run, here: Iterable[CellName], there: Mapping[CellName, _Side]) -> list[str]:
    missing = [str(name) for name in here if name not in there]
    return [f"only in {run.path}: {'; '.join(missing)}"] if missing else []


def _missing(left: Iterable[CellName], right: Iterable[CellName]) -> str:
    first, second = next(iter(left), None), next(iter(right), None)
    return f"{first or 'nothing'} there, {second or 'nothing'} here"
