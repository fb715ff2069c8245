from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specbench.analysis.checking.completeness import incomplete
from specbench.analysis.fit import fit_run
from specbench.analysis.recommending import recommend
from specbench.records.reading import CELLS
from specbench.records.store import load_run
from tests.folders import change_manifest
from tests.simulate import SimulatedDrafter, simulate_run

PLAN: dict[str, Any] = {
    "drafters": ["ngram"],
    "gammas": [2, 4],
    "temperatures": [0.0],
    "batch_sizes": [1],
    "repeats": 1,
    "backends": ["native"],
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two blocks of four cells."""
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02)}
    folder = simulate_run(
        tmp_path / "run", drafters, gammas=(2, 4), tasks=("code", "chat"), prompts=8
    )
    change_manifest(folder, config=PLAN)
    return folder


def cut(folder: Path, keep: int, ending: str = "") -> None:
    """Keep only so many lines of the cells."""
    lines = (folder / CELLS).read_text().splitlines(keepends=True)
    (folder / CELLS).write_text("".join(lines[:keep]) + ending)


def test_a_whole_run_says_nothing(run: Path) -> None:
    assert incomplete(load_run(run)) == []
    assert not any("provisional" in note for note in fit_run(load_run(run)).warnings)


def test_a_run_that_has_not_ended_says_so(run: Path) -> None:
    change_manifest(run, finished=None)
    (note,) = incomplete(load_run(run))
    assert note.startswith("the run has not ended: all numbers are provisional")
    assert note in fit_run(load_run(run)).warnings
    assert note in recommend(fit_run(load_run(run))).notes


def test_missing_cells_are_counted(run: Path) -> None:
    cut(run, 3)
    (note,) = incomplete(load_run(run))
    assert note.startswith("5 of 8 cells of the plan are missing")


def test_what_cannot_exist_is_not_missing(run: Path) -> None:
    change_manifest(run, config={**PLAN, "batch_sizes": [1, 64]}, dropped=[{"cell": "x"}] * 4)
    assert incomplete(load_run(run)) == []


def test_a_last_line_that_was_cut_is_told(run: Path) -> None:
    change_manifest(run, config={})  # so that no plan tells it
    cut(run, 7, '{"target": "si')
    (note,) = incomplete(load_run(run))
    assert note.startswith(f"the last line of {CELLS} is cut short")


def test_a_choice_beside_one_baseline_is_provisional(run: Path) -> None:
    assert not any(one.provisional for one in recommend(fit_run(load_run(run))).decisions)
    lines = (run / CELLS).read_text().splitlines(keepends=True)
    last = [line for line in lines if json.loads(line)["baseline"] == "last"]
    (run / CELLS).write_text("".join(line for line in lines if line != last[0]))
    answer = recommend(fit_run(load_run(run)))
    code, chat = answer.decisions
    assert code.choice.gamma > 0
    assert chat.choice.gamma > 0
    assert (code.provisional, chat.provisional) == (True, False)
    (note,) = [note for note in answer.notes if note.startswith("only one baseline finished")]
    assert "provisional: code, T = 0, batch 1" in note
