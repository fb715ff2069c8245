"""Clocks: what a mark costs, what is waited for, and that seconds are seconds."""

from __future__ import annotations

import time

import pytest

from specbench.measure.clock import CudaClock, FakeClock, HostClock, clock_for
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
