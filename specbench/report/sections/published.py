"""The paper's tables beside what the formulas give and what this run gives nearest to them."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.others.published import (
    Beside,
    FormulaRow,
    LeaderboardRow,
    PaperRow,
    beside_run,
    load_published,
)
from specbench.analysis.shown.formats import MISSING, number
from specbench.report import fields
from specbench.report.material import Material
from specbench.report.parts import Field, Paragraph, Part, Rows, Table

TITLE, ORDER = "Beside published numbers", 80
FIGURES: tuple[str, ...] = ()

_OWN = ("this run's nearest", "its α", "its γ", "its c", "its speedup (95%)")
_TABLE_1 = ("paper's α", "γ", "operations, paper", "formula", "speedup, paper", "formula", *_OWN)
_TABLE_2 = (
    *("task and drafter", "T", "γ", "α", "c", "expected, paper", "formula", "measured, paper"),
    *_OWN,
)
_LEADERBOARD = ("method", "speedup, A100", "τ, A100", "speedup, RTX 3090", "τ, RTX 3090")
_MEANING = (
    "Leviathan, Kalman and Matias 2023 (arXiv 2211.17192). Right of the paper's numbers stand "
    "those of its formulas, then what this run measured where α, γ and c come nearest. Nearest "
    "need not be near: compare its α, γ and c before its speedup."
)
_WITHOUT = (
    "This run has no chain with α, c and a speedup, so nothing of it stands beside the tables."
)


def section(material: Material) -> Sequence[Part]:
    """Table 1, table 2, and Spec-Bench's leaderboard for methods that have no alpha."""
    if not material.groups:
        return []
    published = load_published()
    first, second = (
        beside_run(rows, material.fitted) for rows in (published.formulas, published.measured)
    )
    parts: list[Part] = [Paragraph(_MEANING)]
    if all(row.nearest is None for row in first):
        parts.append(Paragraph(_WITHOUT, "note"))
    formulas = [Rows([_formula(row, material) for row in first])]
    paper = [Rows([_paper(row, material) for row in second])]
    own = frozenset(_OWN[:1])
    return [
        *parts,
        Table("Table 1: the formulas at c = 0", _TABLE_1, formulas, own),
        Table("Table 2: T5-XXL", _TABLE_2, paper, own),
        _leaderboard(published.leaderboard),
    ]


def _formula(beside: Beside, material: Material) -> list[Field]:
    row = beside.row
    assert isinstance(row, FormulaRow)
    return [
        number(row.alpha),
        str(row.gamma),
        number(row.operations_factor),
        number(beside.formula_operations),
        number(row.speedup),
        number(beside.formula_speedup),
        *_nearest(beside, material),
    ]


def _paper(beside: Beside, material: Material) -> list[Field]:
    row = beside.row
    assert isinstance(row, PaperRow)
    return [
        f"{row.task}, {row.drafter}",
        f"{row.temperature:g}",
        str(row.gamma),
        number(row.alpha),
        number(row.c),
        number(row.expected_speedup, 1),
        number(beside.formula_speedup),
        number(row.measured_speedup, 1),
        *_nearest(beside, material),
    ]


def _nearest(beside: Beside, material: Material) -> list[Field]:
    if beside.nearest is None:
        return [MISSING] * len(_OWN)
    key, point = beside.nearest.key, beside.nearest.point
    (place,) = fields.places([key.setting], material.settings)
    return [
        f"{material.names[key.drafter]}, {place}",
        number(point.alpha),
        str(point.gamma),
        number(point.c, 3),
        fields.speedup(point),
    ]


def _leaderboard(rows: Sequence[LeaderboardRow]) -> Table:
    notes = [
        "Xia et al. 2024 (arXiv 2401.07851): Vicuna-7B v1.3, greedy, float16, batch 1, all tasks; "
        "τ counts the bonus token, as here. No α is told, so no formula stands beside it."
    ]
    fields_of = [
        [
            row.drafter,
            number(row.speedup_a100),
            number(row.tau_a100),
            number(row.speedup_rtx3090),
            number(row.tau_rtx3090),
        ]
        for row in rows
    ]
    return Table("Spec-Bench's leaderboard", _LEADERBOARD, [Rows(fields_of)], notes=notes)
