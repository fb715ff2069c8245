"""Measured rates: the median, and a spread that tells whether the machine is quiet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from specbench.checkup import speed
from tests.unit.checkup.worlds import World, one


def rates(monkeypatch: pytest.MonkeyPatch, function: str, values: list[float]) -> list[Any]:
    """Let a measurement give these values one after the other; the calls it got."""
    left: Iterator[float] = iter(values)
    calls: list[Any] = []

    def measure(device: str, dtype: Any = None, *, budget_s: float) -> float:
        calls.append((device, dtype))
        return next(left)

    monkeypatch.setattr(f"specbench.measure.bandwidth.{function}", measure)
    return calls


def test_the_median_is_told_and_the_first_is_not_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    calls = rates(monkeypatch, "copy_bandwidth", [1e9, 10.1e9, 10e9, 10e9, 9.9e9, 10e9])
    finding = one(speed.memory_copy, world.machine())
    assert finding.verdict == "ok"
    assert finding.value == "10.0 GB/s, read + write; 5 measurements, spread 2.0%"
    assert finding.facts["per_s"] == 10e9
    assert finding.facts["spread"] == pytest.approx(0.02)
    assert len(calls) == 6


def test_rates_that_move_say_that_the_machine_is_not_quiet(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    rates(monkeypatch, "matmul_rate", [5e12, 5e12, 5e12, 5e12, 4e12, 5e12, *[6e12] * 6])
    single, half = speed.matmul.findings(world.machine())
    assert (single.verdict, single.value) == (
        "warn",
        "5,000.0 GFLOP/s; 5 measurements, spread 20.0%",
    )
    assert "not quiet" in single.advice
    assert (half.verdict, half.value) == ("ok", "6,000.0 GFLOP/s; 5 measurements, spread 0.0%")


def test_rates_of_a_machine_that_is_overrun_are_told_too(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    rates(monkeypatch, "matmul_rate", [2e7, 2e7, 2e7, 2e7, 2e7, 8e10, *[1e12] * 6])
    single, _ = speed.matmul.findings(world.machine())
    assert single.value == "0.02 GFLOP/s; 5 measurements, spread above 100%"


def test_both_dtypes_are_measured_on_the_device(world: World, monkeypatch: pytest.MonkeyPatch):
    import torch

    calls = rates(monkeypatch, "matmul_rate", [1e12] * 12)
    names = [finding.name for finding in speed.matmul.findings(world.machine())]
    assert names == ["matmul float32", "matmul bfloat16"]
    assert calls == [("cpu", torch.float32)] * 6 + [("cpu", torch.bfloat16)] * 6


def test_a_slow_bfloat16_says_what_to_choose(world: World, monkeypatch: pytest.MonkeyPatch):
    rates(monkeypatch, "matmul_rate", [2e12] * 6 + [1e12] * 6)
    _, half = speed.matmul.findings(world.machine())
    assert half.value.endswith("; slower than float32 here, so choose --dtype float32")


def test_without_torch_nothing_is_measured(world: World, monkeypatch: pytest.MonkeyPatch):
    machine = world.machine()
    machine.device = None
    assert speed.memory_copy.findings(machine) == []
    assert speed.matmul.findings(machine) == []


def test_a_rate_that_one_core_would_exceed_is_no_quiet_machines(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    slow, fast = speed.LEAST_MATMUL * 0.99, speed.LEAST_MATMUL * 1.01
    rates(monkeypatch, "matmul_rate", [slow] * 12)
    assert [f.verdict for f in speed.matmul.findings(world.machine())] == ["warn", "ok"]
    rates(monkeypatch, "matmul_rate", [fast] * 12)
    assert [f.verdict for f in speed.matmul.findings(world.machine())] == ["ok", "ok"]
    rates(monkeypatch, "copy_bandwidth", [speed.LEAST_COPY * 0.99] * 6)
    assert one(speed.memory_copy, world.machine()).verdict == "warn"
