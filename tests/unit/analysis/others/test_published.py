"""The published tables as they come with the package: the formulas reproduce them."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.others.published import PaperRow, beside_run, load_published
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run

ROUNDING = 0.07


def test_formulas_reproduce_both_tables_of_the_paper() -> None:
    tables = load_published()
    assert (len(tables.formulas), len(tables.measured), len(tables.leaderboard)) == (6, 12, 10)
    for beside, row in zip(beside_run(tables.formulas), tables.formulas, strict=True):
        assert beside.formula_speedup == pytest.approx(row.speedup, abs=ROUNDING)
        assert beside.formula_operations == pytest.approx(row.operations_factor, abs=ROUNDING)
    for beside, measured in zip(beside_run(tables.measured), tables.measured, strict=True):
        assert beside.formula_speedup == pytest.approx(measured.expected_speedup, abs=ROUNDING)
        assert beside.nearest is None


def test_a_run_answers_with_its_nearest_point(tmp_path: Path) -> None:
    folder = simulate_run(
        tmp_path / "run",
        {
            "ngram": SimulatedDrafter(0.5, 0.02),
            "model:m": SimulatedDrafter(0.8, 0.11),
            "synthetic:0.75": SimulatedDrafter(0.75, 0.02),
        },
        gammas=(3, 7),
        prompts=8,
    )
    row = PaperRow("t", 0.0, "t5-xxl", "t5-large", 7, 0.82, 0.11, 2.5, 1.7)
    (beside,) = beside_run([row], fit_run(load_run(folder)))
    assert beside.nearest is not None
    assert (beside.nearest.key.drafter, beside.nearest.point.gamma) == ("model:m", 7)
    low = PaperRow("t", 1.0, "t5-xxl", "t5-small", 3, 0.53, 0.02, 1.9, 2.3)
    (beside,) = beside_run([low], fit_run(load_run(folder)))
    assert beside.nearest is not None
    assert (beside.nearest.key.drafter, beside.nearest.point.gamma) == ("ngram", 3)


def test_the_leaderboard_is_in_order_of_speed() -> None:
    speeds = [row.speedup_a100 for row in load_published().leaderboard]
    assert speeds == sorted(speeds, reverse=True)
    assert all(1 < row.tau_a100 < 6 for row in load_published().leaderboard)
