"""The sweep on a scripted backend: order, exact numbers, failures, and where it stops."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from specbench.backends.base import TieMeasure
from specbench.errors import SpecbenchError
from specbench.records import files
from specbench.records.schema import Cell, CellRecord
from specbench.records.store import load_run
from specbench.sweep import runner
from tests.tiny_target import write_prompts
from tests.unit.sweep.fakes import Sweep

FIELDS_AGAINST_BASELINES = ("speedup", "speedup_ci", "end_to_end_speedup", "c", "v", "overhead")


def records(sweep: Sweep) -> dict[str, CellRecord]:
    """Every cell's record by what it is: "first", "last", 1, 3."""
    return {str(cell.baseline or cell.gamma): cell for cell in load_run(sweep.config.folder).cells}


def raising(error: BaseException, *cells: str) -> Callable[[Cell], None]:
    """Raise in the cells of these names (see ``records``)."""

    def check(cell: Cell) -> None:
        if str(cell.baseline or cell.gamma) in cells:
            raise error

    return check


def test_cells_are_measured_in_order_and_every_number_follows_from_the_script(sweep: Sweep):
    sweep.run()
    assert [cell.baseline for cell in sweep.backend.generated] == ["first", None, None, "last"]
    assert [call.split()[0] for call in sweep.backend.calls] == (
        ["load", "check", "begin_block", *["generate"] * 4, "end_block", "close"]
    )
    found = records(sweep)
    assert [(found[name].tau, found[name].alpha) for name in "13"] == [(2.0, 1.0), (4.0, 1.0)]
    assert found["1"].speedup == pytest.approx(2 / 1.5)  # 2 tokens a round of 1/8 + 1.375 s
    assert found["3"].speedup == pytest.approx(4 / 1.75)
    for name in "13":
        assert found[name].c == pytest.approx(0.125)
        assert found[name].v == pytest.approx(1.25)
        assert found[name].overhead == pytest.approx(0.125)
        assert found[name].lossless == "identical"
        assert found[name].noise_floor == pytest.approx(0.0)
    assert found["first"].tok_per_s == pytest.approx(1.0)
    assert found["first"].lossless is None
    assert found["last"].lossless == "identical"
    # 8 tokens of 1 s (or 6 s in 4 rounds) after a prefill of half a second
    assert found["1"].end_to_end_speedup == pytest.approx(8.5 / 6.5)


def test_drift_hits_both_baselines_and_is_the_noise_floor(sweep: Sweep):
    sweep.backend.baseline_step_s = {"first": 1.0, "last": 1.25}
    sweep.run()
    found = records(sweep)
    for cell in found.values():
        assert cell.noise_floor == pytest.approx(0.25)
    assert found["1"].speedup == pytest.approx(2 / 1.5 * 1.125)
    assert found["3"].c == pytest.approx(0.125 / 1.125)


def test_a_speedup_inside_the_noise_floor_is_not_claimed(sweep: Sweep):
    sweep.backend.baseline_step_s = {"first": 1.0, "last": 2.0}
    sweep.run()
    found = records(sweep)
    assert found["1"].speedup == pytest.approx(2.0)
    assert any("within the noise floor" in text for text in found["1"].warnings)
    assert not any("within the noise floor" in text for text in found["3"].warnings)


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (ValueError("no\nluck"), "failed", "ValueError: no luck"),
        (torch.OutOfMemoryError("CUDA out of memory"), "out_of_memory", None),
        (MemoryError(), "out_of_memory", "MemoryError"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out_of_memory", None),
        (AssertionError(), "failed", "AssertionError"),
        (SpecbenchError("beyond the drafter's context", "Shorten"), "failed", None),
    ],
)
def test_a_failing_cell_is_recorded_and_the_sweep_goes_on(
    sweep: Sweep, error: Exception, status: str, text: str | None
):
    sweep.backend.on_generate = raising(error, "1")
    sweep.run()
    found = records(sweep)
    assert set(found) == {"first", "1", "3", "last"}
    assert found["1"].status == status
    prefix = "" if isinstance(error, SpecbenchError) else f"{type(error).__name__}: "
    assert found["1"].error == (text or f"{prefix}{error}")
    assert found["1"].alpha is None
    assert found["1"].tokens is None
    assert found["3"].speedup == pytest.approx(4 / 1.75)
    assert not list((sweep.config.folder / "rounds").glob("*ngram-g1*"))
    assert [record.status for record in sweep.report.records].count(status) == 1
    assert load_run(sweep.config.folder).manifest.finished is not None


def test_a_failing_first_baseline_leaves_the_last_one_to_compare_with(sweep: Sweep):
    sweep.backend.on_generate = raising(MemoryError(), "first")
    sweep.run()
    found = records(sweep)
    assert found["first"].status == "out_of_memory"
    assert found["3"].speedup == pytest.approx(4 / 1.75)
    assert found["3"].noise_floor is None
    assert found["3"].lossless is None


def test_a_failing_last_baseline_leaves_the_first_one(sweep: Sweep):
    sweep.backend.on_generate = raising(MemoryError(), "last")
    sweep.run()
    found = records(sweep)
    assert found["3"].speedup == pytest.approx(4 / 1.75)
    assert found["3"].noise_floor is None
    assert found["3"].lossless == "identical"


def test_without_a_baseline_nothing_is_relative(sweep: Sweep):
    sweep.backend.on_generate = raising(ValueError("no"), "first", "last")
    sweep.run()
    found = records(sweep)
    for name in "13":
        assert found[name].status == "ok"
        assert found[name].alpha == 1.0
        assert found[name].tok_per_s is not None
        for field in (*FIELDS_AGAINST_BASELINES, "noise_floor", "lossless"):
            assert getattr(found[name], field) is None, field


def test_a_block_that_cannot_begin_is_recorded_cell_by_cell_and_the_next_block_is_measured(
    tmp_path: Path, sweep: Sweep
):
    sweep.config = Sweep(tmp_path, temperatures=[0.0, 1.0]).config

    def on_begin(cells: list[Cell]) -> None:
        if cells[0].temperature == 0:
            raise torch.OutOfMemoryError("prefill of 9 GiB")

    sweep.backend.on_begin = on_begin
    sweep.run()
    run = load_run(sweep.config.folder)
    cold = [cell for cell in run.cells if cell.temperature == 0]
    assert [cell.status for cell in cold] == ["out_of_memory"] * 4
    assert {cell.error for cell in cold} == {"OutOfMemoryError: prefill of 9 GiB"}
    assert [cell.status for cell in run.cells if cell.temperature == 1] == ["ok"] * 4
    assert sweep.backend.calls.count("end_block") == 2


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


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"gammas": [1, 2]}, "gammas"),
        ({"target": "another"}, "target"),
        ({"seed": 1}, "seed"),
        ({"max_new_tokens": 10}, "max_new_tokens"),
        ({"top_p": 0.9}, "top_p"),
    ],
)
def test_another_configuration_is_refused_by_its_key_before_anything_is_loaded(
    tmp_path: Path, sweep: Sweep, options: dict[str, object], key: str
):
    folder = sweep.run()
    before = (folder / "cells.jsonl").read_bytes()
    sweep.backend.calls.clear()
    sweep.backend.sha256 = "1" * 64
    sweep.config = Sweep(tmp_path, **options).config
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert f"another configuration ({key}: " in str(caught.value)
    assert "--out" in caught.value.hint
    assert sweep.backend.calls == []
    assert (folder / "cells.jsonl").read_bytes() == before


def test_the_same_sweep_typed_in_another_order_is_the_same_sweep(tmp_path: Path, sweep: Sweep):
    sweep.run()
    sweep.config = Sweep(tmp_path, gammas=[3, 1]).config
    sweep.backend.calls.clear()
    sweep.run()
    assert sweep.backend.calls == []


def test_other_weights_are_refused_when_there_is_something_left_to_measure(sweep: Sweep):
    sweep.backend.on_generate = raising(ValueError("no"), "3")
    folder = sweep.run()
    sweep.backend.sha256 = "1" * 64
    sweep.config = sweep.config.model_copy(update={"retry_failed": True})
    sweep.backend.generated.clear()
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "other weights of fake (sha256 000000000000, now 111111111111)" in str(caught.value)
    assert sweep.backend.generated == []
    assert load_run(folder).manifest.target["sha256"] == "0" * 64


def test_other_weights_of_a_drafter_are_refused_too(sweep: Sweep):
    sweep.backend.drafter_weights = {"ngram": {"name": "head", "sha256": "0" * 64}}
    sweep.backend.on_generate = raising(ValueError("no"), "3")
    folder = sweep.run()
    assert load_run(folder).manifest.drafters["ngram"]["name"] == "head"
    sweep.backend.drafter_weights = {"ngram": {"name": "head", "sha256": "1" * 64}}
    sweep.config = sweep.config.model_copy(update={"retry_failed": True})
    with pytest.raises(SpecbenchError, match="other weights of drafter ngram"):
        sweep.run()
    assert load_run(folder).manifest.drafters["ngram"]["sha256"] == "0" * 64


def test_other_prompts_in_the_file_are_refused_and_not_mixed_with_the_old_ones(sweep: Sweep):
    sweep.run()
    Path(sweep.config.tasks[0]).write_text('{"prompt": "something else"}\n')
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "other prompts of mine (file:mine.jsonl sha256:" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_folder_of_other_things_is_refused_and_left_as_it_is(sweep: Sweep):
    folder = sweep.config.folder
    (folder / "references").mkdir(parents=True)
    (folder / "references" / "thesis.txt").write_text("years of work")
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "is not empty and holds no run" in str(caught.value)
    assert (folder / "references" / "thesis.txt").read_text() == "years of work"
    assert sweep.backend.calls[-1] == "close"


def test_a_prompt_that_is_too_long_is_refused_before_anything_is_written(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
):
    def opened(*_: object) -> None:
        raise AssertionError("the folder was opened")

    monkeypatch.setattr(runner, "opened", opened)
    sweep.backend.context_limit = 20
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "beyond the target's context of 20" in str(caught.value)
    assert sweep.backend.calls == ["load", "check", "close"]
    assert not sweep.config.folder.exists()
    assert sweep.report.messages == []


@pytest.mark.parametrize("there", [False, True])
def test_a_run_that_fails_before_its_first_cell_leaves_nothing_behind(
    tmp_path: Path, sweep: Sweep, there: bool
):
    prompts = write_prompts(tmp_path / "chats.jsonl", (), chats=2)
    out = tmp_path / "deep" / "down" / "run"
    sweep.config = Sweep(tmp_path, out=out, tasks=[str(prompts)], max_new_tokens=30).config
    if there:
        out.mkdir(parents=True)
    sweep.backend.context_limit = 80  # enough for the first turns, not for an answer between
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "prompt 'c0' of chats has 61 tokens" in str(caught.value)
    assert sweep.backend.recorded == [["c0#1", "c1#1"]]
    assert sweep.backend.generated == []
    assert out.exists() is there
    assert (tmp_path / "deep").exists() is there
    assert not there or list(out.iterdir()) == []

    sweep.backend.context_limit = 1000
    sweep.config = Sweep(tmp_path, out=out, gammas=[2]).config
    sweep.run()  # the corrected command may write there


def test_a_run_that_fails_before_a_new_cell_keeps_the_cells_it_has(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
):
    def of(*_: object) -> None:
        raise SpecbenchError("no requests")

    sweep.backend.on_generate = raising(ValueError("no"), "3")
    sweep.run()
    sweep.config = sweep.config.model_copy(update={"retry_failed": True})
    monkeypatch.setattr(runner.RequestMaker, "of", of)
    with pytest.raises(SpecbenchError):
        sweep.run()
    assert len(records(sweep)) == 4


def test_two_tasks_of_one_name_are_refused(tmp_path: Path, sweep: Sweep):
    (tmp_path / "sub").mkdir()
    other = tmp_path / "sub" / "mine.jsonl"
    other.write_text('{"prompt": "x"}\n')
    sweep.config = Sweep(tmp_path, tasks=[*sweep.config.tasks, str(other)]).config
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "two tasks are called 'mine'" in str(caught.value)
    assert sweep.backend.calls == []


def test_what_is_wrong_with_the_output_ends_in_the_record_and_is_shouted(sweep: Sweep):
    def output(cell: Cell, request, length: int) -> list[int]:
        tokens = [ord("a") + index for index in range(length)]
        if cell.gamma == 3 and request.prompt_id == "p1":
            tokens[4] = ord("z")
        return tokens

    sweep.backend.output = output
    sweep.backend.tie = lambda cell, where: TieMeasure(5.0, 0.01, "float32")
    sweep.run()
    found = records(sweep)
    assert found["3"].lossless == "DIVERGED"
    assert found["1"].lossless == "identical"
    assert any("p1 token 4: 101 or 122" in text for text in found["3"].warnings)
    [shout] = sweep.report.warnings
    assert found["3"].cell_id in shout
    assert "DIVERGED at p1 token 4" in shout


def test_a_verdict_that_cannot_be_measured_does_not_cost_the_cell(sweep: Sweep):
    def output(cell: Cell, request, length: int) -> list[int]:
        return [ord("a") + (cell.gamma == 3)] * length

    def tie(cell: Cell, where: object) -> TieMeasure:
        raise torch.OutOfMemoryError("no room for a float32 copy")

    sweep.backend.output, sweep.backend.tie = output, tie
    sweep.run()
    found = records(sweep)
    assert found["3"].status == "ok"
    assert found["3"].speedup == pytest.approx(4 / 1.75)
    assert found["3"].lossless is None
    assert sum("no room for a float32 copy" in text for text in found["3"].warnings) == 1


def test_repeats_batches_and_temperatures_are_blocks_of_their_own(tmp_path: Path, sweep: Sweep):
    options = {"temperatures": [0.0, 1.0], "repeats": 2, "batch_sizes": [1, 16]}
    sweep.config = Sweep(tmp_path, **options).config
    sweep.backend.tie = lambda cell, where: TieMeasure(5.0, 0.01, "float32")  # none is asked for
    sweep.run()
    run = load_run(sweep.config.folder)
    assert len(run.cells) == 16
    assert {cell.batch_size for cell in run.cells} == {1}
    assert len(run.manifest.dropped) == 8
    assert sweep.backend.calls.count("begin_block") == 4
    assert {cell.lossless for cell in run.cells if cell.temperature == 1} == {None}


def test_the_manifest_says_what_was_run(sweep: Sweep):
    folder = sweep.run()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["schema_version"] == 1
    assert manifest["name"] == "run"
    assert manifest["config"]["gammas"] == [1, 3]
    assert manifest["config_hash"] == sweep.config.digest()
    assert manifest["created"] <= manifest["finished"]
    assert manifest["bandwidth_bytes_per_s"] == 1e10
    assert manifest["matmul_flops_per_s"] == 1e11
    assert manifest["target"]["sha256"] == "0" * 64
    assert manifest["device"]["device"] == "cpu"
    assert manifest["packages"]["torch"] == torch.__version__
    [task] = manifest["tasks"]
    assert task["source"].startswith("file:mine.jsonl sha256:")
    assert task["num_prompts"] == 6


def test_the_machine_is_measured_once_per_run(sweep: Sweep, monkeypatch: pytest.MonkeyPatch):
    sweep.backend.on_generate = raising(ValueError("no"), "3")
    sweep.run()

    def again(*_: object) -> float:
        raise AssertionError("measured twice")

    monkeypatch.setattr(runner, "copy_bandwidth", again)
    monkeypatch.setattr(runner, "matmul_rate", again)
    sweep.config = sweep.config.model_copy(update={"retry_failed": True})
    sweep.run()
    assert load_run(sweep.config.folder).manifest.bandwidth_bytes_per_s == 1e10
