"""Numbers that the closed forms have to reproduce: by hand, and from the paper's own tables."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from specbench.theory import closed_form

PUBLISHED = Path(__file__).parents[2] / "results" / "published"


def published(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_tokens_per_round_and_cost_factor() -> None:
    assert closed_form.expected_tokens(0.8, 4) == pytest.approx(3.3616, abs=1e-12)
    tokens, speedup = closed_form.expected_tokens(0.8, 4), closed_form.speedup(0.8, 4, 0.02)
    assert tokens / speedup == pytest.approx(1.08, abs=1e-12)


@pytest.mark.parametrize(
    ("alpha", "speedup"), [(0.5, 1.794), (0.6, 2.135), (0.7, 2.568), (0.8, 3.113), (0.9, 3.792)]
)
def test_speedups_at_gamma_4_and_cost_0_02(alpha: float, speedup: float) -> None:
    assert closed_form.speedup(alpha, 4, 0.02) == pytest.approx(speedup, abs=5e-4)


def test_conventions_of_other_tools_at_alpha_0_75() -> None:
    # i.i.d. acceptance, gamma 7: accepted / drafted is 0.371 and tokens per round 3.60
    tokens = closed_form.expected_tokens(0.75, 7)
    assert tokens == pytest.approx(3.60, abs=5e-3)
    assert (tokens - 1) / 7 == pytest.approx(0.371, abs=5e-4)


def test_table_of_operations_and_speedup() -> None:
    rows = published("leviathan2023_table1.csv")
    assert len(rows) == 6
    for row in rows:
        alpha, gamma = float(row["alpha"]), int(row["gamma"])
        factor = closed_form.operations_factor(alpha, gamma, 0.0)
        assert factor == pytest.approx(float(row["operations_factor"]), abs=0.07)
        speedup = closed_form.speedup(alpha, gamma, 0.0)
        assert speedup == pytest.approx(float(row["speedup_at_c0"]), abs=0.07)


def test_table_of_expected_speedups() -> None:
    rows = published("leviathan2023_table2.csv")
    assert len(rows) == 12
    for row in rows:
        speedup = closed_form.speedup(float(row["alpha"]), int(row["gamma"]), float(row["c"]))
        assert speedup == pytest.approx(float(row["expected_speedup"]), abs=0.07)


def test_the_papers_gamma_is_not_the_argmax() -> None:
    first = published("leviathan2023_table2.csv")[0]
    assert int(first["gamma"]) == 7
    assert closed_form.optimal_gamma(float(first["alpha"]), float(first["c"]), 16) == 9
