"""What a comparison must not pass over: cells that say nothing, runs that asked other things."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.simulate import SimulatedDrafter, simulate_run

Command = Callable[..., Any]
DRAFTERS = {"ngram": SimulatedDrafter(0.7, 0.05)}
GATE = ("--fail-below", "0.95")
CELL = "code, T = 0, batch 1, ngram γ = 2"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "base"
    return simulate_run(folder, DRAFTERS, gammas=(2, 4), prompts=8, tokens=32)


@pytest.fixture
def copy(base: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(base, tmp_path / "copy"))


def rounds_with(folder: Path, **columns: object) -> None:
    (file,) = (folder / "rounds").glob("*-g2-*")
    pd.read_parquet(file).assign(**columns).to_parquet(file)


def cells_with(folder: Path, pattern: str, **fields: object) -> None:
    file = folder / "cells.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    changed = [{**line, **fields} if pattern in line["cell_id"] else line for line in lines]
    file.write_text("".join(json.dumps(line) + "\n" for line in changed))


def manifest_with(folder: Path, **fields: object) -> None:
    file = folder / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def last_line(text: str) -> str:
    return str(text.splitlines()[-1])


def test_two_honest_runs_pass(specbench: Command, base: Path, copy: Path) -> None:
    result = specbench("compare", str(base), str(copy), *GATE)
    assert (result.code, result.err) == (0, "")
    document = json.loads(specbench("compare", str(base), str(copy), "--format", "json").out)
    assert document["not_judged"] == []


@pytest.mark.parametrize("value", [5, 1])
def test_impossible_counts_are_left_out_and_fail_the_gate(
    specbench: Command, base: Path, copy: Path, value: int
) -> None:
    rounds_with(copy, num_accepted=value, num_evaluated=0)
    result = specbench("compare", str(base), str(copy), *GATE)
    assert result.code == 1
    assert "block efficiency" in result.err
    assert last_line(result.err) == f"cannot be judged: {CELL}: left out of {copy}"
    assert specbench("compare", str(copy), str(base), *GATE).code == 1
    assert specbench("compare", str(base), str(copy)).code == 0


def test_a_table_that_cannot_be_used_fails_the_gate(
    specbench: Command, base: Path, copy: Path
) -> None:
    rounds_with(copy, verify_s=-1.0)
    result = specbench("compare", str(base), str(copy), *GATE)
    assert result.code == 1
    assert "holds -1 in verify_s: row 0" in result.err
    assert last_line(result.err) == f"cannot be judged: {CELL}: left out of {copy}"


def test_tokens_from_nowhere_are_no_speed(specbench: Command, base: Path, copy: Path) -> None:
    rounds_with(copy, num_emitted=1000)
    result = specbench("compare", str(base), str(copy), *GATE)
    assert result.code == 1
    assert f"note: {copy}: numbers that cannot be: ngram γ = 2" in result.err
    assert last_line(result.err) == f"cannot be judged: {CELL}: left out of {copy}"


def test_times_that_do_not_add_up_are_no_speed(specbench: Command, base: Path, copy: Path) -> None:
    (file,) = (copy / "requests").glob("*-g2-*")
    requests = pd.read_parquet(file)
    requests.assign(wall_s=requests["wall_s"] + 1.0).to_parquet(file)
    result = specbench("compare", str(base), str(copy), *GATE)
    assert result.code == 1
    assert last_line(result.err) == f"cannot be judged: {CELL}: numbers that cannot be in {copy}"


def test_output_that_diverged_is_no_speed(specbench: Command, base: Path, copy: Path) -> None:
    cells_with(copy, "-g2-", lossless="DIVERGED")
    result = specbench("compare", str(base), str(copy), *GATE)
    assert result.code == 1
    assert f"note: {copy}: DIVERGED: output differs from plain decoding, a bug" in result.err
    assert last_line(result.err) == f"cannot be judged: {CELL}: DIVERGED in {copy}"
    document = json.loads(specbench("compare", str(base), str(copy), "--format", "json").out)
    assert document["not_judged"] == [f"{CELL}: DIVERGED in {copy}"]


def test_a_line_that_contradicts_its_rounds_fails_the_gate(
    specbench: Command, base: Path, copy: Path
) -> None:
    cells_with(copy, "-g2-", alpha=0.99)
    result = specbench("compare", str(base), str(copy), *GATE)
    assert result.code == 1
    assert last_line(result.err) == f"cannot be judged: {CELL}: numbers that cannot be in {copy}"


def test_a_cell_that_b_lacks_fails_the_gate(specbench: Command, base: Path, copy: Path) -> None:
    cells = copy / "cells.jsonl"
    lines = cells.read_text().splitlines(keepends=True)
    cells.write_text("".join(line for line in lines if '"gamma":2' not in line))
    result = specbench("compare", str(base), str(copy), *GATE)
    assert result.code == 1
    assert last_line(result.err) == f"cannot be judged: {CELL}: not in {copy}"
    assert specbench("compare", str(copy), str(base), *GATE).code == 0


def test_a_run_that_has_not_ended_says_so(specbench: Command, base: Path, copy: Path) -> None:
    manifest_with(copy, finished=None)
    assert f"note: {copy}: the run has not ended" in specbench("compare", str(base), str(copy)).err


def test_a_run_that_has_not_ended_passes_no_gate(
    specbench: Command, base: Path, copy: Path
) -> None:
    """What it lacks may be what became slow; as the one to compare with it will do."""
    manifest_with(copy, finished=None)
    result = specbench("compare", str(base), str(copy), *GATE)
    assert result.code == 1
    assert last_line(result.err).startswith(f"cannot be judged: {copy}: the run has not ended")
    assert specbench("compare", str(copy), str(base), *GATE).code == 0


def test_a_repeat_that_failed_in_b_fails_the_gate(specbench: Command, tmp_path: Path) -> None:
    base = simulate_run(tmp_path / "base", DRAFTERS, gammas=(2,), prompts=8, tokens=32, repeats=2)
    copy = Path(shutil.copytree(base, tmp_path / "copy"))
    cells_with(copy, "-r1-ngram-g2-", status="failed", error="no luck")
    result = specbench("compare", str(base), str(copy), *GATE)
    assert result.code == 1
    assert last_line(result.err) == f"cannot be judged: {CELL}: 1 of 2 failed in {copy}"
    assert f"note: {copy}: failed: {CELL}" in result.err


def test_cells_that_failed_in_both_are_named(specbench: Command, base: Path, copy: Path) -> None:
    cells_with(copy, "-g2-", status="failed", error="no luck")
    result = specbench("compare", str(copy), str(copy))
    assert result.err.count(f"note: {copy}: failed: {CELL}") == 1
    result = specbench("compare", str(copy), str(copy), *GATE)
    assert result.code == 1
    assert last_line(result.err) == f"cannot be judged: {CELL}: failed in {copy}"


def test_a_cell_that_failed_in_b_alone_fails_the_gate(
    specbench: Command, base: Path, copy: Path
) -> None:
    cells_with(copy, "-g2-", status="failed", error="no luck")
    result = specbench("compare", str(base), str(copy), *GATE)
    assert result.code == 1
    assert last_line(result.err) == f"cannot be judged: {CELL}: failed in {copy}"
    assert specbench("compare", str(copy), str(base), *GATE).code == 0


def test_what_was_asked_is_compared(specbench: Command, base: Path, copy: Path) -> None:
    asked = {"prompts": 24, "max_new_tokens": 64, "ignore_eos": True, "prompt_source": "hub"}
    manifest_with(copy, config=asked, tasks=[{"name": "code", "source": "hub", "num_prompts": 8}])
    err = specbench("compare", str(base), str(copy)).err
    for name, value in (
        ("number of prompts (--prompts)", "24"),
        ("limit of output (--max-new-tokens)", "64"),
        ("--ignore-eos", "True"),
    ):
        assert f"another {name}: not known in {base}, {value} in {copy}" in err
    assert f"another source of prompts: simulated in {base}, hub in {copy}" in err


def test_other_prompts_and_lengths_are_told_from_the_tables(
    specbench: Command, base: Path, tmp_path: Path
) -> None:
    more = simulate_run(tmp_path / "more", DRAFTERS, gammas=(2, 4), prompts=12, tokens=16)
    err = specbench("compare", str(base), str(more)).err
    assert f"other prompts of code: 8 in {base}, 12 in {more}, 8 of them in both" in err
    lengths = f"outputs of another length, mean tokens in {base} and {more}: code"
    assert f"{lengths}, T = 0, batch 1, plain decoding, 32 and 16; {CELL}, 32 and 16" in err


def test_of_many_cells_in_one_run_three_are_named(
    specbench: Command, base: Path, tmp_path: Path
) -> None:
    gammas = (1, 2, 3, 5, 6, 7)
    more = simulate_run(tmp_path / "more", DRAFTERS, gammas=gammas, prompts=8, tokens=32)
    (note,) = (
        line
        for line in specbench("compare", str(base), str(more)).err.splitlines()
        if f"only in {more}" in line
    )
    assert note.endswith("ngram γ = 5 and 2 more")


def test_runs_of_baselines_alone_are_compared(specbench: Command, base: Path, copy: Path) -> None:
    cells = copy / "cells.jsonl"
    lines = cells.read_text().splitlines(keepends=True)
    cells.write_text("".join(line for line in lines if '"drafter":"none"' in line))
    for pair in ((base, copy), (copy, copy)):
        result = specbench("compare", *map(str, pair), "--format", "json")
        assert [cell["drafter"] for cell in json.loads(result.out)["cells"]] == ["none"]


def test_a_run_without_a_finished_cell_is_named(
    specbench: Command, base: Path, copy: Path, tmp_path: Path
) -> None:
    cells_with(copy, "", status="failed", error="no luck")
    for pair in ((base, copy), (copy, base)):
        line = specbench("compare", *map(str, pair)).error_line
        assert f"in {copy}: no speculative cell of base finished: 4 of 4" in line
    (copy / "cells.jsonl").write_text("")
    assert f"{copy} holds no finished cell" in specbench("compare", str(base), str(copy)).error_line
    chat = simulate_run(tmp_path / "chat", DRAFTERS, gammas=(2,), tasks=("chat",), prompts=2)
    line = specbench("compare", str(base), str(chat)).error_line
    assert f"{base} has code, T = 0, batch 1, plain decoding, {chat} has chat, T = 0" in line
