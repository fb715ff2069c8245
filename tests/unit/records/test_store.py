from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from specbench.errors import SpecbenchError
from specbench.records.reading import list_runs, load_cells
from specbench.records.store import RunWriter, load_run
from specbench.records.tables import ROUNDS
from tests.unit.records import samples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "results" / "mine"


def write_two(folder: Path) -> tuple[str, str]:
    one, two = samples.cell(), samples.cell(gamma=3)
    with RunWriter.open(folder, samples.manifest()) as writer:
        writer.write_cell(samples.record(one), *samples.single())
        writer.write_cell(samples.record(two, status="out_of_memory", error="3 GB wanted"))
    return one.cell_id, two.cell_id


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


@pytest.mark.parametrize(
    ("line", "reason"), [("{oops", "not JSON"), ('{"target": "m"}', "drafter"), ("[]", "Input")]
)
def test_a_corrupt_line_is_named(folder: Path, line: str, reason: str) -> None:
    write_two(folder)
    file = folder / "cells.jsonl"
    first, second = file.read_text().splitlines()
    for lines, number in (([first, line, second], 2), ([first, second, line], 3)):
        file.write_text("\n".join(lines) + "\n")
        for call in (
            lambda: load_run(folder),
            lambda: RunWriter.open(folder, samples.manifest()),
        ):
            with pytest.raises(SpecbenchError) as caught:
                call()
            assert f"{file} line {number}" in caught.value.message
            assert reason in caught.value.message


def test_a_damaged_manifest_is_named(folder: Path) -> None:
    write_two(folder)
    (folder / "manifest.json").write_text('{"name": ')
    with pytest.raises(SpecbenchError, match=r"manifest\.json: not JSON"):
        load_run(folder)


@pytest.mark.parametrize("version", [0, 2, 99])
def test_a_run_of_another_schema_is_refused(folder: Path, version: int) -> None:
    write_two(folder)
    file = folder / "manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema_version": version}))
    says = f"schema_version {version}; this release reads version 1 only"
    with pytest.raises(SpecbenchError, match=says):
        load_run(folder)


def test_missing_and_damaged_tables_are_named(folder: Path) -> None:
    done, failed = write_two(folder)
    run = load_run(folder)
    (folder / "rounds" / f"{done}.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(SpecbenchError, match="is damaged") as caught:
        run.rounds(done)
    assert str(folder / "rounds" / f"{done}.parquet") in caught.value.message
    drop = f"""sed -i.bak '/"cell_id":"{done}"/d' {folder / "cells.jsonl"}"""
    assert caught.value.hint.startswith(f"Leave the cell out with `{drop}`; ")
    subprocess.run(drop, shell=True, check=True)
    assert [record.cell_id for record in load_run(folder).cells] == [failed]
    (folder / "rounds" / f"{done}.parquet").unlink()
    with pytest.raises(SpecbenchError, match="is missing"):
        run.rounds(done)
    with pytest.raises(SpecbenchError, match="ended as out_of_memory"):
        run.requests(failed)
    with pytest.raises(SpecbenchError, match="no cell 'nope'"):
        run.rounds("nope")


def test_runs_are_found_by_name_and_listed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent.parent if folder.parent.parent.exists() else "/")
    with pytest.raises(SpecbenchError) as caught:
        load_run("mine")
    assert caught.value.message == "no run 'mine'"
    assert "specbench run" in caught.value.hint
    write_two(folder)
    assert load_run("mine").path == Path("results/mine")
    assert list_runs() == ["mine"]
    with pytest.raises(SpecbenchError) as caught:
        load_run("yours")
    assert (caught.value.message, "mine" in caught.value.hint) == ("no run 'yours'", True)
    with pytest.raises(SpecbenchError, match="results holds no run"):
        load_run("results")


def write_until_full(writer: RunWriter, padding: int = 0) -> None:
    for gamma in range(4, 1000):
        record = samples.record(samples.cell(gamma=gamma), padding="x" * padding)
        writer.write_cell(record, *samples.single())


# ---- folders that can't be written, found before the first measurement


def read_only_folders(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "file"
    file.write_text("not a folder")
    yield file  # a file where the folder should be
    yield file / "below" / "run"  # a file among the parents
    if Path("/proc/self").exists():
        yield Path("/proc/specbench-run")  # refuses even root


def test_a_folder_that_can_not_be_written_is_one_line(tmp_path: Path) -> None:
    for folder in read_only_folders(tmp_path):
        with pytest.raises(SpecbenchError) as caught:
            RunWriter.open(folder, samples.manifest())
        assert str(folder) in caught.value.message
        assert "--out" in caught.value.hint


def test_a_read_only_file_system_or_folder(tmp_path: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "ro,size=100k", "tmpfs", str(tmp_path)]
    mounted = os.name == "posix" and os.geteuid() == 0
    if mounted and subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("root ignores permission bits, and has no right to mount")
    if not mounted:
        tmp_path.chmod(0o500)
    try:
        with pytest.raises(SpecbenchError, match=r"Read-only|Permission denied"):
            RunWriter.open(tmp_path, samples.manifest())
        with pytest.raises(SpecbenchError, match=r"Read-only|Permission denied"):
            RunWriter.open(tmp_path / "run", samples.manifest())
    finally:
        if mounted:
            subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_folder_of_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("...")
    with pytest.raises(SpecbenchError, match=r"holds no run \(found 'thesis.tex'\)"):
        RunWriter.open(tmp_path, samples.manifest())
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.fixture
def full_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let the disk take so many more bytes, the last write only in part."""

    def limit(room: int) -> None:
        write = os.write

        def limited(descriptor: int, data: bytes | memoryview) -> int:
            nonlocal room
            taken = bytes(data)[: max(room, 0)]
            if not taken and len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            room -= len(taken)
            return write(descriptor, taken)

        monkeypatch.setattr(os, "write", limited)

    return limit


def test_a_full_disk_is_found_at_the_start(folder: Path, full_after: Callable[[int], None]) -> None:
    full_after(100_000)
    with pytest.raises(SpecbenchError, match="the disk is full"):
        RunWriter.open(folder, samples.manifest())
    assert not list(folder.glob("**/*.tmp"))


@pytest.mark.parametrize("room", [0, 1000, 9000, 16_000, 17_000])
def test_a_disk_that_fills_up_loses_nothing(
    folder: Path, full_after: Callable[[int], None], room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = write_two(folder)
    before = (folder / "cells.jsonl").read_bytes()
    with RunWriter.open(folder, samples.manifest()) as writer:
        full_after(room)
        with pytest.raises(SpecbenchError, match="the disk is full"):
            write_until_full(writer)
        with pytest.raises(SpecbenchError, match="the disk is full"):
            writer.update_cells(writer.records.values())
        written = writer.done
        monkeypatch.undo()
    content = (folder / "cells.jsonl").read_bytes()
    assert content.startswith(before)
    assert content.endswith(b"\n")
    assert set(ids) <= written
    assert {cell.cell_id for cell in load_cells(folder)} == written
    assert not list(folder.glob("**/*.tmp"))


def test_a_really_full_disk(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", str(tmp_path)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("no right to mount a small tmpfs")
    try:
        ballast = tmp_path / "ballast"
        ballast.write_bytes(b"\0" * 1_000_000)
        with pytest.raises(SpecbenchError, match="the disk is full"):
            RunWriter.open(tmp_path / "run", samples.manifest())
        ballast.unlink()
        with RunWriter.open(tmp_path / "run", samples.manifest()) as writer:
            with pytest.raises(SpecbenchError, match="the disk is full"):
                write_until_full(writer, padding=30_000)
            written = writer.done
        cells = load_run(tmp_path / "run").cells
        assert {cell.cell_id for cell in cells} == written != set()
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


# ---- one writer


def test_a_second_writer_is_refused(folder: Path) -> None:
    with RunWriter.open(folder, samples.manifest()):
        with pytest.raises(SpecbenchError, match="another specbench process is writing"):
            RunWriter.open(folder, samples.manifest())
        code = (
            "import sys; from pathlib import Path;"
            "from specbench.records.store import RunWriter;"
            "from tests.unit.records.samples import manifest;"
            "RunWriter.open(Path(sys.argv[1]), manifest())"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder)],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[3],
        )
        assert "another specbench process is writing" in done.stderr
    RunWriter.open(folder, samples.manifest()).close()
