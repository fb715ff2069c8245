"""Processor: quota against cores, others' load against what a run needs, the governor."""

from __future__ import annotations

import pytest

from specbench.checkup import cpu
from specbench.measure.cpu_load import Load
from tests.unit.checkup.worlds import World, one
from tests.unit.measure.fake_state import FakeStateNvml

GOVERNOR = "sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specbench.measure.device.usable_cores", lambda: 4)


def busy(monkeypatch: pytest.MonkeyPatch, cores: float, *who: str) -> None:
    monkeypatch.setattr(
        "specbench.measure.cpu_load.others_load", lambda seconds: Load(cores, list(who))
    )


def test_usable_cores_are_told(world: World):
    assert one(cpu.cores, world.machine()).facts["usable"] == 4


@pytest.mark.parametrize(
    ("text", "verdict", "value"),
    [
        ("max 100000", "ok", "no limit by a control group"),
        ("800000 100000", "ok", "a control group allows the time of 8 cores"),
        ("250000 100000", "warn", "the time of 2.5 cores, fewer than the 4 usable"),
    ],
)
def test_a_quota_below_the_cores_is_a_warning(world: World, text: str, verdict: str, value: str):
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": text}
    finding = one(cpu.quota, world.machine(files=files))
    assert finding.verdict == verdict
    assert value in finding.value
    assert verdict == "ok" or finding.advice.startswith("Use --threads 2,")


def test_a_run_on_the_cpu_needs_every_core(world: World, monkeypatch: pytest.MonkeyPatch):
    busy(monkeypatch, 0.2)
    assert one(cpu.load, world.machine()).verdict == "ok"
    busy(monkeypatch, 0.3, "cc1plus (7)")
    finding = one(cpu.load, world.machine())
    assert finding.verdict == "warn"
    assert finding.value == "other processes keep 0.3 of 4 cores busy: cc1plus (7)"


def test_a_run_on_a_gpu_needs_two(world: World, monkeypatch: pytest.MonkeyPatch):
    machine = world.machine(FakeStateNvml(), on_gpu=True)
    busy(monkeypatch, 2.2)
    assert one(cpu.load, machine).verdict == "ok"
    busy(monkeypatch, 2.3)
    assert one(cpu.load, machine).verdict == "warn"


@pytest.mark.parametrize(
    ("kinds", "verdict", "value"),
    [
        ([], "ok", "not told by this kernel"),
        (["performance", "performance"], "ok", "performance × 2"),
        (["powersave", "performance"], "warn", "performance × 1, powersave × 1"),
    ],
)
def test_a_governor_that_saves_power_is_a_warning(
    world: World, kinds: list[str], verdict: str, value: str
):
    files = {GOVERNOR.format(number): f"{kind}\n" for number, kind in enumerate(kinds)}
    finding = one(cpu.governor, world.machine(files=files))
    assert finding.verdict == verdict
    assert value in finding.value
