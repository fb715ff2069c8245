"""The processor: how much of it there is for this process, what others do on it, its governor."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from specbench.checkup.finding import Facts, Finding, check, ok, warn

if TYPE_CHECKING:
    from specbench.checkup.machine import Machine

_LOOK_S = 0.5
_TOLERATED_CORES = 0.25
_CORES_BESIDE_A_GPU = 2  # one for the loop, one for the driver's threads


@check("CPU", "cores")
def cores(machine: Machine) -> Finding:
    """A run on the CPU takes as many threads as there are cores that this process may use."""
    from specbench.measure.device import usable_cores

    usable, total = usable_cores(), os.cpu_count()
    return ok(
        f"{usable} of {total} usable; a run on the CPU uses {usable} threads",
        usable=usable,
        cores=total,
    )


@check("CPU", "CPU quota", spoils=True)
def quota(machine: Machine) -> Finding:
    """More threads than a control group pays for are all stopped together, again and again."""
    from specbench.measure.cgroup import cpu_quota
    from specbench.measure.device import usable_cores

    allowed, usable = cpu_quota(machine.root), usable_cores()
    if allowed is None:
        return ok("no limit by a control group", cores=None)
    value = f"a control group allows the time of {allowed:g} cores"
    if allowed < usable:
        return warn(
            f"{value}, fewer than the {usable} usable",
            f"Use --threads {max(int(allowed), 1)}, or give this container more",
            cores=allowed,
        )
    return ok(value, cores=allowed)


@check("CPU", "CPU load", spoils=True)
def load(machine: Machine) -> Finding:
    """A run on the CPU takes every core; one on a GPU needs two that launch its work at once."""
    from specbench.measure.cpu_load import others_load
    from specbench.measure.device import usable_cores

    usable, others = usable_cores(), others_load(_LOOK_S)
    value = f"other processes keep {others.busy_cores:.1f} of {usable} cores busy"
    facts: Facts = {
        "busy_cores": others.busy_cores,
        "usable_cores": usable,
        "busiest": others.busiest,
    }
    needed = min(_CORES_BESIDE_A_GPU, usable) if machine.on_gpu else usable
    if usable - others.busy_cores < needed - _TOLERATED_CORES:
        named = f": {', '.join(others.busiest)}" if others.busiest else ""
        return warn(value + named, "End other work, or wait until it has ended", **facts)
    return ok(value, **facts)


@check("CPU", "governor")
def governor(machine: Machine) -> Finding:
    """A governor that saves power raises clocks late, and short steps run at low ones."""
    files = machine.root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    kinds = Counter(filter(None, map(_read, files)))
    if not kinds:
        return ok("not told by this kernel, as in most virtual machines")
    value = ", ".join(f"{kind} × {count}" for kind, count in sorted(kinds.items()))
    if set(kinds) != {"performance"}:
        advice = "sudo cpupower frequency-set -g performance"
        return warn(value, advice, governors=dict(kinds))
    return ok(value, governors=dict(kinds))


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
