"""Measured speed, and whether it stays the same from one second to the next.

Each rate is measured several times. If they differ, something else is at work on the machine, or
its clocks move, and a speedup measured on it can be an accident.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING

from specbench.checkup.finding import Facts, Finding, check, ok, warn

if TYPE_CHECKING:
    from specbench.checkup.machine import Machine

REPEATS = 5
QUIET = 0.10
"""Largest spread of a quiet machine: what differs more can't show a speedup of 1.1."""

_COPY_S, _MATMUL_S = 0.25, 0.5
_NOT_QUIET = "The machine is not quiet: end other work, let it cool, and look again"


@check("measured speed", "memory copy")
def memory_copy(machine: Machine) -> Finding | None:
    if machine.device is None:
        return None
    from specbench.measure.bandwidth import copy_bandwidth

    rates = _measured(machine, lambda device: copy_bandwidth(device, budget_s=_COPY_S))
    return _judged(rates, f"{statistics.median(rates) / 1e9:,.1f} GB/s, read + write")


@check("measured speed", "matmul float32")
def matmul_float32(machine: Machine) -> Finding | None:
    return _matmul(machine, "float32")


@check("measured speed", "matmul bfloat16")
def matmul_bfloat16(machine: Machine) -> Finding | None:
    return _matmul(machine, "bfloat16")


def _matmul(machine: Machine, dtype: str) -> Finding | None:
    if machine.device is None:
        return None
    import torch

    from specbench.measure.bandwidth import matmul_rate

    kind = getattr(torch, dtype)
    rates = _measured(machine, lambda device: matmul_rate(device, kind, budget_s=_MATMUL_S))
    return _judged(rates, f"{statistics.median(rates) / 1e9:,.1f} GFLOP/s")


def _measured(machine: Machine, rate: Callable[[str], float]) -> list[float]:
    """One more is measured first and not counted: clocks rise, libraries are loaded."""
    from specbench.measure.device import set_threads

    set_threads(None)
    return [rate(str(machine.device)) for _ in range(1 + REPEATS)][1:]


def _judged(rates: list[float], value: str) -> Finding:
    spread = (max(rates) - min(rates)) / statistics.median(rates)
    facts: Facts = {"per_s": statistics.median(rates), "repeats": rates, "spread": spread}
    value = f"{value}; {len(rates)} times within {spread:.1%}"
    return warn(value, _NOT_QUIET, **facts) if spread > QUIET else ok(value, **facts)
