"""Stages of a long script: each has a budget, and each is recorded whatever becomes of it.

A stage that fails, hangs or can't be run in this version costs itself only. A command that is out
of time is interrupted as by Ctrl-C, which keeps the cells that it has finished, then killed with
everything that it started.

>>> stage = Stage("hello", "say hello", 10, (Command(("-c", "print('hello')")),))
>>> run_stage(stage, Workplace(Path("/tmp")), 60).status                        # doctest: +SKIP
'done'
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
UNAVAILABLE = "not available in this version"
Status = Literal[
    "done", "failed", "out of time", "no time left", "not available in this version", "left out"
]

_LEAST_S = 5.0  # python alone takes seconds to import torch
_GRACE_S = 5.0
_LOOK_S = 0.05
_REASON_CHARS = 200
_BUG = "error: this is a bug in specbench"


@dataclass(frozen=True)
class Command:
    """One process.

    Attributes:
        words: after ``python``.
        stdout: file for its standard output; the stage's log where None.
        needs: a file without which there is nothing to do.
    """

    words: tuple[str, ...]
    stdout: Path | None = None
    needs: Path | None = None


@dataclass(frozen=True)
class Stage:
    """One step of the script.

    Attributes:
        name: of its log, and of the run that it writes.
        what: in a few words.
        budget_s: the longest it may take.
        commands: run side by side if there are several.
        options: words that ``specbench run --help`` must have.
        left_out: why it is not run at all.
        reserved: earlier stages must leave its budget.
    """

    name: str
    what: str
    budget_s: float
    commands: tuple[Command, ...] = ()
    options: tuple[str, ...] = ()
    left_out: str | None = None
    reserved: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a stage; the reason where it is not done."""

    name: str
    status: Status
    seconds: float = 0.0
    budget_s: float = 0.0
    reason: str | None = None


@dataclass(frozen=True)
class Workplace:
    """Where stages run.

    Attributes:
        out: folder of all results; logs lie below it.
        known: the text of ``specbench run --help``.
        program: what runs a command's words.
    """

    out: Path
    known: str = ""
    program: tuple[str, ...] = (sys.executable,)

    def log(self, stage: Stage) -> Path:
        return self.out / "logs" / f"{stage.name}.log"


def run_stages(
    stages: Sequence[Stage],
    place: Workplace,
    total_s: float,
    now: Callable[[], float] = time.monotonic,
) -> Iterator[Outcome]:
    """Run stages in order until the time is used up; what becomes of each, as it is known."""
    began = now()
    for number, stage in enumerate(stages):
        kept_s = sum(later.budget_s for later in stages[number + 1 :] if later.reserved)
        yield run_stage(stage, place, total_s - (now() - began) - kept_s)


def run_stage(stage: Stage, place: Workplace, seconds_left: float) -> Outcome:
    """Run one stage within its budget and the time that is left."""
    lacking = [option for option in stage.options if option not in place.known]
    budget_s = min(stage.budget_s, seconds_left)
    if stage.left_out is not None:
        return Outcome(stage.name, "left out", reason=stage.left_out)
    if lacking:
        return Outcome(stage.name, UNAVAILABLE, reason=f"run has no {', '.join(lacking)}")
    if budget_s < min(_LEAST_S, stage.budget_s):
        return Outcome(stage.name, "no time left", budget_s=max(budget_s, 0.0))
    commands = [one for one in stage.commands if one.needs is None or one.needs.exists()]
    if not commands:
        return Outcome(stage.name, "left out", reason="nothing was measured that it could read")
    log = place.log(stage)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("", encoding="utf-8")
    began = time.monotonic()
    codes = _run_all(commands, place, log, began + budget_s)
    seconds = time.monotonic() - began
    if None in codes:
        return Outcome(stage.name, "out of time", seconds, budget_s)
    if any(codes):
        return Outcome(stage.name, "failed", seconds, budget_s, reason_in(log))
    return Outcome(stage.name, "done", seconds, budget_s)


def reason_in(log: Path) -> str:
    """The last line of a log that begins with ``error:``, else its last line."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(_BUG)]  # its exception stands above
    errors = [line for line in lines if line.startswith("error:")]
    return (
        (errors or lines or ["it said nothing"])[-1].removeprefix("error:").strip()[:_REASON_CHARS]
    )


def _run_all(
    commands: Sequence[Command], place: Workplace, log: Path, ends: float
) -> list[int | None]:
    """Exit codes, None for what was out of time; as many at once as there are cores.

    Args:
        ends: the moment, by the monotonic clock, until which all may run.
    """
    waiting, codes = list(commands), []
    running: list[subprocess.Popen[bytes]] = []
    try:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                running.append(_start(waiting.pop(0), place, log))
            time.sleep(_LOOK_S)
            ended = [process for process in running if process.poll() is not None]
            running = [process for process in running if process not in ended]
            codes += [process.returncode for process in ended]
            if time.monotonic() >= ends:
                return codes + [None] * (len(running) + len(waiting))
        return codes
    finally:  # out of time, or Ctrl-C here
        _end(running)


def _start(command: Command, place: Workplace, log: Path) -> subprocess.Popen[bytes]:
    with contextlib.ExitStack() as files:
        written = output = files.enter_context(log.open("a", encoding="utf-8"))
        if command.stdout is not None:
            command.stdout.parent.mkdir(parents=True, exist_ok=True)
            output = files.enter_context(command.stdout.open("w", encoding="utf-8"))
        return subprocess.Popen(
            [*place.program, *command.words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=written,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
            start_new_session=True,  # so that what it starts ends with it
        )


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Interrupt processes with their children, and kill what does not end."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
    ends = time.monotonic() + _GRACE_S
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(ends - time.monotonic(), 0.0))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
