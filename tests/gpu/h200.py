"""Measures on one GPU what specbench promises there, in under ten minutes, stage by stage.

    python -m tests.gpu.h200 --dry-run                      the plan and its budgets
    python -m tests.gpu.h200 --out results/h200             the whole script
    python -m tests.gpu.h200 --smollm2 FOLDER               with SmolLM2's weights at hand
    python -m tests.gpu.h200 --smollm2 FOLDER --vllm-python PATH            and with vLLM
    python -m tests.gpu.h200 --only 8b-compile --only figures
    python -m tests.gpu.h200 --tiny --out /tmp/tiny         on the CPU, to test the script

Runs from a checkout; specbench need not be installed. Every stage drives the command line in a
process of its own; a stage that fails is recorded and the rest goes on. A run that is there already
is continued, so the same command again measures what is missing, also after Ctrl-C or a kill. Exit
code 1 if a stage failed or a criterion is not held; what was not measured is no failure. Figures of
a tiny model say nothing.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from specbench import registry
from tests.gpu import summary, summary_text
from tests.gpu.plan import TOTAL_S, Options, plan, prepare
from tests.gpu.records import Records
from tests.gpu.stages import (
    ROOT,
    Command,
    Outcome,
    Stage,
    Workplace,
    run_stage,
    run_stages,
)

_BAD = {"failed", "out of time", "no time left"}
_NO_ENGINES = {"native", "openai", "vllm"}  # the script's own; those that need servers


def main(words: Sequence[str] | None = None) -> int:
    """Run the script; its exit code."""
    began, started = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    words = sys.argv[1:] if words is None else words
    arguments = _parsed(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a job's time limit, as Ctrl-C
    smollm2 = arguments.smollm2 and _from_root(arguments.smollm2)
    options = Options(
        _from_root(arguments.out), arguments.tiny, smollm2, engines(), arguments.vllm_python
    )
    os.chdir(ROOT)
    stages = chosen(plan(options), arguments.only)
    if arguments.dry_run:
        print("\n".join(plan_lines(stages, arguments.budget)))
        return 0
    missing = missing_packages()
    if missing:
        print(f"missing packages: {', '.join(missing)}", file=sys.stderr)
    place = Workplace(options.out)
    known = _what_run_knows(place)
    if known is None:
        return 1
    prepare(options)
    place = Workplace(options.out, known)
    outcomes: list[Outcome] = []
    document: dict[str, Any] = {}
    command = shlex.join(["python", "-m", "tests.gpu.h200", *words])
    try:
        for outcome in run_stages(stages, place, arguments.budget - (time.monotonic() - began)):
            outcomes.append(outcome)
            print(_told(outcome), flush=True)
            seconds = time.monotonic() - began
            facts = summary.Facts(started, seconds, command, _commit(), missing, options.tiny)
            document = summary.document(facts, outcomes, Records(options.out))
            summary.write(options.out, document)
    except KeyboardInterrupt:
        print(f"stopped; what was measured is in {options.out}, and the same command goes on")
        return 130
    print("", *summary_text.lines(document), f"\nwritten to {options.out}", sep="\n")
    verdicts = [] if options.tiny else [one["verdict"] for one in document["criteria"]]
    return int("not held" in verdicts or any(outcome.status in _BAD for outcome in outcomes))


def plan_lines(stages: Sequence[Stage], total_s: float) -> Iterator[str]:
    """What would be run, each stage with its budget and its commands."""
    budgets = sum(stage.budget_s for stage in stages if stage.left_out is None)
    yield f"{len(stages)} stages, {budgets:.0f} s of budgets, all within {total_s:.0f} s"
    for stage in stages:
        yield ""
        yield f"{stage.name}: {stage.what}, at most {stage.budget_s:.0f} s"
        if stage.left_out is not None:
            yield f"  left out: {stage.left_out}"
        if stage.options:
            yield f"  needs a version whose run has {', '.join(stage.options)}"
        for command in stage.commands:
            output = f" > {command.stdout}" if command.stdout else ""
            yield f"  python {shlex.join(command.words)}{output}"


def chosen(stages: list[Stage], names: Sequence[str]) -> list[Stage]:
    """The stages of these names; all if none is named.

    Raises:
        SystemExit: there is no stage of a name.
    """
    known = [stage.name for stage in stages]
    for name in names:
        if name not in known:
            raise SystemExit(f"error: no stage {name!r}. Known: {', '.join(known)}")
    return [stage for stage in stages if not names or stage.name in names]


def missing_packages() -> tuple[str, ...]:
    """Packages of the project file that are not installed here."""
    with (ROOT / "pyproject.toml").open("rb") as stream:
        needed = tomllib.load(stream)["project"]["dependencies"]
    installed = {_same_name(one.name or "") for one in metadata.distributions()}
    names = [line.partition(">")[0].partition("<")[0].strip() for line in needed]
    return tuple(name for name in names if _same_name(name) not in installed)


def engines() -> tuple[str, ...]:
    """Backends of this version that a stage can run beside the native one."""
    return tuple(name for name in registry.names("backends") if name not in _NO_ENGINES)


def _what_run_knows(place: Workplace) -> str | None:
    """The text of ``specbench run --help``; None, after saying why, if there is none."""
    text = place.out / "logs" / "run-help.txt"
    command = Command(("-m", "specbench", "run", "--help"), stdout=text)
    outcome = run_stage(Stage("help", "what run can do", 60, (command,)), place, 60)
    if outcome.status != "done":
        reason = outcome.reason or outcome.status
        print(f"error: specbench does not start here: {reason}", file=sys.stderr)
        return None
    return text.read_text(encoding="utf-8")


def _told(outcome: Outcome) -> str:
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.name:<18}{outcome.seconds:>6.1f} s  {outcome.status}{reason}"


def _from_root(path: Path) -> Path:
    """A path as the stages see it, which run in the checkout's root."""
    whole = path.resolve()
    return whole.relative_to(ROOT) if whole.is_relative_to(ROOT) else whole


def _commit() -> str | None:
    asked = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or None


def _same_name(name: str) -> str:
    return name.lower().replace("_", "-")


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.gpu.h200", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "h200", metavar="DIR")
    parser.add_argument("--smollm2", type=Path, metavar="FOLDER", help="SmolLM2-135M's weights")
    parser.add_argument("--vllm-python", type=Path, metavar="PATH", help="of its environment")
    parser.add_argument("--only", action="append", default=[], metavar="STAGE", help="repeatable")
    parser.add_argument("--budget", type=float, default=TOTAL_S, metavar="SECONDS")
    parser.add_argument("--tiny", action="store_true", help="a tiny shape on the CPU")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, measure nothing")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
