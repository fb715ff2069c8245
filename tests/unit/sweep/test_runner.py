"""A sweep on a scripted backend: order, exact numbers, failures, verdicts, what is recorded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from specbench.backends.base import EngineOptions, TieMeasure
from specbench.errors import SpecbenchError
from specbench.records.schema import Cell
from specbench.records.store import load_run
from specbench.sweep import runner
from specbench.weights.progress import Progress
from tests.unit.sweep.checks import raising, records
from tests.unit.sweep.fakes import FakeBackend, Sweep

FIELDS_AGAINST_BASELINES = ("speedup", "speedup_ci", "end_to_end_speedup", "c", "v", "overhead")


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
    assert len(run.cells) == 32
    assert {cell.batch_size for cell in run.cells} == {1, 16}
    assert run.manifest.dropped == []
    assert sweep.backend.calls.count("begin_block") == 8
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


def test_what_spoils_the_measurement_is_said_at_each_start_and_kept(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
):
    asked = []

    def spoiled(device: str) -> list[str]:
        asked.append((device, len(sweep.backend.generated)))
        return ["CPU load: others keep 1.0 of 2 cores busy. End other work"]

    monkeypatch.setattr(runner, "what_spoils", spoiled)
    sweep.backend.on_generate = raising(ValueError("no"), "3")
    sweep.run()
    sweep.config = sweep.config.model_copy(update={"retry_failed": True})
    sweep.run()
    assert asked == [("cpu", 0), ("cpu", 3)]
    kept = load_run(sweep.config.folder).manifest.warnings
    assert kept.count("CPU load: others keep 1.0 of 2 cores busy. End other work") == 1
    assert [text for text in sweep.report.warnings if text.startswith("CPU load")] == [kept[0]] * 2


def test_the_manifest_says_which_steps_were_captured(sweep: Sweep):
    """Known only after the warm-up, when the manifest was written long ago."""
    facts = {"captured": {"fake": 12}, "eager": {"moe": "moe, 1 token per row: it waits"}}

    def warmed_up(cells: Sequence[Cell]) -> None:
        sweep.backend.captured = facts

    sweep.backend.on_begin = warmed_up
    assert load_run(sweep.run()).manifest.captured == facts


def test_nothing_captured_is_nothing_in_the_manifest(sweep: Sweep):
    assert json.loads((sweep.run() / "manifest.json").read_text())["captured"] is None


def test_how_steps_run_reaches_the_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sweep = Sweep(tmp_path, cuda_graph=False, compile=True)
    monkeypatch.setattr(runner, "make_backend", lambda name: sweep.backend)
    options: list[EngineOptions] = []
    load = sweep.backend.load

    def noted(asked: EngineOptions, progress: Progress) -> None:
        options.append(asked)
        load(asked, progress)

    monkeypatch.setattr(sweep.backend, "load", noted)
    sweep.run()
    assert (options[0].cuda_graph, options[0].compile) == (False, True)


def test_a_run_on_several_engines_is_finished_after_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    engines = {"native": FakeBackend(), "hf-assisted": FakeBackend()}
    monkeypatch.setattr(runner, "make_backend", engines.__getitem__)
    sweep = Sweep(tmp_path, backends=list(engines))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(engines["hf-assisted"], "load", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sweep.run()
    half = load_run(sweep.config.folder)
    assert {cell.backend for cell in half.cells} == {"native"}
    assert half.manifest.finished is None
    sweep.run()
    whole = load_run(sweep.config.folder)
    assert {cell.backend for cell in whole.cells} == set(engines)
    assert whole.manifest.finished is not None
