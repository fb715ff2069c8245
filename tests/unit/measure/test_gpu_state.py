"""A GPU's settings: units, refusals, what slows it, and whether its counters may be read."""

from __future__ import annotations

import sys
from dataclasses import asdict

import pytest

from specbench.measure.gpu_state import GpuState, read_state
from tests.unit.measure.fake_state import FakeStateNvml


def state_of(monkeypatch: pytest.MonkeyPatch, fake: FakeStateNvml) -> GpuState:
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    state = read_state()
    assert (fake.open_sessions, fake.samples) == (0, 0)
    return state


def test_every_field_is_read_in_base_units(monkeypatch: pytest.MonkeyPatch):
    assert asdict(state_of(monkeypatch, FakeStateNvml(processes=(1, 2)))) == {
        "unavailable": None,
        "reasons": {},
        "cuda_version": (13, 0),
        "persistence": True,
        "ecc": True,
        "ecc_after_reboot": True,
        "uncorrected_errors": 0,
        "mig": False,
        "power_limit_w": 700.0,
        "default_power_limit_w": 700.0,
        "temperature_c": 40,
        "slowdown_temperature_c": 90,
        "slowed_by": [],
        "clocks_set": False,
        "num_processes": 2,
        "counters": True,
    }


def test_what_the_card_refuses_is_none_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    fake = FakeStateNvml(unsupported=("nvmlDeviceGetMigMode", "nvmlDeviceGetEccMode"))
    state = state_of(monkeypatch, fake)
    assert (state.mig, state.ecc, state.ecc_after_reboot) == (None, None, None)
    assert state.temperature_c == 40
    assert state.reasons == dict.fromkeys(("ecc", "ecc_after_reboot", "mig"), "Not Supported")


@pytest.mark.parametrize(
    ("bits", "slowed_by", "clocks_set"),
    [
        (0x01, [], False),
        (0x02, [], True),
        (0x100, [], True),
        (0x04, ["power limit"], False),
        (0x20 | 0x40, ["temperature (driver)", "temperature (hardware)"], False),
        (0x08 | 0x80, ["hardware slowdown", "power brake"], False),
    ],
)
def test_bits_of_clock_limits_become_words(
    monkeypatch: pytest.MonkeyPatch, bits: int, slowed_by: list[str], clocks_set: bool
):
    fake = FakeStateNvml(nvmlDeviceGetCurrentClocksEventReasons=bits)
    state = state_of(monkeypatch, fake)
    assert (state.slowed_by, state.clocks_set) == (slowed_by, clocks_set)


def test_cuda_versions_have_a_minor_part(monkeypatch: pytest.MonkeyPatch):
    fake = FakeStateNvml(nvmlSystemGetCudaDriverVersion=12080)
    assert state_of(monkeypatch, fake).cuda_version == (12, 8)


def test_a_card_without_counters_is_told_from_one_that_hides_them(monkeypatch: pytest.MonkeyPatch):
    older = state_of(monkeypatch, FakeStateNvml(nvmlGpmQueryDeviceSupport=0))
    assert (older.counters, older.reasons) == (False, {})
    hidden = state_of(monkeypatch, FakeStateNvml(forbidden=("nvmlGpmSampleGet",)))
    assert hidden.counters is None
    assert hidden.reasons == {"counters": "Insufficient Permissions"}


def test_without_a_driver_there_is_a_reason_and_nothing_else(monkeypatch: pytest.MonkeyPatch):
    state = state_of(monkeypatch, FakeStateNvml(unsupported=("nvmlInit",)))
    assert state == GpuState(unavailable="no NVIDIA driver: Not Supported")


def test_an_unknown_card_is_a_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", FakeStateNvml())
    assert read_state(index=7).unavailable == "NVML: Invalid Argument"
