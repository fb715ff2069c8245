"""Is this machine fit to measure, and are its times its own?

One small function per check, declared with its section and its name; a new one is a function in
one of these files, or a file more in :data:`THEMES`. ``specbench doctor`` prints all findings;
``specbench run`` asks those that spoil a measurement and keeps what they say.

>>> for finding in examine(Machine()):                                          # doctest: +SKIP
...     print(finding.verdict, finding.sentence)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.checkup import (
    cpu,
    device,
    gpu_setup,
    gpu_use,
    network,
    room,
    speed,
    versions,
)
from specbench.checkup.finding import Check, Finding, Verdict
from specbench.checkup.machine import Machine

__all__ = ["CHECKS", "Check", "Finding", "Machine", "Verdict", "examine", "what_spoils"]

THEMES = (versions, device, speed, gpu_use, gpu_setup, cpu, room, network)
"""In the order of the answer: the GPU is looked at right after it has worked."""

CHECKS: tuple[Check, ...] = tuple(
    one for theme in THEMES for one in vars(theme).values() if isinstance(one, Check)
)


def examine(machine: Machine, checks: Sequence[Check] = CHECKS) -> Iterator[Finding]:
    """What the checks find, one after the other, as each has looked."""
    for one in checks:
        yield from one.findings(machine)


def what_spoils(device: str) -> list[str]:
    """Sentences about what makes times on a device something else than its own, now.

    Args:
        device: a resolved device that this process computes on already.
    """
    machine = Machine(device, in_use=True)
    spoiling = [one for one in CHECKS if one.spoils]
    return [one.sentence for one in examine(machine, spoiling) if one.verdict != "ok"]
