"""The command: its plan, its stages by name, what is missing, and its exit code."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gpu import h200
from tests.gpu.criteria import Criterion
from tests.gpu.stages import ROOT, Outcome, Stage, Workplace


@pytest.fixture(autouse=True)
def back_home() -> Iterator[None]:
    """The script changes into the checkout, and takes a kill as Ctrl-C."""
    before, handler = Path.cwd(), signal.getsignal(signal.SIGTERM)
    yield
    os.chdir(before)
    signal.signal(signal.SIGTERM, handler)


def test_a_dry_run_prints_every_stage_with_its_budget_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert h200.main(["--dry-run", "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("11 stages, ")
    assert "all within 585 s" in out
    for part in (
        "8b-compile: 8B shape, compiled, one token and γ = 4, at most 190 s",
        "  needs a version whose run has shape:NAME, --no-cuda-graph",
        "  left out: ",
        "--drafter synthetic:0.9,cost=eagle:shape --gamma 2,4,8",
        "doctor --json --offline > ",
    ):
        assert part in out
    assert list(tmp_path.iterdir()) == []


def test_stages_are_chosen_by_name(capsys: pytest.CaptureFixture[str]):
    assert h200.main(["--dry-run", "--only", "doctor", "--only", "figures"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("2 stages, 65 s of budgets")
    with pytest.raises(SystemExit) as caught:
        h200.main(["--dry-run", "--only", "dokter"])
    assert "no stage 'dokter'. Known: doctor, 8b, " in str(caught.value)


def test_results_inside_the_checkout_are_named_from_its_root():
    assert h200._from_root(ROOT / "results" / "x") == Path("results/x")
    assert h200._from_root(Path("/elsewhere")) == Path("/elsewhere")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    assert "numpy" not in h200.missing_packages()
    monkeypatch.setattr(h200.metadata, "distributions", lambda: [])
    missing = h200.missing_packages()
    assert {"numpy", "torch", "huggingface_hub", "nvidia-ml-py", "typer"} <= set(missing)


def test_servers_are_no_engines_to_run():
    assert not {"native", "openai", "vllm"} & set(h200.engines())


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch):
    """Let stages end as told, without running anything."""

    def use(**endings: Outcome) -> None:
        def run_stages(stages: list[Stage], place: Workplace, total_s: float) -> Iterator[Outcome]:
            assert total_s < 585
            place.out.mkdir(parents=True, exist_ok=True)
            for stage in stages:
                yield endings.get(stage.name, Outcome(stage.name, "done", 1.0, stage.budget_s))

        monkeypatch.setattr(h200, "run_stages", run_stages)
        monkeypatch.setattr(h200, "_what_run_knows", lambda place: "--compile")

    return use


def test_the_summary_is_written_and_nothing_failed(
    scripted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    scripted(engines=Outcome("engines", "left out", reason="none"))
    assert h200.main(["--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "doctor               1.0 s  done\n" in out
    assert "engines              0.0 s  left out: none\n" in out
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert len(found["stages"]) == 11
    assert found["command"] == f"python -m tests.gpu.h200 --out {tmp_path / 'out'}"


def test_a_criterion_that_is_not_held_is_exit_code_1_but_of_a_tiny_model(
    scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    scripted()
    missed = Criterion("fast", "not held", {"share": 0.1})
    monkeypatch.setattr("tests.gpu.summary.all_criteria", lambda records: [missed])
    assert h200.main(["--out", str(tmp_path / "out")]) == 1
    assert h200.main(["--tiny", "--out", str(tmp_path / "tiny")]) == 0


@pytest.mark.parametrize("status", ["failed", "out of time", "no time left"])
def test_a_stage_that_came_to_nothing_is_exit_code_1(scripted, tmp_path: Path, status):
    scripted(doctor=Outcome("doctor", status, 1.0, 35.0, "why"))
    assert h200.main(["--out", str(tmp_path / "out")]) == 1


def test_a_kill_ends_what_runs_and_leaves_what_is_known(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def killed(stages: list[Stage], place: Workplace, total_s: float) -> Iterator[Outcome]:
        place.out.mkdir(parents=True, exist_ok=True)
        yield Outcome("doctor", "done", 1.0, 30.0)
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("went on")

    monkeypatch.setattr(h200, "run_stages", killed)
    monkeypatch.setattr(h200, "_what_run_knows", lambda place: "")
    assert h200.main(["--out", str(tmp_path / "out")]) == 130
    assert "the same command goes on" in capsys.readouterr().out
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert [stage["status"] for stage in found["stages"]] == ["done"]


def test_a_specbench_that_does_not_start_is_told_with_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def broken(stage: Stage, place: Workplace, seconds_left: float) -> Outcome:
        return Outcome(stage.name, "failed", 1.0, 60.0, "No module named 'pydantic'")

    monkeypatch.setattr(h200, "run_stage", broken)
    monkeypatch.setattr(h200, "missing_packages", lambda: ("pydantic",))
    assert h200.main(["--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "missing packages: pydantic",
        "error: specbench does not start here: No module named 'pydantic'",
    ]


def test_what_it_writes_by_default_can_be_committed():
    kept = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    folder = h200._parsed([]).out.relative_to(ROOT)
    assert f"!/{folder}/" in kept
