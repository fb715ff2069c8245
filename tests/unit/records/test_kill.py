"""A writer killed with SIGKILL leaves whole cells only, and resuming gives each cell once."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from specbench.records.store import load_run
from tests.unit.records import kill_switch, samples

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and fork are POSIX")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: a kill, unlike a power cut, does not need a disk."""
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        dir=shared if os.access(shared, os.W_OK) else tmp_path
    ) as name:
        yield Path(name)


def writer(folder: Path, mode: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.unit.records.kill_switch", str(folder), mode]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def whole_cells(folder: Path) -> list[int]:
    """The gammas of the cells that can be seen, each with its tables."""
    run = load_run(folder)
    for cell in run.cells:
        assert len(run.rounds(cell.cell_id)) == 5
        assert len(run.requests(cell.cell_id)) == 2
    return [cell.gamma for cell in run.cells]


def each_once(folder: Path, gammas: list[int]) -> None:
    lines = (folder / "cells.jsonl").read_text().splitlines()
    assert [json.loads(line)["gamma"] for line in lines] == gammas
    assert whole_cells(folder) == gammas
    assert all(cell.speedup == 1.5 for cell in load_run(folder).cells)
    assert load_run(folder).manifest.finished == "today"
    ids = {f"{samples.cell(gamma=gamma).cell_id}.parquet" for gamma in gammas}
    assert {file.name for file in (folder / "rounds").iterdir()} == ids
    assert not list(folder.glob("**/*.tmp"))


def test_killed_at_every_operation_on_the_disk(memory: Path) -> None:
    process = writer(memory, "every")
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    operations = int(output.split()[-1])
    assert operations > 50  # opens, writes, syncs and renames of two cells
    seen = set()
    for operation in range(1, operations + 1):
        killed = memory / f"{operation}-killed"
        if (killed / "manifest.json").exists():
            gammas = whole_cells(killed)
            assert gammas == kill_switch.GAMMAS[: len(gammas)]
            seen.add(len(gammas))
        each_once(memory / f"{operation}-resumed", kill_switch.GAMMAS)
    assert seen == {0, 1, 2}


def test_killed_at_random_moments(tmp_path: Path) -> None:
    folder, chance = tmp_path / "run", random.Random(5)
    before: list[int] = []
    for _ in range(4):
        process = writer(folder, "plain")
        assert process.stdout is not None
        process.stdout.readline()  # it has opened the folder
        time.sleep(chance.uniform(0.0, 0.1))
        process.kill()
        process.communicate()
        gammas = whole_cells(folder)
        assert gammas[: len(before)] == before  # nothing that was there is lost
        assert gammas == kill_switch.MANY[: len(gammas)]
        before = gammas
    process = writer(folder, "plain")
    process.communicate(timeout=600)
    assert process.returncode == 0
    each_once(folder, kill_switch.MANY)
