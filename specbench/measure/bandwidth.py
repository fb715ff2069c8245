"""The machine's own limits, measured: bytes per second of large copies and reads, and operations.

A forward cannot be faster than its bytes over the bandwidth, nor than its operations over the
matmul rate, so they are measured at the start of a run, on the run's device with the run's thread
count, and utilisations are given against them rather than against a data sheet.

A copy is counted as one read and one write of the buffer. What a processor moves besides (reading
a cache line before overwriting it) is not counted, so work that only reads, as decoding nearly
does, can come out above 100% of a copy; therefore reading alone is measured too, as a sum over the
buffer. The buffers are several times the last-level cache.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from specbench.measure.clock import Clock, clock_for
from specbench.measure.device import last_level_cache_bytes
from specbench.measure.memory import available_bytes

_CACHE_MULTIPLE = 4
_LEAST_CPU_BUFFER_BYTES = 256 * 2**20
_GPU_BUFFER_BYTES = 2**30
_UNKNOWN_CACHE_BYTES = 64 * 2**20
_LEAST_REPEATS = 3


def copy_bandwidth(device: Any, *, budget_s: float = 1.5, clock: Clock | None = None) -> float:
    """Bytes per second of a copy inside the device's memory, reads and writes both counted.

    The median of at least 3 copies, and of as many as fit in ``budget_s``; one more is made first
    and not counted, since it touches fresh pages.

    Args:
        device: a torch device or its name. On the CPU torch's thread count is the run's.
        budget_s: seconds to spend on counted copies.
        clock: replaces the device's clock in tests.
    """
    import torch

    size = _buffer_bytes(str(device))
    source = torch.ones(size // 4, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    seconds = _median_seconds(lambda: target.copy_(source), clock or clock_for(device), budget_s)
    return 2 * size / seconds


def read_bandwidth(device: Any, *, budget_s: float = 1.0, clock: Clock | None = None) -> float:
    """Bytes per second of a sum over a large buffer, which reads it and writes nothing.

    Measured as :func:`copy_bandwidth` is.

    Args:
        device: a torch device or its name.
        budget_s: seconds to spend on counted reads.
        clock: replaces the device's clock in tests.
    """
    import torch

    source = torch.ones(_buffer_bytes(str(device)) // 4, dtype=torch.float32, device=device)
    total = torch.empty((), dtype=torch.float32, device=device)
    work = _sum_into(source, total)
    seconds = _median_seconds(work, clock or clock_for(device), budget_s)
    return 4 * source.numel() / seconds


def matmul_rate(
    device: Any, dtype: Any = None, *, budget_s: float = 1.0, clock: Clock | None = None
) -> float:
    """Floating-point operations per second of a square matrix product, multiply and add counted.

    The side doubles until one product takes a twentieth of the budget: a processor without
    instructions for ``dtype`` (bfloat16 on many) is hundreds of times slower and must not stall
    the start of a run. The factor is random, since a GPU takes less power for ones or zeros and
    clocks higher on them than on any model's weights.

    Args:
        device: a torch device or its name.
        dtype: a torch dtype; float32 when not given.
        budget_s: about the seconds to spend.
        clock: replaces the device's clock in tests.
    """
    import torch

    dtype = dtype or torch.float32
    clock = clock or clock_for(device)
    random = torch.Generator(device).manual_seed(0)
    largest = 8192 if str(device).startswith("cuda") else 2048
    side = 128
    while True:
        left = torch.randn(side, side, dtype=dtype, device=device, generator=random)
        product = torch.empty_like(left)
        multiply = _product_into(left, product)
        multiply()
        start = clock.mark()
        multiply()
        seconds = clock.seconds(start, clock.mark())
        if side >= largest or seconds > budget_s / 20:
            break
        side *= 2
    seconds = _median_seconds(multiply, clock, budget_s)
    return 2 * side**3 / float(seconds)


def _product_into(left: Any, product: Any) -> Callable[[], Any]:
    import torch

    return lambda: torch.matmul(left, left, out=product)


def _sum_into(source: Any, total: Any) -> Callable[[], Any]:
    import torch

    return lambda: torch.sum(source, dim=0, out=total)


def _median_seconds(work: Callable[[], Any], clock: Clock, budget_s: float) -> float:
    work()
    samples: list[float] = []
    while len(samples) < _LEAST_REPEATS or sum(samples) < budget_s:
        start = clock.mark()
        work()
        samples.append(clock.seconds(start, clock.mark()))
    return statistics.median(samples)


def _buffer_bytes(device: str) -> int:
    """Large against every cache, small against the memory: two such buffers are allocated."""
    free = available_bytes(device)
    if device.startswith("cuda"):
        return min(_GPU_BUFFER_BYTES, free // 8) // 4 * 4
    cache = last_level_cache_bytes() or _UNKNOWN_CACHE_BYTES
    wanted = max(_LEAST_CPU_BUFFER_BYTES, _CACHE_MULTIPLE * cache)
    return min(wanted, free // 8) // 4 * 4
