"""The checks of a GPU: fit, doubtful, silent, and not there."""

from __future__ import annotations

import os
from typing import Any

import pytest

from specbench.checkup import CHECKS, Machine, gpu_setup, gpu_use
from specbench.checkup.finding import Check
from tests.unit.checkup.worlds import World, one
from tests.unit.measure.fake_state import FakeStateNvml

BUSY = "nvmlDeviceGetUtilizationRates"
MEMORY = "nvmlDeviceGetMemoryInfo"
LIMITS = "nvmlDeviceGetCurrentClocksEventReasons"
LOWERED = {"nvmlDeviceGetPowerManagementDefaultLimit": 800_000}


class Answer:
    """An object with any fields, as the driver's structures are."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def test_without_a_gpu_none_of_them_says_anything(world: World):
    checks = [check for check in CHECKS if check.section == "GPU"]
    assert len(checks) == 11
    assert [check.findings(world.machine()) for check in checks] == [[]] * 11


@pytest.mark.parametrize(
    ("check", "answers", "verdict", "value"),
    [
        (gpu_use.processes, {}, "ok", "no other"),
        (gpu_use.processes, {"processes": (99999999,)}, "warn", "also used by process (99999999"),
        (gpu_use.load, {BUSY: Answer(gpu=0, memory=0)}, "ok", "0% of the time"),
        (gpu_use.load, {}, "warn", "busy 50% of the time before this command"),
        (gpu_use.load, {"unsupported": (BUSY,)}, "ok", "not known (Not Supported)"),
        (gpu_use.memory, {MEMORY: Answer(used=2**30, total=2**36)}, "ok", "63.0 GiB free of 64.0"),
        (gpu_use.memory, {MEMORY: Answer(used=2**34, total=2**36)}, "warn", "16.0 GiB held by"),
        (gpu_use.memory, {"unsupported": (MEMORY,)}, "ok", "not known (Not Supported)"),
        (gpu_use.clocks, {}, "ok", "SM 1500 of 1980 MHz, memory 2600 of 2619 MHz, free to move"),
        (gpu_use.clocks, {LIMITS: 0x02}, "warn", "held there by a setting"),
        (gpu_use.clocks, {"nvmlDeviceGetClockInfo": 1980, LIMITS: 0x02}, "ok", "held by a setting"),
        (gpu_use.clocks, {"unsupported": (LIMITS,)}, "ok", "locked or not is not known"),
        (gpu_use.clocks, {"unsupported": ("nvmlDeviceGetClockInfo",)}, "ok", "not known (Not"),
        (gpu_use.throttling, {}, "ok", "none"),
        (gpu_use.throttling, {LIMITS: 0x04}, "ok", "slowed by power limit, as under full load"),
        (gpu_use.throttling, {LIMITS: 0x44}, "warn", "slowed by power limit, temperature (hardwar"),
        (gpu_use.throttling, {"unsupported": (LIMITS,)}, "ok", "not known (Not Supported)"),
        (gpu_use.temperature, {}, "ok", "40 °C, slows down at 90 °C"),
        (gpu_use.temperature, {"nvmlDeviceGetTemperature": 86}, "warn", "86 °C, slows down at 90"),
        (
            gpu_use.temperature,
            {"unsupported": ("nvmlDeviceGetTemperatureThreshold",)},
            "ok",
            "40 °C",
        ),
        (gpu_setup.power_limit, {}, "ok", "700 W"),
        (gpu_setup.power_limit, LOWERED, "warn", "700 W, set below its default of 800 W"),
        (gpu_setup.persistence, {}, "ok", "on"),
        (gpu_setup.persistence, {"nvmlDeviceGetPersistenceMode": 0}, "warn", "off: the driver"),
        (gpu_setup.ecc, {}, "ok", "on"),
        (gpu_setup.ecc, {"nvmlDeviceGetEccMode": [0, 0]}, "ok", "off"),
        (gpu_setup.ecc, {"nvmlDeviceGetEccMode": [1, 0]}, "warn", "on, off after a restart"),
        (gpu_setup.ecc, {"nvmlDeviceGetTotalEccErrors": 3}, "warn", "on, uncorrected memory err"),
        (gpu_setup.ecc, {"unsupported": ("nvmlDeviceGetEccMode",)}, "ok", "not known (Not Supp"),
        (gpu_setup.mig, {}, "ok", "off: the whole card"),
        (gpu_setup.mig, {"nvmlDeviceGetMigMode": [1, 1]}, "warn", "on: a part of a card"),
        (gpu_setup.counters, {}, "ok", "readable: bandwidth is counted, too"),
        (gpu_setup.counters, {"nvmlGpmQueryDeviceSupport": 0}, "ok", "this card has none"),
        (gpu_setup.counters, {"unsupported": ("nvmlGpmQueryDeviceSupport",)}, "ok", "this card"),
        (gpu_setup.counters, {"forbidden": ("nvmlGpmSampleGet",)}, "warn", "not readable (Insuff"),
    ],
)
def test_a_verdict_follows_from_the_drivers_answers(
    world: World, check: Check, answers: dict[str, Any], verdict: str, value: str
):
    finding = one(check, world.with_gpu(**answers))
    assert (finding.verdict, finding.section) == (verdict, "GPU")
    assert value in finding.value
    assert bool(finding.advice) == (verdict != "ok")


def running(world: World, *processes: int, **answers: Any) -> Machine:
    """A machine whose GPU this process computes on."""
    fake = FakeStateNvml(processes=processes, **answers)
    return world.machine(fake, on_gpu=True, in_use=True)


def test_a_run_is_not_its_own_neighbour(world: World):
    assert one(gpu_use.processes, running(world, os.getpid())).verdict == "ok"
    shared = one(gpu_use.processes, running(world, os.getpid(), 99999999))
    assert shared.verdict == "warn"
    assert [process["pid"] for process in shared.facts["processes"]] == [99999999]


def test_in_a_container_one_process_is_taken_for_this_one_and_two_are_not(world: World):
    assert "taken for this one" in one(gpu_use.processes, running(world, 12345678)).value
    two = one(gpu_use.processes, running(world, 12345678, 12345679))
    assert two.verdict == "warn"
    assert "not known (2 processes on the GPU" in two.value


def test_a_runs_own_memory_is_nobody_elses(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("torch.cuda.memory_reserved", lambda device: 30 * 2**30)
    memory = {MEMORY: Answer(used=31 * 2**30, total=2**36)}
    assert one(gpu_use.memory, running(world, **memory)).verdict == "ok"
    little = {MEMORY: Answer(used=60 * 2**30, total=2**36)}
    monkeypatch.setattr("torch.cuda.memory_reserved", lambda device: 59 * 2**30)
    full = one(gpu_use.memory, running(world, **little))
    assert (full.verdict, full.value) == ("warn", "4.0 GiB free of 64.0 GiB")


def test_a_run_on_the_cpu_does_not_ask_the_gpu(world: World):
    machine = world.machine(FakeStateNvml(processes=(99999999,)), in_use=True)
    assert gpu_use.processes.findings(machine) == []


def test_a_run_does_not_take_its_own_work_for_load(world: World):
    assert gpu_use.load.findings(running(world)) == []
