"""When requests are sent: closed loop, so many in flight; open loop, as they would arrive.

Closed loop (``--batch-size B``): a request that ends is followed by the next at once, so the server
is asked as fast as it answers. Open loop (``--request-rate R``): requests arrive whether or not
earlier ones were answered, at times of a Poisson process, as from many users who do not know of
each other; a server that is too slow builds a queue, which a closed loop never shows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

Send = Callable[[int, float], Awaitable[None]]
"""Sends request number i, which was due at a time of ``time.perf_counter``; returns at its end."""


async def closed_loop(send: Send, count: int, width: int) -> None:
    """Keep ``width`` requests in flight until all ``count`` were sent, and wait for the last.

    Raises:
        Exception: the first request that failed; the others are dropped.
    """
    numbers = iter(range(count))

    async def slot() -> None:
        for number in numbers:
            await send(number, time.perf_counter())

    await _together([slot() for _ in range(min(width, count))])


async def open_loop(send: Send, arrivals_s: Sequence[float]) -> None:
    """Send request i ``arrivals_s[i]`` seconds from now, and wait for the last to end.

    Raises:
        Exception: the first request that failed; the others are dropped.
    """
    start = time.perf_counter()

    async def one(number: int, due_s: float) -> None:
        await asyncio.sleep(max(due_s - time.perf_counter(), 0.0))
        await send(number, due_s)

    await _together([one(number, start + after) for number, after in enumerate(arrivals_s)])


def poisson_arrivals(count: int, rate: float, seed: Sequence[int]) -> list[float]:
    """Seconds at which ``count`` requests arrive, ``rate`` per second on average; the first at 0.

    Args:
        seed: the same numbers give the same arrivals.
    """
    gaps = np.random.default_rng(list(seed)).exponential(1.0 / rate, size=count - 1)
    return [0.0, *np.cumsum(gaps).tolist()]


async def _together(work: Sequence[Awaitable[None]]) -> None:
    """Wait for all; the first failure ends the others and is raised as it is."""

    async def run(one: Awaitable[None]) -> None:
        await one

    try:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(run(one))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
