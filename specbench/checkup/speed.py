"""Measured speed, and whether it stays the same from one second to the next.

Each rate is measured several times. If they differ, something else is at work on the machine, or
its clocks move, and a speedup measured on it can be an accident.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from specbench.checkup.finding import Facts, Finding, check, ok, warn

if TYPE_CHECKING:
    from specbench.checkup.machine import Machine

REPEATS = 5
QUIET = 0.10
"""Largest spread of a quiet machine: what differs more can't show a speedup of 1.1."""

LEAST_COPY, LEAST_MATMUL = 5e8, 1e9
"""Bytes and operations per second that one core has to spare: below, something else holds it."""

_COPY_S, _MATMUL_S = 0.25, 0.5
_NOT_QUIET = "The machine is not quiet: end other work, let it cool, and look again"


@check("measured speed", "memory copy")
def memory_copy(machine: Machine) -> Finding | None:
    if machine.device is None:
        return None
    from specbench.measure.bandwidth import copy_bandwidth

    rates = _measured(machine, partial(copy_bandwidth, budget_s=_COPY_S))
    value = f"{_told(statistics.median(rates) / 1e9)} GB/s, read + write"
    return _judged(rates, value, least=LEAST_COPY)


@check("measured speed", "matmul")
def matmul(machine: Machine) -> list[Finding] | None:
    """In both dtypes that most checkpoints have; a processor may have no instructions for one."""
    if machine.device is None:
        return None
    import torch

    from specbench.measure.bandwidth import matmul_rate

    single, half = (
        _measured(machine, partial(matmul_rate, dtype=dtype, budget_s=_MATMUL_S))
        for dtype in (torch.float32, torch.bfloat16)
    )
    slower = statistics.median(half) < statistics.median(single)
    remark = "; slower than float32 here, so choose --dtype float32" if slower else ""
    return [
        _judged(single, _operations(single), "matmul float32", least=LEAST_MATMUL),
        _judged(half, _operations(half), "matmul bfloat16", remark),
    ]


def _operations(rates: list[float]) -> str:
    return f"{_told(statistics.median(rates) / 1e9)} GFLOP/s"


def _told(figure: float) -> str:
    return f"{figure:,.1f}" if figure >= 1.0 else f"{figure:.2g}"


def _measured(machine: Machine, rate: Callable[[str], float]) -> list[float]:
    """One more is measured first and not counted: clocks rise, libraries are loaded."""
    from specbench.measure.device import set_threads

    set_threads(None)
    return [rate(str(machine.device)) for _ in range(1 + REPEATS)][1:]


def _judged(
    rates: list[float], value: str, name: str = "", remark: str = "", least: float = 0.0
) -> Finding:
    spread = (max(rates) - min(rates)) / statistics.median(rates)
    facts: Facts = {"per_s": statistics.median(rates), "repeats": rates, "spread": spread}
    shown = f"{spread:.1%}" if spread <= 1.0 else "above 100%"
    value = f"{value}; {len(rates)} measurements, spread {shown}{remark}"
    if spread > QUIET or statistics.median(rates) < least:
        return warn(value, _NOT_QUIET, name=name, **facts)
    return ok(value, name=name, **facts)
