"""What other processes do on the processor while this one wants to measure.

>>> load = others_load(0.01)
>>> load.busy_cores >= 0
True
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_WORKING = ("user", "nice", "system", "irq", "softirq", "steal")
_NAMED_FROM_CORES = 0.1
_MOST_NAMED = 3


@dataclass(frozen=True)
class Load:
    """Of other processes, over one look.

    Attributes:
        busy_cores: how many of the cores that this process may use were busy on average.
        busiest: ``name (number)`` of those that took at least a tenth of a core, the busiest first.
    """

    busy_cores: float
    busiest: list[str]


def others_load(
    seconds: float,
    processor: Any = None,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> Load:
    """Look at the kernel's books, sleep, and look again.

    Args:
        seconds: to sleep; the kernel counts in hundredths.
        processor: stands in for ``psutil`` in tests.
        sleep, now: likewise.
    """
    if processor is None:
        import psutil

        processor = psutil
    began, cores, processes = now(), _busy_seconds(processor), _seconds_by_process(processor)
    sleep(seconds)
    elapsed = now() - began
    cores = _busy_seconds(processor) - cores
    spent = {
        key: after - processes[key]
        for key, after in _seconds_by_process(processor).items()
        if key in processes
    }
    own = sum(spent.pop(key) for key in list(spent) if key[0] == os.getpid())
    busiest = sorted(spent, key=spent.__getitem__, reverse=True)[:_MOST_NAMED]
    return Load(
        busy_cores=max(cores - own, 0.0) / elapsed,
        busiest=[
            f"{name} ({number})"
            for number, name in busiest
            if spent[number, name] >= _NAMED_FROM_CORES * elapsed
        ],
    )


def _busy_seconds(processor: Any) -> float:
    """Seconds that the usable cores have worked since the machine was started."""
    cores = processor.cpu_times(percpu=True)
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if usable and max(usable) < len(cores):  # else the kernel shows this container its own only
        cores = [cores[number] for number in usable]
    return sum(getattr(core, kind, 0.0) for core in cores for kind in _WORKING)


def _seconds_by_process(processor: Any) -> dict[tuple[int, str], float]:
    """(number, name) -> CPU seconds of every process that may be asked."""
    return {
        (process.info["pid"], process.info["name"]): times.user + times.system
        for process in processor.process_iter(["pid", "name", "cpu_times"])
        if (times := process.info["cpu_times"]) is not None
    }
