"""Bandwidth and matmul rate: the arithmetic against a fake clock, the sizes against the caches."""

from __future__ import annotations

import pytest
import torch

from specbench.measure import bandwidth
from specbench.measure.bandwidth import copy_bandwidth, matmul_rate, read_bandwidth
from tests.clocks import FakeClock

SMALL_BUFFER_BYTES = 2**20


@pytest.fixture
def small_buffers(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bandwidth, "_buffer_bytes", lambda _: SMALL_BUFFER_BYTES)


@pytest.mark.usefixtures("small_buffers")
def test_a_copy_counts_its_reads_and_its_writes():
    # every copy lasts one tick of 0.5 s
    rate = copy_bandwidth("cpu", clock=FakeClock(tick_s=0.5))
    assert rate == 2 * SMALL_BUFFER_BYTES / 0.5


class CountingClock(FakeClock):
    def __init__(self, tick_s: float) -> None:
        super().__init__(tick_s)
        self.marks = 0

    def mark(self) -> float:
        self.marks += 1
        return super().mark()


@pytest.mark.usefixtures("small_buffers")
@pytest.mark.parametrize(("tick_s", "copies"), [(5.0, 3), (0.25, 6)])
def test_at_least_three_copies_then_as_many_as_fit_the_budget(tick_s: float, copies: int):
    clock = CountingClock(tick_s)
    copy_bandwidth("cpu", budget_s=1.5, clock=clock)
    assert clock.marks == 2 * copies


def test_a_slow_dtype_stops_the_search_at_the_smallest_product():
    rate = matmul_rate("cpu", torch.bfloat16, budget_s=1.0, clock=FakeClock(tick_s=0.1))
    assert rate == pytest.approx(2 * 128**3 / 0.1)


def test_a_fast_device_gets_the_largest_product(monkeypatch: pytest.MonkeyPatch):
    sides = []

    def record(left: torch.Tensor, product: torch.Tensor):
        sides.append(left.shape[0])
        return lambda: None

    monkeypatch.setattr(bandwidth, "_product_into", record)
    rate = matmul_rate("cpu", budget_s=1.0, clock=FakeClock(tick_s=0.01))
    assert sides == [128, 256, 512, 1024, 2048]
    assert rate == pytest.approx(2 * 2048**3 / 0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_random_values_are_multiplied(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype):
    factors = []

    def record(left: torch.Tensor, product: torch.Tensor):
        factors.append(left)
        return lambda: None

    monkeypatch.setattr(bandwidth, "_product_into", record)
    matmul_rate("cpu", dtype, budget_s=1.0, clock=FakeClock(tick_s=1.0))
    (factor,) = factors
    assert factor.dtype == dtype
    assert len(factor.unique()) > 1000
    assert factor.float().std() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("cache_bytes", "wanted"),
    [(32 * 2**20, 256 * 2**20), (300 * 2**20, 1200 * 2**20), (None, 256 * 2**20)],
)
def test_the_buffer_is_several_times_the_last_level_cache(
    monkeypatch: pytest.MonkeyPatch, cache_bytes: int | None, wanted: int
):
    monkeypatch.setattr(bandwidth, "last_level_cache_bytes", lambda: cache_bytes)
    monkeypatch.setattr(bandwidth, "available_bytes", lambda device: 64 * 2**30)
    assert bandwidth._buffer_bytes("cpu") == wanted


def test_the_buffer_leaves_memory_free(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bandwidth, "available_bytes", lambda device: 2**30)
    assert bandwidth._buffer_bytes("cpu") == 2**30 // 8


@pytest.mark.usefixtures("small_buffers")
def test_a_read_counts_the_buffer_once():
    assert read_bandwidth("cpu", clock=FakeClock(tick_s=0.5)) == SMALL_BUFFER_BYTES / 0.5


@pytest.mark.usefixtures("small_buffers")
def test_all_of_the_buffer_is_read(monkeypatch: pytest.MonkeyPatch):
    totals = []
    sum_into = bandwidth._sum_into

    def keeping(source: torch.Tensor, total: torch.Tensor):
        totals.append(total)
        return sum_into(source, total)

    monkeypatch.setattr(bandwidth, "_sum_into", keeping)
    read_bandwidth("cpu", clock=FakeClock(tick_s=1.0))
    assert totals[0].item() == SMALL_BUFFER_BYTES / 4
