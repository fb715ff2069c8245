"""The published tables that come with the package, beside the formulas and beside a run.

>>> tables = load_published()                                                    # doctest: +SKIP
>>> beside_run(tables.measured, fit_run(load_run("results/main")))[0].nearest    # doctest: +SKIP
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import specbench
from specbench.analysis.fitted import GammaFit, RunFit
from specbench.analysis.pooling import GroupKey
from specbench.errors import SpecbenchError
from specbench.records.spec_text import pieces
from specbench.theory import closed_form

PAPER_TASKS = {"wmt14-en-de": "translation", "cnn-dailymail": "summarization"}
"""The paper's data sets -> the tasks that draw from them."""
PAPER = "Leviathan et al. 2023, table 2"
"""What a legend calls the paper's measurements."""

_ALPHA_STEP, _C_STEP = 0.1, 0.1  # as far as a factor of two in gamma


@dataclass(frozen=True)
class FormulaRow:
    """A row of the paper's table 1: what the formulas give at c = c_hat = 0."""

    alpha: float
    gamma: int
    operations_factor: float
    speedup: float


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's table 2: T5-XXL with one drafter on one task."""

    task: str
    temperature: float
    target: str
    drafter: str
    gamma: int
    alpha: float
    c: float
    expected_speedup: float
    measured_speedup: float


@dataclass(frozen=True)
class LeaderboardRow:
    """A method of Spec-Bench's leaderboard on two machines; tau counts the bonus token."""

    drafter: str
    speedup_a100: float
    tau_a100: float
    speedup_rtx3090: float
    tau_rtx3090: float


@dataclass(frozen=True)
class Published:
    """All tables: the paper's two, and Spec-Bench's."""

    formulas: tuple[FormulaRow, ...]
    measured: tuple[PaperRow, ...]
    leaderboard: tuple[LeaderboardRow, ...]


@dataclass(frozen=True)
class Nearest:
    """The measured point of a run that comes closest to a published row."""

    key: GroupKey
    point: GammaFit


@dataclass(frozen=True)
class Beside:
    """A published row, what the formulas give for it, and what a run gave nearest to it.

    Attributes:
        formula_speedup: closed form at the row's alpha, gamma and c.
        formula_operations: closed form at its alpha and gamma, c_hat = 0.
        nearest: None where the run has no chain with alpha, c and speedup.
    """

    row: FormulaRow | PaperRow
    formula_speedup: float
    formula_operations: float
    nearest: Nearest | None


def load_published() -> Published:
    """Read the tables.

    Raises:
        SpecbenchError: a file is missing or damaged, so the installation is.
    """
    return Published(
        tuple(
            FormulaRow(
                float(row["alpha"]),
                int(row["gamma"]),
                float(row["operations_factor"]),
                float(row["speedup_at_c0"]),
            )
            for row in _rows("leviathan2023_table1.csv")
        ),
        tuple(
            PaperRow(
                row["task"],
                float(row["temperature"]),
                row["target"],
                row["drafter"],
                int(row["gamma"]),
                *(float(row[name]) for name in _PAPER_NUMBERS),
            )
            for row in _rows("leviathan2023_table2.csv")
        ),
        tuple(
            LeaderboardRow(row["drafter"], *(float(row[name]) for name in _LEADERBOARD_NUMBERS))
            for row in _rows("spec_bench_vicuna7b.csv")
        ),
    )


_PAPER_NUMBERS = ("alpha", "c", "expected_speedup", "measured_speedup")
_LEADERBOARD_NUMBERS = ("speedup_a100", "tau_a100", "speedup_rtx3090", "tau_rtx3090")


def beside_run(
    rows: Sequence[FormulaRow | PaperRow], run: RunFit | None = None
) -> tuple[Beside, ...]:
    """Each row beside what the formulas give, and what a run gives at the nearest alpha, gamma, c.

    Nearest: 0.1 in alpha is as far as a factor of two in gamma and as 0.1 in c. Chains only, and no
    synthetic drafters, whose alpha somebody chose.

    Args:
        rows: of either of the paper's tables; c of table 1 is 0.
        run: a fitted run; None for the formulas alone.
    """
    return tuple(
        Beside(
            row,
            closed_form.speedup(row.alpha, row.gamma, _c(row)),
            closed_form.operations_factor(row.alpha, row.gamma, 0.0),
            _nearest(row, run) if run is not None else None,
        )
        for row in rows
    )


def same_setting(row: PaperRow, run: RunFit) -> Nearest | None:
    """What a run measured where the paper did: on that task, at that temperature, one prompt at a
    time, with a drafter of that name; of several gammas the one that comes nearest.

    >>> same_setting(load_published().measured[0], fit)     # doctest: +SKIP
    """
    found = [
        (abs(math.log2(point.gamma / row.gamma)), Nearest(group.key, point))
        for group in run.groups
        if group.key.setting.task == PAPER_TASKS[row.task]
        and group.key.setting.temperature == row.temperature
        and group.key.setting.batch_size == 1
        and _is_called(group.key.drafter, row.drafter)
        for point in group.points
    ]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _is_called(drafter: str, size: str) -> bool:
    """Whether a SPEC is of a draft model of the paper's size: ``model:google/flan-t5-small``."""
    kind, name, _ = pieces(drafter)
    return kind == "model" and Path(name).name.endswith(size)


def _c(row: FormulaRow | PaperRow) -> float:
    return row.c if isinstance(row, PaperRow) else 0.0


def _nearest(row: FormulaRow | PaperRow, run: RunFit) -> Nearest | None:
    found = [
        (_distance(row, point.alpha, point.gamma, point.c), Nearest(group.key, point))
        for group in run.groups
        if group.draft_form == "chain" and not group.synthetic
        for point in group.points
        if point.alpha is not None and point.c is not None and point.speedup is not None
    ]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _distance(row: FormulaRow | PaperRow, alpha: float, gamma: int, c: float) -> float:
    return math.hypot(
        (alpha - row.alpha) / _ALPHA_STEP, math.log2(gamma / row.gamma), (c - _c(row)) / _C_STEP
    )


def _rows(name: str) -> list[dict[str, str]]:
    file = published_dir() / name
    try:
        with file.open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))
    except OSError as error:
        raise SpecbenchError(
            f"cannot read the published table {file}: {error.strerror}", "Install specbench again"
        ) from error


def published_dir() -> Path:
    """The folder of the tables: inside an installed wheel, or in a checkout's results."""
    package = Path(specbench.__file__).parent
    installed = package / "_published"
    return installed if installed.is_dir() else package.parent / "results" / "published"
