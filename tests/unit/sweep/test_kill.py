"""Killed with SIGKILL at any moment and started again, a run is what it would have been."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from specbench.records.store import load_run
from tests.tiny_target import PROMPTS, write_prompts
from tests.unit.sweep.checks import check_derived, outputs
from tests.unit.sweep.killed import MOMENTS

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and fork are POSIX")

CELLS = 7
THERE = {
    "while_recording": 0,
    "during_a_cell": 2,
    "between_table_and_line": 2,
    "at_a_blocks_end": 4,
    "at_the_last_blocks_end": 7,
}
"""Cells that are on disk after the kill."""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, tiny_chat: Path) -> Path:
    """All runs of ``killed``, and the uninterrupted one."""
    root = tmp_path_factory.mktemp("killed")
    prompts = write_prompts(root / "mine.jsonl", PROMPTS[:2], chats=1)
    words = ["-m", "tests.unit.sweep.killed", str(root), str(tiny_chat), str(prompts)]
    result = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "SPECBENCH_CACHE": str(root / "cache")},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return root


def references(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (folder / "references").glob("*")}


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_kill_came_when_it_should(killed: Path, moment: str):
    run = load_run(killed / f"{moment}-killed")
    assert len(run.cells) == THERE[moment]
    assert run.manifest.finished is None
    if moment == "between_table_and_line":
        lines = {f"{cell.cell_id}.parquet" for cell in run.cells}
        assert len({file.name for file in (run.path / "rounds").iterdir()} - lines) == 1
    if moment == "at_a_blocks_end":
        assert all(cell.noise_floor is None for cell in run.cells)


@pytest.mark.parametrize("moment", MOMENTS)
def test_the_resumed_run_has_every_cell_once(killed: Path, moment: str):
    whole = [cell.cell_id for cell in load_run(killed / "whole").cells]
    assert len(whole) == CELLS
    lines = (killed / moment / "cells.jsonl").read_text().splitlines()
    ids = [json.loads(line)["cell_id"] for line in lines]
    assert sorted(ids) == sorted(whole)
    for part in ("rounds", "requests"):
        files = {file.name for file in (killed / moment / part).iterdir()}
        assert files == {f"{cell_id}.parquet" for cell_id in whole}
    assert not list((killed / moment).rglob("*.tmp"))
    assert load_run(killed / moment).manifest.finished is not None


@pytest.mark.parametrize("moment", MOMENTS)
def test_what_was_measured_before_the_kill_stays(killed: Path, moment: str):
    there = load_run(killed / f"{moment}-killed")
    assert len(there.cells) == THERE[moment]
    for cell in there.cells:
        before, after = (
            run / "rounds" / f"{cell.cell_id}.parquet" for run in (there.path, killed / moment)
        )
        assert after.read_bytes() == before.read_bytes()


@pytest.mark.parametrize("moment", MOMENTS)
def test_prompts_and_recorded_answers_are_the_same_before_and_after(killed: Path, moment: str):
    assert references(killed / moment) == references(killed / "whole")
    if moment != "while_recording":
        assert references(killed / f"{moment}-killed") == references(killed / "whole")
    run, whole = load_run(killed / moment), load_run(killed / "whole")
    assert len(run.cells) == CELLS
    for cell in run.cells:
        ours, theirs = run.requests(cell.cell_id), whole.requests(cell.cell_id)
        assert list(ours.prompt_id) == ["p0", "p1", "c0#1", "c0#2"]
        assert list(ours.prompt_tokens) == list(theirs.prompt_tokens)


@pytest.mark.parametrize("moment", MOMENTS)
def test_every_output_is_that_of_the_uninterrupted_run(killed: Path, moment: str):
    run, whole = load_run(killed / moment), load_run(killed / "whole")
    assert len(run.cells) == CELLS
    for cell in run.cells:
        other = whole.cell(cell.cell_id)
        assert outputs(run, cell) == outputs(whole, other), cell.cell_id
        assert (cell.alpha, cell.tau, cell.tokens) == (other.alpha, other.tau, other.tokens)
        assert cell.lossless == other.lossless
        assert cell.status == "ok"


@pytest.mark.parametrize("moment", [*MOMENTS, "whole"])
def test_the_summaries_are_what_a_fresh_analysis_derives(killed: Path, moment: str):
    run = load_run(killed / moment)
    check_derived(run)
    assert all(cell.noise_floor is not None for cell in run.cells)
