"""A sweep that stopped, on a scripted backend: what is kept, and how the same command goes on."""

from __future__ import annotations

import errno
import os
import subprocess

import pytest

from specbench.errors import SpecbenchError
from specbench.records import files
from specbench.records.schema import Cell
from specbench.records.store import load_run
from tests.unit.sweep.checks import raising, records
from tests.unit.sweep.fakes import Sweep


def test_a_full_disk_stops_with_everything_kept_and_the_same_command_goes_on(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
):
    write_whole, full = files._write_whole, False

    def writing(descriptor: int, data: bytes) -> None:
        if full:
            os.write(descriptor, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        write_whole(descriptor, data)

    def on_generate(cell: Cell) -> None:
        nonlocal full
        full = len(sweep.backend.generated) == 2

    monkeypatch.setattr(files, "_write_whole", writing)
    sweep.backend.on_generate = on_generate
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "the disk is full" in str(caught.value)
    assert "--out" in caught.value.hint
    kept = load_run(sweep.config.folder).cells
    assert [cell.status for cell in kept] == ["ok", "ok"]
    assert sweep.backend.calls[-2:] == ["end_block", "close"]

    full = False
    sweep.backend.on_generate = lambda cell: None
    sweep.backend.generated.clear()
    sweep.run()
    assert len(sweep.backend.generated) == 2
    assert records(sweep)["3"].speedup == pytest.approx(4 / 1.75)
    assert records(sweep)["1"].speedup == pytest.approx(2 / 1.5)


def test_ctrl_c_loses_the_cell_that_was_running_and_nothing_else(sweep: Sweep):
    def on_generate(cell: Cell) -> None:
        if len(sweep.backend.generated) == 2:
            raise KeyboardInterrupt

    sweep.backend.on_generate = on_generate
    with pytest.raises(KeyboardInterrupt):
        sweep.run()
    kept = load_run(sweep.config.folder)
    assert [cell.status for cell in kept.cells] == ["ok", "ok"]
    assert kept.manifest.finished is None
    assert sweep.backend.calls[-2:] == ["end_block", "close"]

    sweep.backend.on_generate = lambda cell: None
    sweep.backend.generated.clear()
    sweep.run()
    assert len(sweep.backend.generated) == 2
    assert set(records(sweep)) == {"first", "1", "3", "last"}


def test_a_complete_run_measures_nothing_and_loads_nothing(sweep: Sweep):
    folder = sweep.run()
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    sweep.backend.calls.clear()
    assert sweep.run() == folder
    assert sweep.backend.calls == []
    assert sweep.report.messages == [f"every cell of this sweep is in {folder} already"]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_line_cut_short_behind_a_complete_run_is_taken_away(sweep: Sweep):
    folder = sweep.run()
    cells = folder / "cells.jsonl"
    before = cells.read_bytes()
    cells.write_bytes(before + b'{"half": ')
    sweep.backend.generated.clear()
    sweep.run()
    assert sweep.backend.generated == []
    assert cells.read_bytes() == before


def test_cells_that_lack_only_the_blocks_end_get_it_when_the_run_is_taken_up(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
):
    sweep.backend.baseline_step_s = {"first": 1.0, "last": 1.25}

    class PowerCut(BaseException):
        pass

    def cut(*_: object) -> None:
        raise PowerCut

    with monkeypatch.context() as patched:
        patched.setattr("specbench.records.store.RunWriter.update_cells", cut)
        with pytest.raises(PowerCut):
            sweep.run()
    assert len(records(sweep)) == 4
    assert records(sweep)["1"].noise_floor is None

    sweep.backend.generated.clear()
    sweep.run()
    assert sweep.backend.generated == []
    assert records(sweep)["1"].noise_floor == pytest.approx(0.25)
    assert records(sweep)["1"].speedup == pytest.approx(2 / 1.5 * 1.125)
    assert load_run(sweep.config.folder).manifest.finished is not None


@pytest.mark.parametrize("lost", ["1", "first"])
def test_a_damaged_cell_is_measured_again_once_its_line_is_dropped(sweep: Sweep, lost: str):
    folder = sweep.run()
    record = records(sweep)[lost]
    (folder / "rounds" / f"{record.cell_id}.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(SpecbenchError, match="is damaged") as caught:
        load_run(folder).rounds(record.cell_id)
    _, drop, _ = caught.value.hint.split("`", 2)
    subprocess.run(drop, shell=True, check=True)
    sweep.backend.generated.clear()
    sweep.run()
    (again,) = sweep.backend.generated
    assert again.cell_id == record.cell_id
    assert len(load_run(folder).rounds(record.cell_id)) == record.num_rounds
    assert records(sweep)["1"].speedup == pytest.approx(2 / 1.5)


def test_failed_cells_are_kept_unless_asked_to_retry(sweep: Sweep):
    sweep.backend.on_generate = raising(ValueError("no"), "3", "last")
    sweep.run()
    sweep.backend.on_generate = lambda cell: None
    sweep.backend.generated.clear()
    sweep.run()
    assert sweep.backend.generated == []

    sweep.config = sweep.config.model_copy(update={"retry_failed": True})
    sweep.run()
    assert sorted(str(cell.baseline or cell.gamma) for cell in sweep.backend.generated) == [
        "3",
        "last",
    ]
    found = records(sweep)
    assert {cell.status for cell in found.values()} == {"ok"}
    assert found["1"].noise_floor == pytest.approx(0.0)
    assert found["3"].speedup == pytest.approx(4 / 1.75)
    assert len((sweep.config.folder / "cells.jsonl").read_text().splitlines()) == 4
