"""``specbench doctor``: is this machine fit to measure, what is missing, and how fast is it.

Everything is looked at, nothing is changed; about half a minute. Exit code 1 if something that
``specbench run`` needs is missing, so that a script can rely on it; a warning does not count.

    specbench doctor
    specbench doctor --json > machine.json
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from specbench.checkup import Finding

_VERDICTS = ("ok", "warn", "fail")
_LINE = 80
_NAME_WIDTH = 17
_INDENT = " " * (2 + 6 + _NAME_WIDTH + 1)


def doctor(
    online: Annotated[
        bool | None,
        typer.Option(
            "--online/--offline",
            help="Insist on the model hub and the package index, or don't ask them.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Look at this machine: versions, device, speed, what spoils measurements, disk, network.

    Each line is ok, warn (numbers may mislead, or something that not every run needs is missing) or
    fail (specbench run can't work), with what to do. Exit code 1 if one fails.

    specbench run asks the lines that spoil a measurement itself: other processes on the GPU,
    throttling, a busy CPU, little memory.
    """
    from specbench.checkup import Machine, examine
    from specbench.cli._output import print_json

    machine = Machine(online=online)
    found: list[Finding] = []
    if as_json:
        found = list(examine(machine))
        print_json(document(found))
    else:
        for line in _lines(_kept(examine(machine), found)):
            print(line, flush=True)
        print("\n".join(_closing(found)))
    if any(finding.verdict == "fail" for finding in found):
        raise typer.Exit(1)


def document(found: Iterable[Finding]) -> dict[str, Any]:
    """All findings as plain data, for JSON."""
    checks = [asdict(finding) for finding in found]
    count = {verdict: sum(one["verdict"] == verdict for one in checks) for verdict in _VERDICTS}
    return {"ready": not count["fail"], "count": count, "checks": checks}


def _kept(findings: Iterator[Finding], found: list[Finding]) -> Iterator[Finding]:
    """The findings, kept in a list while they are printed."""
    for finding in findings:
        found.append(finding)
        yield finding


def _lines(findings: Iterator[Finding]) -> Iterator[str]:
    """Sections with a line per finding, printed as each has looked."""
    for section, group in itertools.groupby(findings, lambda finding: finding.section):
        yield section
        for finding in group:
            yield from _finding_lines(finding)
        yield ""


def _finding_lines(finding: Finding) -> list[str]:
    head = f"  {finding.verdict:<6}{finding.name:<{_NAME_WIDTH}} "
    lines = _wrapped(finding.value, head)
    if finding.advice:
        lines += _wrapped(finding.advice, f"{_INDENT}-> ")
    return lines


def _wrapped(text: str, head: str) -> list[str]:
    from specbench.cli._output import wrapped

    return wrapped(text, head, " " * len(head)).splitlines() or [head.rstrip()]


def _closing(found: list[Finding]) -> list[str]:
    """Whether ``specbench run`` works here; what fails is told again, for it is far up by now."""
    from specbench.analysis.shown.names import counted

    warnings = sum(finding.verdict == "warn" for finding in found)
    failures = [finding for finding in found if finding.verdict == "fail"]
    counts = [counted(len(failures), "failure")] if failures else []
    counts += [counted(warnings, "warning")] if warnings else []
    said = f"{'not ' if failures else ''}ready for specbench run"
    lines = [f"{said}: {', '.join(counts)}" if counts else said]
    for finding in failures:
        lines += _wrapped(finding.sentence, "  ")
    return lines
