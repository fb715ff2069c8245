"""Planted violations: a copy of the recorded run with one lie in it, one for each identity."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specbench.analysis.checking.violations import violations
from specbench.analysis.claims import check_claims
from specbench.analysis.fit import fit_run
from specbench.analysis.machine.limits import limits_of
from specbench.analysis.pooling import RawTables
from specbench.analysis.shown.more_frames import forwards_frame
from specbench.errors import SpecbenchError
from specbench.records.schema import CellRecord
from specbench.records.store import RunWriter, load_run
from specbench.records.summary import summarize
from tests.simulate import SimulatedDrafter, simulate_run

EXAMPLE = Path(__file__).parents[4] / "results" / "example"
MARK = "numbers that cannot be: "
WHERE = "ngram γ = 4 (code, T = 0, batch 1)"

Columns = dict[str, Any]
Lie = Callable[[CellRecord, Columns, Columns], CellRecord]


def told(folder: Path) -> list[str]:
    """The violations that a reader of the run is told."""
    warnings = fit_run(load_run(folder)).warnings
    return [text.removeprefix(MARK) for text in warnings if text.startswith(MARK)]


def plant(folder: Path, lie: Lie) -> Path:
    """A copy of one block of the recorded run, one cell of it changed."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("figures", "*-t1-*"))
    cells = folder / "cells.jsonl"
    block = [line for line in cells.read_text().splitlines() if '"code-t0-' in line]
    cells.write_text("".join(f"{line}\n" for line in block))
    run = load_run(folder)
    (record,) = (cell for cell in run.cells if (cell.drafter, cell.gamma) == ("ngram", 4))
    rounds, requests = (
        {
            name: np.array(column) if isinstance(column, np.ndarray) else list(column)
            for name, column in run.columns(part, record.cell_id).items()
        }
        for part in ("rounds", "requests")
    )
    changed = lie(record, rounds, requests)
    with RunWriter.open(folder, run.manifest, resume=True) as writer:
        writer.write_cell(changed, rounds, requests)
    return folder


def accepts_more_than_was_drafted(
    record: CellRecord, rounds: Columns, requests: Columns
) -> CellRecord:
    """A counter that runs on: six of four tokens accepted, and the output is as long as it says."""
    for name in ("num_accepted", "num_evaluated", "num_drafted", "draft_levels"):
        rounds[name][:] = 6
    rounds["num_emitted"][:] = 7
    emitted = np.bincount(rounds["request"], weights=rounds["num_emitted"]).astype(int)
    requests["output_ids"] = [[0] * (1 + int(count)) for count in emitted]
    requests["num_tokens"] = 1 + emitted
    return record.updated(**summarize(record, rounds, requests))


def has_a_token_more_than_was_emitted(
    record: CellRecord, rounds: Columns, requests: Columns
) -> CellRecord:
    """Text from elsewhere than the rounds."""
    requests["output_ids"][1].append(7)
    requests["num_tokens"][1] += 1
    return record


def times_chunks_instead_of_tokens(
    record: CellRecord, rounds: Columns, requests: Columns
) -> CellRecord:
    """An inter-token latency between streamed chunks."""
    assert record.itl_s is not None
    assert record.tau is not None
    return record.updated(itl_s=record.itl_s * record.tau)


def accepts_later_positions_more_often(
    record: CellRecord, rounds: Columns, requests: Columns
) -> CellRecord:
    """Counts by position in the wrong order."""
    return record.updated(survival_by_position=[0.5, 0.6, 0.4, 0.2])


def is_faster_than_its_tokens(record: CellRecord, rounds: Columns, requests: Columns) -> CellRecord:
    """A throughput that counts drafted tokens."""
    assert record.tok_per_s is not None
    return record.updated(tok_per_s=1.2 * record.tok_per_s)


def waits_for_nothing(record: CellRecord, rounds: Columns, requests: Columns) -> CellRecord:
    """A wall time beyond prefill and rounds."""
    requests["wall_s"][2] += 1.0
    return record


@pytest.mark.parametrize(
    ("lie", "identity", "sides"),
    [
        (accepts_more_than_was_drafted, "block efficiency", ("tau 7", "gamma + 1 = 5")),
        (has_a_token_more_than_was_emitted, "tokens", ("emitted 1 + 23", "its output has 25")),
        (times_chunks_instead_of_tokens, "step times", ("per output token is", "per step /")),
        (
            accepts_later_positions_more_often,
            "positions",
            ("position 2 was accepted in 0.6", "in 0.5"),
        ),
        (is_faster_than_its_tokens, "throughput", ("tokens/s is above", "/ time per output")),
        (waits_for_nothing, "times", ("time to first token + decode is", "wall time")),
    ],
)
def test_a_planted_violation_is_named_with_both_sides_and_the_cell(
    tmp_path: Path, lie: Lie, identity: str, sides: tuple[str, str]
) -> None:
    found = told(plant(tmp_path / "copy", lie))
    assert found
    for text in found:
        is_counted = text.endswith(f" more violations of {identity}")
        assert is_counted or text.startswith(f"{WHERE}: {identity}: "), found
    assert all(side in found[0] for side in sides), found[0]


def test_the_recorded_run_violates_nothing(tmp_path: Path) -> None:
    run = load_run(EXAMPLE)
    assert violations(run, RawTables(run)).sentences == ()
    assert told(plant(tmp_path / "copy", lambda record, *_: record)) == []


@pytest.mark.parametrize("lie", [accepts_more_than_was_drafted, has_a_token_more_than_was_emitted])
def test_no_estimate_rests_on_counts_that_cannot_be(tmp_path: Path, lie: Lie) -> None:
    folder = plant(tmp_path / "copy", lie)
    run = load_run(folder)
    fitted = fit_run(run)
    (group,) = (one for one in fitted.groups if one.key.drafter == "ngram")
    assert [point.gamma for point in group.points] == [1, 2]
    assert told(folder)[0].endswith("; the cell is left out")
    check_claims(run, fitted)
    limits_of(run, fitted)
    forwards = forwards_frame(run, fitted)
    assert sorted(forwards["gamma"][forwards["drafter"] == "ngram"]) == [1, 2]


@pytest.mark.parametrize(("name", "value"), [("alpha", 0.99), ("tau", 1.01), ("speedup", 9.9)])
def test_a_line_that_says_other_than_its_rounds_is_named_with_both_sides(
    tmp_path: Path, name: str, value: float
) -> None:
    def lie(record: CellRecord, rounds: Columns, requests: Columns) -> CellRecord:
        return record.updated(**{name: value})

    honest = {cell.cell_id: cell for cell in load_run(EXAMPLE).cells}
    run = load_run(plant(tmp_path / "copy", lie))
    fitted = fit_run(run)
    (suspect,) = fitted.suspect
    (note,) = (text for text in fitted.warnings if text.startswith(MARK))
    true = getattr(honest[suspect], name)
    line = f"cells.jsonl has {name} {value:.4g}, the rounds give {true:.4g}"
    assert note == f"{MARK}{WHERE}: line: {line}"
    (group,) = (one for one in fitted.groups if one.key.drafter == "ngram")
    assert getattr(group.points[2], name) == pytest.approx(true)


def test_a_damaged_baseline_leaves_the_lines_beside_it_unchecked(tmp_path: Path) -> None:
    folder = plant(tmp_path / "copy", lambda record, *_: record)
    (file,) = (folder / "rounds").glob("code-t0-*-first-*")
    file.write_bytes(b"PAR1")
    assert told(folder) == []


def test_a_line_is_held_against_the_baselines_it_rested_on(tmp_path: Path) -> None:
    """Where the last baseline has gone since, what it said can't be checked."""
    folder = plant(tmp_path / "copy", lambda record, *_: record)
    cells = folder / "cells.jsonl"
    lines = cells.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if '"baseline":"last"' not in line]
    assert len(kept) < len(lines)
    cells.write_text("".join(kept), encoding="utf-8")
    assert told(folder) == []


def test_another_cell_s_table_is_told_by_its_rounds(tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01), "eagle": SimulatedDrafter(0.3, 0.05)}
    folder = simulate_run(tmp_path / "run", drafters, gammas=(1, 4))
    one, other = (
        next(
            cell.cell_id
            for cell in load_run(folder).cells
            if cell.drafter == name and cell.gamma == 4
        )
        for name in drafters
    )
    for part in ("rounds", "requests"):
        shutil.copy(folder / part / f"{other}.parquet", folder / part / f"{one}.parquet")
    fitted = fit_run(load_run(folder))
    assert one in fitted.unusable
    assert any("rounds, cells.jsonl says" in text for text in fitted.warnings)
    measured = {group.key.drafter: [p.gamma for p in group.points] for group in fitted.groups}
    assert measured == {"ngram": [1], "eagle": [1, 4]}


def test_a_run_of_impossible_counts_alone_is_one_sentence(tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02)}
    folder = simulate_run(tmp_path / "run", drafters, gammas=(2,), prompts=6)
    run = load_run(folder)
    record = run.cells[-1]
    rounds, requests = (run.columns(part, record.cell_id) for part in ("rounds", "requests"))
    rounds["num_accepted"] = rounds["num_accepted"] + 3
    with RunWriter.open(folder, run.manifest, resume=True) as writer:
        writer.write_cell(record, rounds, requests)
    with pytest.raises(SpecbenchError, match=r"nothing of run can be used: .* is above gamma"):
        fit_run(load_run(folder))


@pytest.mark.parametrize("batch_size", [1, 4])
def test_an_honest_run_violates_nothing(tmp_path: Path, batch_size: int) -> None:
    drafters = {
        "ngram": SimulatedDrafter(0.7, 0.02),
        "eagle:x,tree=9": SimulatedDrafter(0.7, 0.02, nodes=8),
        "model,gamma=auto": SimulatedDrafter(0.7, 0.02, shortest=1),
    }
    options = {"gammas": (1, 4), "batch_sizes": (batch_size,), "turns": 2, "repeats": 2}
    assert told(simulate_run(tmp_path / "run", drafters, **options)) == []


@pytest.mark.parametrize(("drafter", "suspect"), [("ngram", True), ("synthetic:1.0", False)])
def test_tokens_that_are_always_accepted_are_a_sign(
    tmp_path: Path, drafter: str, suspect: bool
) -> None:
    drafters = {drafter: SimulatedDrafter(1.0, 0.02)}
    found = told(simulate_run(tmp_path / "run", drafters, gammas=(1,), prompts=60, tokens=128))
    assert bool(found) == suspect, found
    assert all("positions: position 1 was accepted in 3840 of 3840 rounds" in one for one in found)


def test_of_many_violations_two_are_told_and_the_others_counted(tmp_path: Path) -> None:
    def lie(record: CellRecord, rounds: Columns, requests: Columns) -> CellRecord:
        requests["wall_s"] += 1.0
        return record

    first, second, more = told(plant(tmp_path / "copy", lie))
    assert "request 0" in first
    assert "request 1" in second
    assert more == "1 more violation of times"


def test_a_run_of_traces_alone_says_where_they_are_shown(tmp_path: Path) -> None:
    folder = simulate_run(tmp_path / "run", {})
    with pytest.raises(SpecbenchError, match="holds baselines only, no drafter"):
        fit_run(load_run(folder))
    (folder / "diagnostics").mkdir(exist_ok=True)
    (folder / "diagnostics" / "traces.jsonl").touch()
    with pytest.raises(SpecbenchError, match="baselines and traces of drafters") as problem:
        fit_run(load_run(folder))
    assert problem.value.hint == f"specbench alpha {folder} shows the traces"
