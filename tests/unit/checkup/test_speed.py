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

    def measure(*words: Any, budget_s: float) -> float:
        calls.append((*words, budget_s))
        return next(left)

    monkeypatch.setattr(f"specbench.measure.bandwidth.{function}", measure)
    return calls


def test_the_median_is_told_and_the_first_is_not_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    calls = rates(monkeypatch, "copy_bandwidth", [1e9, 10.1e9, 10e9, 10e9, 9.9e9, 10e9])
    finding = one(speed.memory_copy, world.machine())
    assert finding.verdict == "ok"
    assert finding.value == "10.0 GB/s, read + write; 5 times within 2.0%"
    assert finding.facts["per_s"] == 10e9
    assert finding.facts["spread"] == pytest.approx(0.02)
    assert len(calls) == 6


def test_rates_that_move_say_that_the_machine_is_not_quiet(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    rates(monkeypatch, "matmul_rate", [5e12, 5e12, 5e12, 5e12, 4e12, 5e12])
    finding = one(speed.matmul_float32, world.machine())
    assert (finding.verdict, finding.value) == ("warn", "5,000.0 GFLOP/s; 5 times within 20.0%")
    assert "not quiet" in finding.advice


def test_both_dtypes_are_measured_on_the_device(world: World, monkeypatch: pytest.MonkeyPatch):
    import torch

    calls = rates(monkeypatch, "matmul_rate", [1e12] * 12)
    for check in (speed.matmul_float32, speed.matmul_bfloat16):
        one(check, world.machine())
    assert {call[:2] for call in calls} == {("cpu", torch.float32), ("cpu", torch.bfloat16)}


def test_without_torch_nothing_is_measured(world: World, monkeypatch: pytest.MonkeyPatch):
    machine = world.machine()
    machine.device = None
    assert speed.memory_copy.findings(machine) == []
    assert speed.matmul_bfloat16.findings(machine) == []
