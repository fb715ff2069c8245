"""The sampler on a GPU that counts: its window, its looks, its cost, and every way to have none."""

from __future__ import annotations

import itertools
import sys
import threading

import pytest

from specbench.measure.counters import Counters
from specbench.measure.sampler import Sampler, wait_after
from tests.unit.measure.counting import RATE, CountingNvml, install
from tests.unit.measure.fakes import FakeNvml

NEVER_S = 3600.0  # looks are taken by hand


def sampler_of(monkeypatch: pytest.MonkeyPatch, fake: CountingNvml) -> Sampler:
    install(monkeypatch, fake)
    return Sampler("GPU-1", interval_s=NEVER_S, now=fake.now)


def steady(monkeypatch: pytest.MonkeyPatch, fake: CountingNvml, looks: int = 3) -> Counters:
    """Two seconds of decoding at 400 W and half the memory's rate, looked at a few times."""
    with sampler_of(monkeypatch, fake) as sampler:
        sampler.resume()
        for _ in range(looks):
            fake.pass_time(2.0 / looks, watts=400.0, dram=0.5)
            sampler.look()
        sampler.pause()
    return sampler.counters


def test_every_counter_of_a_steady_load(monkeypatch: pytest.MonkeyPatch):
    fake = CountingNvml()
    found = steady(monkeypatch, fake)
    assert found.unavailable is None
    assert found.reasons == {}
    assert (found.seconds, found.looks) == (pytest.approx(2.0), 3)
    assert found.energy_j == pytest.approx(800.0)
    assert found.energy_method == "the driver's total"
    assert found.power_w == pytest.approx(400.0)
    assert (found.sm_clock_mhz, found.sm_clock_least_mhz) == (1500, 1500)
    assert (found.memory_clock_mhz, found.temperature_most_c) == (2600, 60)
    assert found.throttled == {}
    assert found.memory_utilization == pytest.approx(0.25)
    assert found.gpm_seconds == pytest.approx(2.0)
    assert found.dram_utilization == pytest.approx(0.5)
    assert found.sm_utilization == pytest.approx(0.25)
    assert found.tensor_utilization == pytest.approx(0.125)
    assert found.dram_bytes_per_s == pytest.approx(0.5 * RATE)
    assert (fake.open_sessions, fake.open_samples) == (0, 0)
    assert fake.uuids == ["GPU-1"]


def test_nothing_outside_the_stretches_counts(monkeypatch: pytest.MonkeyPatch):
    fake = CountingNvml()
    with sampler_of(monkeypatch, fake) as sampler:
        for _ in range(3):
            fake.clock_mhz, fake.throttled = 300, 0x40  # prefill: busy, hot and slow
            fake.pass_time(5.0, watts=700.0, dram=1.0)
            sampler.look()
            sampler.resume()
            sampler.resume()  # as the loop says before every round
            fake.clock_mhz, fake.throttled = 1500, 0x01  # idle is no throttling
            fake.pass_time(1.5, watts=200.0, dram=0.25)
            sampler.look()
            sampler.pause()
            sampler.pause()
        fake.pass_time(5.0, watts=700.0, dram=1.0)
    found = sampler.counters
    assert found.seconds == pytest.approx(4.5)
    assert found.energy_j == pytest.approx(900.0)
    assert found.dram_utilization == pytest.approx(0.25)
    assert (found.looks, found.sm_clock_least_mhz, found.throttled) == (3, 1500, {})


def test_a_look_that_a_pause_comes_into_does_not_count(monkeypatch: pytest.MonkeyPatch):
    fake = CountingNvml()
    with sampler_of(monkeypatch, fake) as sampler:
        sampler.resume()
        fake.pass_time(2.0)
        temperature = fake.nvmlDeviceGetTemperature

        def pausing(handle: str, sensor: int) -> int:
            sampler.pause()
            sampler.resume()
            return temperature(handle, sensor)

        monkeypatch.setattr(fake, "nvmlDeviceGetTemperature", pausing)
        sampler.look()
        monkeypatch.undo()
        sampler.pause()
    assert sampler.counters.looks == 0
    assert sampler.counters.temperature_most_c is None
    assert "before the first look" in sampler.counters.reasons["looks"]


def test_means_of_the_driver_count_once_they_lie_in_the_stretch(monkeypatch: pytest.MonkeyPatch):
    """Memory utilisation is of up to a second before, which early in a stretch was not decoding."""
    fake = CountingNvml()
    with sampler_of(monkeypatch, fake) as sampler:
        sampler.resume()
        for percent, seconds in ((90, 0.5), (10, 1.0), (20, 1.0)):
            fake.memory_percent = percent
            fake.pass_time(seconds)
            sampler.look()
        sampler.pause()
    assert sampler.counters.memory_utilization == pytest.approx(0.15)


def test_short_stretches_have_energy_and_no_means(monkeypatch: pytest.MonkeyPatch):
    fake = CountingNvml()
    with sampler_of(monkeypatch, fake) as sampler:
        for _ in range(4):
            sampler.resume()
            fake.pass_time(0.05, watts=300.0, dram=0.5)
            sampler.look()
            sampler.pause()
    found = sampler.counters
    assert found.energy_j == pytest.approx(60.0)
    assert found.dram_utilization is None
    assert found.looks == 4
    assert found.dram_bytes_per_s is None
    assert found.memory_utilization is None
    assert "0.1 s" in found.reasons["gpm"]
    assert "averages over 1 s" in found.reasons["memory_utilization"]


def test_shares_are_weighted_by_their_seconds(monkeypatch: pytest.MonkeyPatch):
    fake = CountingNvml()
    with sampler_of(monkeypatch, fake) as sampler:
        for seconds, dram in ((3.0, 0.2), (1.0, 0.6), (0.01, 1.0)):
            sampler.resume()
            fake.pass_time(seconds, dram=dram)
            sampler.pause()
    assert sampler.counters.dram_utilization == pytest.approx(0.3)
    assert sampler.counters.looks == 0
    assert sampler.counters.dram_bytes_per_s == pytest.approx(0.3 * RATE)
    assert sampler.counters.gpm_seconds == pytest.approx(4.0)


def test_throttling_is_told_by_reason_and_share(monkeypatch: pytest.MonkeyPatch):
    fake = CountingNvml()
    with sampler_of(monkeypatch, fake) as sampler:
        sampler.resume()
        for bits in (0x00, 0x04, 0x04 | 0x40, 0x01 | 0x02):
            fake.throttled = bits
            sampler.look()
    assert sampler.counters.throttled == {"power limit": 0.5, "temperature (hardware)": 0.25}


def test_without_the_total_power_is_integrated(monkeypatch: pytest.MonkeyPatch):
    fake = CountingNvml(unsupported=("nvmlDeviceGetTotalEnergyConsumption",))
    with sampler_of(monkeypatch, fake) as sampler:
        sampler.resume()
        for watts in (100.0, 300.0):
            fake.power_w = watts
            fake.pass_time(2.0)
            sampler.look()
        sampler.pause()
    found = sampler.counters
    assert found.energy_j == pytest.approx(200.0 * 4.0)
    assert found.energy_method == "mean power times seconds"
    assert found.reasons["energy_j"] == "NVML: Not Supported"


def test_without_total_and_power_energy_is_unknown(monkeypatch: pytest.MonkeyPatch):
    refused = ("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage")
    found = steady(monkeypatch, CountingNvml(unsupported=refused))
    assert (found.energy_j, found.power_w, found.energy_method) == (None, None, None)
    assert set(found.reasons) == {"energy_j", "power_w"}
    assert found.dram_utilization == pytest.approx(0.5)


def test_what_may_not_be_read_is_named_and_the_rest_is_there(monkeypatch: pytest.MonkeyPatch):
    fake = CountingNvml(unsupported=("nvmlGpmSampleGet",), reason="Insufficient Permissions")
    found = steady(monkeypatch, fake)
    assert found.dram_bytes_per_s is None
    assert found.reasons["gpm"] == "NVML: Insufficient Permissions"
    assert found.energy_j == pytest.approx(800.0)
    assert found.sm_clock_mhz == 1500


def test_counters_that_fail_on_the_way_are_given_up(monkeypatch: pytest.MonkeyPatch):
    fake = CountingNvml()
    with sampler_of(monkeypatch, fake) as sampler:
        sampler.resume()
        fake.pass_time(1.0, watts=100.0)
        fake._unsupported = ("nvmlGpmMetricsGet",)
        sampler.pause()
        sampler.resume()
        fake.pass_time(1.0, watts=100.0)
        sampler.pause()
    assert sampler.counters.reasons["gpm"] == "NVML: Not Supported"
    assert sampler.counters.energy_j == pytest.approx(200.0)
    assert fake.open_samples == 0


def test_a_card_that_others_may_share_counts_for_nobody(monkeypatch: pytest.MonkeyPatch):
    fake = CountingNvml()
    fake.mig = True
    found = steady(monkeypatch, fake)
    assert found.unavailable is not None
    assert found.unavailable.startswith("MIG is on")
    assert (found.energy_j, found.dram_utilization, found.seconds) == (None, None, None)
    assert fake.open_sessions == 0


def test_an_old_package_lacks_functions_and_says_so(monkeypatch: pytest.MonkeyPatch):
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    monkeypatch.setattr(fake, "NVML_TEMPERATURE_GPU", 0, raising=False)
    monkeypatch.setattr(fake, "nvmlDeviceGetMigMode", lambda handle: [0, 0], raising=False)
    with Sampler("GPU-1", interval_s=NEVER_S) as sampler:
        sampler.resume()
        sampler.look()
    found = sampler.counters
    assert "nvmlDeviceGetCurrentClocksEventReasons" in found.reasons["throttled"]
    assert found.sm_clock_mhz == 1500
    assert found.throttled is None


def test_without_package_or_driver_nothing_is_there_but_the_reason(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with Sampler("GPU-1") as sampler:
        sampler.resume()
        sampler.look()
        sampler.pause()
    assert sampler.counters == Counters(unavailable="the package nvidia-ml-py is not installed")
    install(monkeypatch, CountingNvml(unsupported=("nvmlInit",), reason="Driver Not Loaded"))
    with Sampler("GPU-1") as sampler:
        sampler.resume()
    assert sampler.counters.unavailable == "no NVIDIA driver: Driver Not Loaded"


def test_an_error_inside_ends_the_thread_and_the_session(monkeypatch: pytest.MonkeyPatch):
    fake = CountingNvml()
    sampler = sampler_of(monkeypatch, fake)

    def fail() -> None:
        with sampler:
            sampler.resume()
            fake.pass_time(1.0)
            raise MemoryError

    with pytest.raises(MemoryError):
        fail()
    assert "gpu counters" not in {thread.name for thread in threading.enumerate()}
    assert fake.open_sessions == 0
    assert sampler.counters.seconds == pytest.approx(1.0)


def test_looks_take_a_hundredth_of_the_time_at_most():
    assert wait_after(0.0001, interval_s=0.1) == 0.1
    assert wait_after(0.010, interval_s=0.1) == pytest.approx(0.99)
    for took_s in (0.0, 0.001, 0.02, 3.0):
        assert took_s / (took_s + wait_after(took_s, 0.1)) <= 0.01 + 1e-12


def test_the_thread_looks_by_itself_and_its_time_is_counted(monkeypatch: pytest.MonkeyPatch):
    fake = install(monkeypatch, CountingNvml())
    looks, looked = itertools.count(1), threading.Event()
    temperature = fake.nvmlDeviceGetTemperature

    def noting(handle: str, sensor: int) -> int:
        if next(looks) == 2:
            looked.set()  # the first one is whole
        return temperature(handle, sensor)

    monkeypatch.setattr(fake, "nvmlDeviceGetTemperature", noting)
    with Sampler("GPU-1", interval_s=0.001) as sampler:
        sampler.resume()
        assert looked.wait(timeout=60.0)
        sampler.pause()
    found = sampler.counters
    assert found.looks >= 1
    assert found.sampler_cpu_s is not None
    assert found.sampler_share == pytest.approx(found.sampler_cpu_s / found.seconds)


def test_the_driver_is_not_asked_between_resume_and_pause(monkeypatch: pytest.MonkeyPatch):
    """The thread apart, nothing of the sampler runs while rounds are timed."""
    fake = CountingNvml()
    with sampler_of(monkeypatch, fake) as sampler:
        sampler.resume()
        fake.calls.clear()
        for _ in range(100):
            sampler.resume()  # before every round
        assert fake.calls == []
