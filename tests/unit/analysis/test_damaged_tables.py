"""One cell's tables damaged in every way: the cell is named and left out, the others are fitted."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from specbench.analysis.claims import check_claims
from specbench.analysis.fit import fit_run
from specbench.analysis.machine.limits import limits_of
from specbench.analysis.others.conventions import report_run
from specbench.errors import SpecbenchError
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run

Damage = Callable[[pd.DataFrame], pd.DataFrame]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02)}
    folder = tmp_path_factory.mktemp("runs") / "whole"
    return simulate_run(folder, drafters, gammas=(1, 2, 4), prompts=8, tokens=32)


def damaged(whole: Path, folder: Path, part: str, names: str, damage: Damage) -> Path:
    """A copy of the run in which the tables with a pattern in their name are changed."""
    shutil.copytree(whole, folder)
    files = list((folder / part).glob(names))
    assert files
    for file in files:
        damage(pd.read_parquet(file)).to_parquet(file)
    return folder


def without(name: str) -> Damage:
    return lambda table: table.drop(columns=[name])


def with_value(name: str, value: object, row: int | None = None) -> Damage:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        column = table[name].astype(object)
        column.iloc[slice(None) if row is None else slice(row, row + 1)] = value
        return table.assign(**{name: column})

    return change


def no_rows(table: pd.DataFrame) -> pd.DataFrame:
    return table.iloc[:0]


def no_time(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(draft_s=0.0, verify_s=0.0, other_s=0.0)


@pytest.mark.parametrize(
    ("part", "damage", "reason"),
    [
        *((("rounds", without(name), f"has no column {name}")) for name in
          ("num_accepted", "num_evaluated", "draft_s", "num_verified", "step", "request")),
        *((("requests", without(name), f"has no column {name}")) for name in
          ("conversation", "num_tokens", "decode_s", "output_ids", "drafter_prefill_s")),
        ("rounds", with_value("num_accepted", None), "holds no numbers in num_accepted"),
        ("rounds", with_value("num_accepted", "1"), "holds no numbers in num_accepted"),
        ("rounds", with_value("num_emitted", None, 2), "holds nothing in num_emitted: row 2"),
        ("rounds", with_value("num_accepted", 0.5, 2), "holds 0.5 in num_accepted: row 2"),
        ("rounds", with_value("num_accepted", -1, 1), "holds -1 in num_accepted: row 1"),
        ("rounds", with_value("verify_s", math.nan, 3), "holds nothing in verify_s: row 3"),
        ("rounds", with_value("verify_s", math.inf, 3), "holds inf in verify_s: row 3"),
        ("rounds", with_value("draft_s", -1.0), "holds -1 in draft_s: row 0"),
        ("rounds", with_value("active_rows", 0, 4), "has no active row: row 4"),
        ("rounds", with_value("request", 99, 0), "names a request beyond the 8 there are: row 0"),
        ("rounds", no_time, "has a step that takes no time: row 0"),
        ("requests", no_rows, "holds no request"),
        ("requests", with_value("wall_s", math.inf, 1), "holds inf in wall_s: row 1"),
        ("requests", with_value("conversation", None, 1), "holds nothing in conversation: row 1"),
    ],
)  # fmt: skip
def test_a_cell_whose_table_cannot_be_used_is_named_and_left_out(
    whole: Path, tmp_path: Path, part: str, damage: Damage, reason: str
) -> None:
    folder = damaged(whole, tmp_path / "run", part, "*-g2-*", damage)
    run = load_run(folder)
    fitted = fit_run(run)
    (file,) = (folder / part).glob("*-g2-*")
    note = "left out, its table cannot be used: ngram γ = 2 (code, T = 0, batch 1)"
    assert f"{note}: {file} {reason}" in fitted.warnings
    (group,) = fitted.groups
    assert [point.gamma for point in group.points] == [1, 4]
    assert all(point.speedup is not None for point in group.points)


def test_every_answer_goes_on_without_the_cell(whole: Path, tmp_path: Path) -> None:
    folder = damaged(whole, tmp_path / "run", "rounds", "*-g2-*", without("num_accepted"))
    run = load_run(folder)
    fitted = fit_run(run)
    check_claims(run, fitted)
    limits_of(run, fitted)
    rows, notes = report_run(run, "vllm")
    assert [row.gamma for row in rows] == [1, 4]
    assert "has no column num_accepted" in notes[0]


def test_a_damaged_baseline_is_left_out_too(whole: Path, tmp_path: Path) -> None:
    damage = with_value("verify_s", math.inf)
    folder = damaged(whole, tmp_path / "run", "rounds", "*-first-*", damage)
    run = load_run(folder)
    fitted = fit_run(run)
    assert "plain decoding (code, T = 0, batch 1)" in fitted.warnings[0]
    assert any("only one baseline finished" in note for note in fitted.warnings)
    check_claims(run, fitted)


@pytest.mark.parametrize("damage", [without("num_accepted"), with_value("verify_s", math.nan)])
def test_where_nothing_is_left_one_table_is_named_with_a_way_out(
    whole: Path, tmp_path: Path, damage: Damage
) -> None:
    run = load_run(damaged(whole, tmp_path / "run", "rounds", "*", damage))
    for answer in (fit_run, lambda run: report_run(run, "vllm")):
        with pytest.raises(
            SpecbenchError, match=r"\.parquet (has no column|holds no numbers)"
        ) as said:
            answer(run)
        assert said.value.hint.startswith("Leave the cell out with `sed")


def test_of_many_damaged_cells_three_are_named(tmp_path: Path) -> None:
    several = simulate_run(
        tmp_path / "more",
        {"ngram": SimulatedDrafter(0.7, 0.02)},
        gammas=(1, 2, 3, 4, 5, 8),
        prompts=6,
        tokens=16,
    )
    folder = damaged(several, tmp_path / "damaged", "rounds", "*-g[1-5]-*", without("step"))
    notes = [note for note in fit_run(load_run(folder)).warnings if note.startswith("left out")]
    assert len(notes) == 4
    assert notes[-1] == "left out for the same reason: 2 more cells"
