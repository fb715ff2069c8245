"""The driver's answers: units, refusals, neighbours, and a machine without a GPU."""

from __future__ import annotations

import os
import sys

import pytest

from specbench.measure import nvml
from tests.unit.measure.fakes import FakeNvml


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeNvml) -> FakeNvml:
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


def test_every_field_is_read_in_base_units(monkeypatch: pytest.MonkeyPatch):
    fake = install(monkeypatch, FakeNvml(processes=(os.getpid(),)))
    reading = nvml.read(own_process_uses_gpu=True)
    assert reading.to_dict() == {
        "unavailable": None,
        "reasons": {},
        "name": "Fake H100",
        "uuid": "GPU-1234",
        "driver": "580.1",
        "sm_clock_mhz": 1500,
        "memory_clock_mhz": 2600,
        "max_sm_clock_mhz": 1980,
        "max_memory_clock_mhz": 2619,
        "memory_used_bytes": 2**30,
        "memory_total_bytes": 2**36,
        "gpu_utilization": 0.5,
        "memory_utilization": 0.25,
        "power_w": 350.5,
        "power_limit_w": 700.0,
        "energy_j": 5000.0,
        "foreign_processes": [],
    }
    assert fake.open_sessions == 0


def test_what_the_card_refuses_is_none_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    refused = ("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetUtilizationRates")
    install(monkeypatch, FakeNvml(unsupported=refused))
    reading = nvml.read()
    assert reading.energy_j is None
    assert reading.gpu_utilization is None
    assert reading.power_w == 350.5
    assert reading.reasons == dict.fromkeys(
        ("energy_j", "gpu_utilization", "memory_utilization"), "Not Supported"
    )


def test_without_a_driver_there_is_a_reason_and_no_numbers(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, FakeNvml(unsupported=("nvmlInit",)))
    reading = nvml.read()
    assert reading.unavailable == "no NVIDIA driver: Not Supported"
    values = reading.to_dict()
    assert {key for key, value in values.items() if value is not None} == {"unavailable", "reasons"}


def test_without_the_package_there_is_a_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.read().unavailable == "the package nvidia-ml-py is not installed"


def test_an_unknown_gpu_is_a_reason_and_closes_the_session(monkeypatch: pytest.MonkeyPatch):
    fake = install(monkeypatch, FakeNvml())
    assert nvml.read(index=7).unavailable == "NVML: Invalid Argument"
    assert fake.open_sessions == 0


def test_the_uuid_is_asked_rather_than_the_index(monkeypatch: pytest.MonkeyPatch):
    fake = install(monkeypatch, FakeNvml())
    assert nvml.read(index=7, uuid="GPU-1234").name == "Fake H100"
    assert fake.uuids == ["GPU-1234"]


def test_foreign_processes_are_the_others(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, FakeNvml(processes=(os.getpid(), 1, 2)))
    reading = nvml.read(own_process_uses_gpu=True)
    assert reading.foreign_processes == [
        {"pid": 1, "memory_bytes": 2**20},
        {"pid": 2, "memory_bytes": 2**20},
    ]


def test_before_this_process_uses_the_gpu_all_are_foreign(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, FakeNvml(processes=(1,)))
    reading = nvml.read(own_process_uses_gpu=False)
    assert reading.foreign_processes == [{"pid": 1, "memory_bytes": 2**20}]


def test_process_ids_of_another_namespace_are_not_guessed_at(monkeypatch: pytest.MonkeyPatch):
    install(monkeypatch, FakeNvml(processes=(1, 2)))
    reading = nvml.read(own_process_uses_gpu=True)
    assert reading.foreign_processes is None
    assert "container" in reading.reasons["foreign_processes"]


def test_the_cpu_has_no_uuid():
    assert nvml.uuid_of("cpu") is None
