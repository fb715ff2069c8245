"""A run's folder as it is written, read back and gone on with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from specbench.errors import SpecbenchError
from specbench.records.store import RunWriter, load_run
from specbench.records.tables import ROUNDS
from tests.unit.records import samples
from tests.unit.records.samples import write_two


def test_what_was_written_is_read_back(folder: Path) -> None:
    done, failed = write_two(folder)
    run = load_run(folder)
    assert [cell.cell_id for cell in run.cells] == [done, failed]
    assert run.cells[1].error == "3 GB wanted"
    assert run.manifest.config == {"gammas": [1, 2]}
    rounds, requests = samples.single()
    frame = run.rounds(done)
    assert frame.columns.tolist() == ROUNDS.names
    for name in ("num_accepted", "draft_s", "prompt_id", "replayed"):
        assert frame[name].tolist() == rounds[name]
    assert frame["overlap"][4] is None
    assert frame["overlap"][0].tolist() == pytest.approx([0.9, 0.7])
    assert [ids.tolist() for ids in run.requests(done)["output_ids"]] == requests["output_ids"]
    columns = run.columns("rounds", done)
    some = run.columns("rounds", done, without=("prompt_id", "overlap"))
    assert columns.keys() - some.keys() == {"prompt_id", "overlap"}
    assert isinstance(columns["num_drafted"], np.ndarray)
    assert columns["num_drafted"].tolist() == rounds["num_drafted"]
    assert columns["path"] == [None] * 5


def test_rounds_written_before_trees_have_as_many_levels_as_drafted_tokens(folder: Path) -> None:
    done, _ = write_two(folder)
    file = folder / "rounds" / f"{done}.parquet"
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["draft_levels"]), file)
    assert "draft_levels" not in pq.ParquetFile(file).schema_arrow.names
    frame = load_run(folder).rounds(done)
    assert frame.columns.tolist() == ROUNDS.names
    assert frame["draft_levels"].tolist() == frame["num_drafted"].tolist() == [2, 2, 0, 2, 2]


EXAMPLE = Path(__file__).parents[3] / "results" / "example"


@pytest.mark.skipif(not EXAMPLE.is_dir(), reason="only a checkout has it")
def test_the_example_of_a_run_is_readable() -> None:
    run = load_run(EXAMPLE)
    for cell in run.cells:
        columns = run.columns("rounds", cell.cell_id)
        assert columns["draft_levels"].tolist() == columns["num_drafted"].tolist()
        assert cell.tree_nodes is None


def test_numpy_columns_extra_columns_and_missing_values(folder: Path) -> None:
    rounds, requests = samples.single()
    arrays: dict[str, Any] = {**rounds, "num_drafted": np.array(rounds["num_drafted"])}
    arrays["draft_s"] = np.array(rounds["draft_s"])
    arrays["entropy"] = np.array([1.0, np.nan, 2.0, 3.0, 4.0])
    with RunWriter.open(folder, samples.manifest()) as writer:
        writer.write_cell(samples.record(samples.cell()), arrays, requests)
        columns = writer.columns("rounds", samples.cell().cell_id)
    assert np.isnan(columns["entropy"]).tolist() == [False, True, False, False, False]
    frame = load_run(folder).rounds(samples.cell().cell_id)
    assert frame["entropy"].isna().sum() == 1


def test_a_missing_column_or_unequal_lengths_is_a_bug_and_writes_nothing(folder: Path) -> None:
    rounds, requests = samples.single()
    with RunWriter.open(folder, samples.manifest()) as writer:
        without = {name: rounds[name] for name in rounds if name != "num_accepted"}
        with pytest.raises(ValueError, match="num_accepted"):
            writer.write_cell(samples.record(samples.cell()), without, requests)
        with pytest.raises(ValueError, match="differ in length"):
            writer.write_cell(samples.record(samples.cell()), {**rounds, "step": [1, 2]}, requests)
        with pytest.raises(ValueError, match="missing columns"):
            writer.write_cell(samples.record(samples.cell()))
        assert writer.done == set()
    assert load_run(folder).cells == []


def test_resuming_keeps_cells_and_says_what_changed(folder: Path) -> None:
    ids = write_two(folder)
    first = samples.manifest(created="monday", bandwidth_bytes_per_s=5.0, warnings=["old"])
    RunWriter.open(folder, first).close()
    again = samples.manifest(created="tuesday", device={"name": "other"}, warnings=["new"])
    with RunWriter.open(folder, again, resume=True) as writer:
        assert writer.done == set(ids)
        assert list(writer.records) == list(ids)
    manifest = load_run(folder).manifest
    assert manifest.bandwidth_bytes_per_s == 5.0
    assert manifest.warnings[:2] == ["old", "new"]
    assert manifest.warnings[2].startswith("resumed ")
    assert manifest.warnings[2].endswith("with another device")


def test_what_is_timed_anew_at_every_load_is_no_other_target(folder: Path) -> None:
    for rows in ([2, 3], [4]):
        target = {"name": "tiny", "swapped_linear_rows": rows, "swapped_linear_columns": [rows]}
        with RunWriter.open(folder, samples.manifest(target=target), resume=True) as writer:
            assert not any("with another" in text for text in writer.manifest.warnings)
    other = samples.manifest(target={"name": "tiny", "dtype": "float16"})
    with RunWriter.open(folder, other, resume=True) as writer:
        assert writer.manifest.warnings[-1].endswith("with another target")


def test_what_was_captured_before_is_kept(folder: Path) -> None:
    facts = {"captured": {"tiny": 12}, "eager": {}}
    RunWriter.open(folder, samples.manifest(captured=facts)).close()
    with RunWriter.open(folder, samples.manifest(), resume=True) as writer:
        assert writer.manifest.captured == facts


def test_resuming_nothing_starts_and_says_so(folder: Path) -> None:
    with RunWriter.open(folder, samples.manifest(), resume=True) as writer:
        assert any("nothing to resume" in text for text in writer.manifest.warnings)


def test_failed_cells_are_retried_only_on_request(folder: Path) -> None:
    done, failed = write_two(folder)
    with RunWriter.open(folder, samples.manifest(), resume=True, retry_failed=True) as writer:
        assert writer.done == {done}
        writer.write_cell(samples.record(samples.cell(gamma=3)), *samples.single())
        assert writer.done == {done, failed}
    cells = load_run(folder).cells
    assert [(cell.cell_id, cell.status) for cell in cells] == [(done, "ok"), (failed, "ok")]
    assert len(load_run(folder).rounds(failed)) == 5


def test_another_configuration_is_refused_with_the_keys(folder: Path) -> None:
    RunWriter.open(folder, samples.manifest(config={"gammas": [1], "sampling": {"k": 1}})).close()
    other = samples.manifest(config_hash="other", config={"gammas": [2], "sampling": {"k": 1}})
    with pytest.raises(SpecbenchError) as caught:
        RunWriter.open(folder, other, resume=True)
    assert "gammas: [1] there, [2] here" in caught.value.message
    assert "sampling" not in caught.value.message
    RunWriter.open(folder, samples.manifest()).close()  # and the lock was let go


def test_update_cells_replaces_lines_in_place(folder: Path) -> None:
    done, failed = write_two(folder)
    with RunWriter.open(folder, samples.manifest()) as writer:
        writer.update_cells([writer.records[done].updated(speedup=1.5)])
        with pytest.raises(KeyError):
            writer.update_cells([samples.record(samples.cell(gamma=9))])
    cells = load_run(folder).cells
    assert [cell.cell_id for cell in cells] == [done, failed]
    assert cells[0].speedup == 1.5


def test_extras(folder: Path) -> None:
    with RunWriter.open(folder, samples.manifest()) as writer:
        path = writer.write_extra("diagnostics/gaps.json", {"largest": 0.5})
        assert json.loads(path.read_text()) == {"largest": 0.5}
        writer.write_extra("references/chat.parquet", {"prompt_id": ["a"], "ids": [[1, 2]]})
        assert (folder / "references" / "chat.parquet").exists()
        with pytest.raises(ValueError, match="outside"):
            writer.write_extra("../gaps.json", {})
        with pytest.raises(ValueError, match="neither"):
            writer.write_extra("gaps.txt", {})


def test_a_torn_last_line_is_no_cell_and_is_dropped(folder: Path) -> None:
    done, failed = write_two(folder)
    file = folder / "cells.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:100])
    assert [cell.cell_id for cell in load_run(folder).cells] == [done, failed]
    with RunWriter.open(folder, samples.manifest()) as writer:
        writer.write_cell(samples.record(samples.cell(gamma=5)), *samples.single())
    assert file.read_bytes()[: len(whole)] == whole
    assert len(load_run(folder).cells) == 3
