"""Clocks: what a mark costs, what is waited for, and that seconds are seconds."""

from __future__ import annotations

import math
import time

import pytest

from specbench.measure.clock import CudaClock, HostClock, clock_for, seconds_per_mark
from tests.clocks import FakeClock, NoClock
from tests.unit.measure.fakes import FakeCuda


def test_cuda_events_are_recorded_on_the_current_stream_and_turned_into_seconds():
    cuda = FakeCuda(now_ms=100.0)
    clock = CudaClock("cuda:1", cuda)
    start = clock.mark()
    cuda.now_ms = 137.5
    end = clock.mark()
    assert cuda.streams == ["cuda:1", "cuda:1"]
    assert cuda.waited_for == [], "a mark must not wait for the device"
    assert clock.seconds(start, end) == pytest.approx(0.0375, abs=1e-12)
    assert cuda.waited_for == [end]


def test_the_host_clock_measures_elapsed_time():
    clock = HostClock()
    start = clock.mark()
    deadline = time.perf_counter() + 0.002
    while time.perf_counter() < deadline:
        pass
    assert clock.seconds(start, clock.mark()) >= 0.002


def test_the_fake_clock_moves_only_when_told():
    clock = FakeClock()
    start = clock.mark()
    assert clock.seconds(start, clock.mark()) == 0.0
    clock.advance(1.5)
    assert clock.seconds(start, clock.mark()) == 1.5


def test_a_ticking_fake_clock_adds_one_tick_per_mark():
    clock = FakeClock(tick_s=2.0)
    first, second = clock.mark(), clock.mark()
    assert clock.seconds(first, second) == 2.0


@pytest.mark.parametrize(("device", "kind"), [("cpu", HostClock), ("cuda:0", CudaClock)])
def test_the_device_decides_the_clock(device: str, kind: type):
    assert type(clock_for(device)) is kind


def rounds(clock: CudaClock, cuda: FakeCuda, count: int) -> list[tuple[object, ...]]:
    """Chains of three marks, 1 ms and 2 ms apart."""
    chains = []
    for _ in range(count):
        marks = []
        for pause_ms in (1.0, 2.0, 0.0):
            marks.append(clock.mark())
            cuda.now_ms += pause_ms
        chains.append(tuple(marks))
    return chains


def test_many_rounds_are_read_at_once_and_waited_for_once():
    cuda = FakeCuda()
    clock = CudaClock("cuda:0", cuda)
    chains = rounds(clock, cuda, 3)
    assert "synchronize" not in cuda.calls
    assert clock.spans(chains) == [pytest.approx((0.001, 0.002))] * 3
    assert cuda.calls.count("synchronize") == 1
    assert cuda.calls.index("synchronize") > max(
        place for place, call in enumerate(cuda.calls) if call == "record"
    )


def test_events_are_used_again_once_they_were_read():
    cuda = FakeCuda()
    clock = CudaClock("cuda:0", cuda)
    for _ in range(5):
        clock.spans(rounds(clock, cuda, 4))
    assert cuda.events == 12


def test_a_mark_that_ends_one_part_and_begins_the_next_is_given_back_once():
    cuda = FakeCuda()
    clock = CudaClock("cuda:0", cuda)
    begin = clock.mark()
    assert clock.spans([(begin, begin, clock.mark())]) == [(0.0, 0.0)]
    marks = [clock.mark() for _ in range(3)]
    assert len({id(mark) for mark in marks}) == 3
    assert cuda.events == 3


def test_no_rounds_wait_for_nothing():
    cuda = FakeCuda()
    assert CudaClock("cuda:0", cuda).spans([]) == []
    assert cuda.calls == []


def test_every_clock_has_the_seconds_between_neighbouring_marks():
    assert FakeClock().spans([(1.0, 1.5, 4.0), (5.0, 5.0, 6.0)]) == [(0.5, 2.5), (0.0, 1.0)]
    (parts,) = NoClock().spans([(None, None, None)])
    assert [math.isnan(part) for part in parts] == [True, True]


def test_what_a_mark_costs_is_measured_without_leaving_events_behind():
    cuda = FakeCuda()
    clock = CudaClock("cuda:0", cuda)
    assert seconds_per_mark(clock) > 0.0
    created = cuda.events
    assert seconds_per_mark(clock) > 0.0
    assert cuda.events == created
