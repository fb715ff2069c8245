"""When requests are sent: never more in flight than wanted, or at their times come what may."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from specbench.serving.load import closed_loop, open_loop, poisson_arrivals


class Sender:
    """Notes what is sent; a request ends when its turn in ``ends`` is set."""

    def __init__(self, fails: int | None = None) -> None:
        self.sent: list[int] = []
        self.late_s: list[float] = []
        self.in_flight = self.most = 0
        self.fails = fails

    async def send(self, number: int, due_s: float) -> None:
        self.sent.append(number)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            if number == self.fails:
                raise ValueError(f"request {number}")
            await asyncio.sleep(0.001 * (number % 3))
        finally:
            self.in_flight -= 1


@pytest.mark.parametrize(("count", "width", "most"), [(7, 3, 3), (2, 5, 2), (4, 1, 1)])
def test_a_closed_loop_keeps_so_many_in_flight(count: int, width: int, most: int):
    sender = Sender()
    asyncio.run(closed_loop(sender.send, count, width))
    assert sender.sent == list(range(count))
    assert sender.most == most
    assert sender.in_flight == 0


def test_an_open_loop_does_not_wait_for_answers():
    sender = Sender()
    asyncio.run(open_loop(sender.send, [0.0] * 9))
    assert sorted(sender.sent) == list(range(9))
    assert sender.most == 9


@pytest.mark.parametrize("loop", ["closed", "open"])
def test_the_first_failure_is_raised_as_it_is_and_ends_the_others(loop: str):
    sender = Sender(fails=1)
    work = closed_loop(sender.send, 6, 2) if loop == "closed" else open_loop(sender.send, [0.0] * 6)
    with pytest.raises(ValueError) as problem:
        asyncio.run(work)
    assert str(problem.value) == "request 1"
    assert sender.in_flight == 0


def test_arrivals_are_a_poisson_process_of_the_seed():
    arrivals = poisson_arrivals(20_000, 4.0, (0, 1))
    gaps = np.diff(arrivals)
    assert arrivals[0] == 0.0
    assert gaps.mean() == pytest.approx(0.25, rel=0.03)
    assert gaps.std() == pytest.approx(0.25, rel=0.03)  # of an exponential it is the mean
    assert arrivals == poisson_arrivals(20_000, 4.0, (0, 1))
    assert arrivals != poisson_arrivals(20_000, 4.0, (0, 2))
    assert poisson_arrivals(1, 4.0, (0,)) == [0.0]
