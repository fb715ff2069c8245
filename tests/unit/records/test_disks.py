"""Folders that can't be written, disks that fill up, and two writers at once."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.records.reading import load_cells
from specbench.records.store import RunWriter, load_run
from tests.unit.records import samples
from tests.unit.records.samples import write_two


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
