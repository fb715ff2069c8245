"""A stand-in for ``pynvml`` on a GPU that counts: running totals that grow as the test lets time
pass, and a list of the calls."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.measure.fakes import FakeNvml

BUS_BITS = 5120
MEMORY_CLOCK_MHZ = 2600
RATE = 2 * MEMORY_CLOCK_MHZ * 1e6 * BUS_BITS / 8  # bytes per second at 100%


class Metrics:
    """``c_nvmlGpmMetricsGet_t``: filled in by the caller and then by the driver."""

    def __init__(self) -> None:
        self.version = self.numMetrics = 0
        self.sample1: Any = None
        self.sample2: Any = None
        self.metrics = [SimpleNamespace(metricId=0, nvmlReturn=-1, value=-1.0) for _ in range(8)]


class CountingNvml(FakeNvml):
    """The module ``pynvml`` for one GPU with all counters.

    Args:
        unsupported: names of the functions that refuse.
        reason: what they say.

    Attributes:
        now_s: the host's clock, moved by :meth:`pass_time`.
        clock_mhz, throttled, memory_percent, power_w: present values.
        gpm, mig: whether it has GPM, and MIG on.
        not_a_number: metrics that the driver has no value of.
    """

    NVML_TEMPERATURE_GPU = 0
    NVML_SUCCESS = 0
    NVML_GPM_METRIC_SM_UTIL = 2
    NVML_GPM_METRIC_ANY_TENSOR_UTIL = 5
    NVML_GPM_METRIC_DRAM_BW_UTIL = 10
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(
        self,
        unsupported: tuple[str, ...] = (),
        reason: str = "Not Supported",
        processes: tuple[int, ...] = (),
    ) -> None:
        super().__init__(unsupported, processes)
        self._reason = reason
        self.calls: list[str] = []
        self.now_s = 0.0
        self.clock_mhz, self.throttled, self.memory_percent, self.power_w = 1500, 0, 25, 350.0
        self.gpm, self.mig = True, False
        self.not_a_number: tuple[int, ...] = ()
        self.open_samples = 0
        self.c_nvmlGpmMetricsGet_t = Metrics
        self._busy = dict.fromkeys(("dram", "sm", "tensor"), 0.0)  # seconds at 100%

    def pass_time(self, seconds: float, watts: float = 0.0, dram: float = 0.0) -> None:
        """Let time go by at some power and memory utilisation; SMs half as busy, tensors a
        quarter."""
        self.now_s += seconds
        self.energy_mj += 1000 * watts * seconds
        for name, share in (("dram", dram), ("sm", dram / 2), ("tensor", dram / 4)):
            self._busy[name] += share * seconds

    def now(self) -> float:
        return self.now_s

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:
        found = {1: self.clock_mhz, 2: MEMORY_CLOCK_MHZ}[clock]
        return self._answer("nvmlDeviceGetClockInfo", found)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        found = SimpleNamespace(gpu=50, memory=self.memory_percent)
        return self._answer("nvmlDeviceGetUtilizationRates", found)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> float:
        return self._answer("nvmlDeviceGetPowerUsage", 1000 * self.power_w)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return self._answer("nvmlDeviceGetCurrentClocksEventReasons", self.throttled)

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        return self._answer("nvmlDeviceGetTemperature", 60)

    def nvmlDeviceGetMemoryBusWidth(self, handle: str) -> int:
        return self._answer("nvmlDeviceGetMemoryBusWidth", BUS_BITS)

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        return self._answer("nvmlDeviceGetMigMode", [int(self.mig)] * 2)

    def nvmlGpmQueryDeviceSupport(self, handle: str) -> Any:
        found = SimpleNamespace(isSupportedDevice=int(self.gpm))
        return self._answer("nvmlGpmQueryDeviceSupport", found)

    def nvmlGpmSampleAlloc(self) -> dict[str, float]:
        self._refuse("nvmlGpmSampleAlloc")
        self.open_samples += 1
        return {}

    def nvmlGpmSampleFree(self, sample: dict[str, float]) -> None:
        self.open_samples -= 1

    def nvmlGpmSampleGet(self, handle: str, sample: dict[str, float]) -> dict[str, float]:
        self._refuse("nvmlGpmSampleGet")
        sample.update(self._busy, at=self.now_s)
        return sample

    def nvmlGpmMetricsGet(self, asked: Metrics) -> Metrics:
        self._refuse("nvmlGpmMetricsGet")
        assert asked.version == self.NVML_GPM_METRICS_GET_VERSION
        first, second = asked.sample1, asked.sample2
        names = {
            self.NVML_GPM_METRIC_SM_UTIL: "sm",
            self.NVML_GPM_METRIC_ANY_TENSOR_UTIL: "tensor",
            self.NVML_GPM_METRIC_DRAM_BW_UTIL: "dram",
        }
        for metric in asked.metrics[: asked.numMetrics]:
            name = names[metric.metricId]
            metric.nvmlReturn = self.NVML_SUCCESS
            metric.value = 100 * (second[name] - first[name]) / ((second["at"] - first["at"]) or 1)
            if metric.metricId in self.not_a_number:
                metric.value = float("nan")
        return asked

    def _refuse(self, function: str) -> None:
        self.calls.append(function)
        if function in self._unsupported:
            raise self.NVMLError(self._reason)


def install(monkeypatch: pytest.MonkeyPatch, fake: CountingNvml) -> CountingNvml:
    """Let ``import pynvml`` find the stand-in."""
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake
