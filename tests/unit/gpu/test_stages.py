"""Stages: budgets, failures that cost themselves only, and what is left running (nothing)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.gpu import stages as module
from tests.gpu.stages import Command, Outcome, Stage, Workplace, reason_in, run_stage, run_stages

SLEEPS = "import time; time.sleep(60)"


def stage(name: str, *programs: str, budget_s: float = 30, **more: object) -> Stage:
    """A stage whose commands are Python programs."""
    return Stage(name, name, budget_s, tuple(Command(("-c", text)) for text in programs), **more)


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE_S", 0.5)


class Clock:
    """In place of the module ``time``: the budget is over once a file is there, or in a minute."""

    sleep = staticmethod(time.sleep)

    def __init__(self, ready: Path) -> None:
        self._ready, self._began = ready, time.monotonic()

    def monotonic(self) -> float:
        return 1.0 if self._ready.exists() or time.monotonic() > self._began + 60 else 0.0


@pytest.fixture
def ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a script writes when it is as far as its test wants it; only then a second has gone."""
    monkeypatch.setattr(module, "time", Clock(tmp_path / "ready"))
    return tmp_path / "ready"


def script(name: str, text: str) -> Stage:
    """A stage of one second that is a shell script."""
    return Stage(name, name, 1, (Command(("-c", text)),))


@pytest.fixture
def shell(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path / "out", program=("/bin/sh",))


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path / "out", known="--device --compile / --no-compile shape:NAME")


def test_a_stage_is_done_and_its_output_is_in_its_log(place: Workplace):
    outcome = run_stage(stage("hello", "print('hello')"), place, 60)
    assert (outcome.status, outcome.reason) == ("done", None)
    assert outcome.seconds > 0
    assert (place.out / "logs" / "hello.log").read_text() == "hello\n"


def test_a_failure_is_recorded_with_its_reason_and_the_rest_goes_on(place: Workplace):
    bad = stage("bad", "import sys; print('error: no such model', file=sys.stderr); sys.exit(2)")
    outcomes = list(run_stages([bad, stage("good", "pass")], place, 60))
    assert [(one.name, one.status, one.reason) for one in outcomes] == [
        ("bad", "failed", "no such model"),
        ("good", "done", None),
    ]


def test_a_hanging_stage_is_ended_at_its_budget_with_its_children(shell: Workplace, ready: Path):
    child = shell.out.parent / "child"
    text = f"sleep 60 & echo $! > {child}; : > {ready}; wait"
    outcome = run_stage(script("hangs", text), shell, 60)
    assert (outcome.status, outcome.budget_s) == ("out of time", 1)
    assert not is_running(int(child.read_text()))


def test_a_stage_that_ignores_the_interrupt_is_killed(shell: Workplace, ready: Path):
    text = f"trap '' INT; : > {ready}; sleep 60; sleep 60"
    outcome = run_stage(script("stubborn", text), shell, 60)
    assert outcome.status == "out of time"


def test_an_interrupt_lets_it_keep_what_it_has(
    shell: Workplace, ready: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "_GRACE_S", 60.0)  # it ends by itself
    kept = shell.out.parent / "kept"
    trap = f"trap 'touch {kept}; exit' INT; sleep 60 & : > {ready}; wait"
    assert run_stage(script("keeps", trap), shell, 60).status == "out of time"
    assert kept.exists()


def test_the_time_left_cuts_a_budget_and_without_any_nothing_starts(place: Workplace):
    cut = run_stage(stage("cut", SLEEPS, budget_s=30), place, 5.1)
    assert (cut.status, cut.budget_s) == ("out of time", 5.1)
    late = run_stage(stage("late", "pass", budget_s=30), place, 4.9)
    assert (late.status, late.budget_s, late.seconds) == ("no time left", 4.9, 0.0)
    assert not (place.out / "logs" / "late.log").exists()


def test_earlier_stages_leave_the_reserved_time(place: Workplace, monkeypatch: pytest.MonkeyPatch):
    got = []

    def note(stage: Stage, place: Workplace, seconds_left: float) -> Outcome:
        got.append((stage.name, seconds_left))
        return Outcome(stage.name, "done")

    monkeypatch.setattr(module, "run_stage", note)
    moments = iter([0.0, 0.0, 70.0, 95.0])
    planned = [stage("a"), stage("b"), stage("last", budget_s=40, reserved=True)]
    list(run_stages(planned, place, 100, lambda: next(moments)))
    assert got == [("a", 60.0), ("b", -10.0), ("last", 5.0)]


def test_what_this_version_lacks_is_named_and_not_run(place: Workplace):
    graph = stage("graph", SLEEPS, options=("shape:NAME", "--no-cuda-graph"))
    outcome = run_stage(graph, place, 60)
    assert outcome.status == "not available in this version"
    assert outcome.reason == "run has no --no-cuda-graph"
    assert run_stage(stage("compile", "pass", options=("--compile",)), place, 60).status == "done"


def test_a_stage_can_be_left_out_with_its_reason(place: Workplace):
    outcome = run_stage(stage("engines", SLEEPS, left_out="no weights"), place, 60)
    assert (outcome.status, outcome.reason) == ("left out", "no weights")


def test_commands_side_by_side_write_their_own_files_and_one_failure_is_enough(place: Workplace):
    first, second = place.out / "one.json", place.out / "two.json"
    both = Stage(
        "both",
        "two",
        30,
        (
            Command(("-c", "print(1)"), stdout=first),
            Command(("-c", "print(2); raise SystemExit('error: broken')"), stdout=second),
        ),
    )
    outcome = run_stage(both, place, 60)
    assert (outcome.status, outcome.reason) == ("failed", "broken")
    assert (first.read_text(), second.read_text()) == ("1\n", "2\n")


def test_a_command_whose_input_was_not_measured_is_left_out(place: Workplace, tmp_path: Path):
    absent = Command(("-c", SLEEPS), needs=tmp_path / "absent")
    here = Command(("-c", "pass"), needs=tmp_path)
    assert run_stage(Stage("some", "", 30, (absent, here)), place, 60).status == "done"
    assert run_stage(Stage("none", "", 30, (absent,)), place, 60).status == "left out"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it said nothing"),
        ("one\ntwo\n\n", "two"),
        ("error: first\nerror: why\nwritten to x\n", "why"),
        ("Traceback\nKeyError: 3\nerror: this is a bug in specbench. Please", "KeyError: 3"),
    ],
)
def test_the_reason_is_the_last_error_or_the_last_line(tmp_path: Path, text: str, reason: str):
    log = tmp_path / "log"
    log.write_text(text)
    assert reason_in(log) == reason
    assert reason_in(tmp_path / "absent") == "it said nothing"


def is_running(process: int) -> bool:
    """Whether a process that was killed works on after a while; nobody may have waited for it."""
    for _ in range(600):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return False
        if state == "Z":
            return False
        time.sleep(0.05)
    return True
