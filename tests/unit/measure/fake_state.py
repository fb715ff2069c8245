"""``pynvml`` with settings, temperatures, clock limits and GPM samples that the test decides."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.unit.measure.fakes import FakeNvml


class FakeStateNvml(FakeNvml):
    """A healthy H100; ``answers`` replaces what single functions say."""

    NVML_TEMPERATURE_GPU = 0
    NVML_TEMPERATURE_THRESHOLD_SLOWDOWN = 1
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
    NVML_VOLATILE_ECC = 0

    def __init__(
        self,
        unsupported: tuple[str, ...] = (),
        processes: tuple[int, ...] = (),
        forbidden: tuple[str, ...] = (),
        **answers: Any,
    ) -> None:
        super().__init__(unsupported, processes)
        self._forbidden = forbidden
        self._answers = answers
        self.samples = 0

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return self._answer("nvmlSystemGetCudaDriverVersion", 13000)

    def nvmlDeviceGetPersistenceMode(self, handle: str) -> int:
        return self._answer("nvmlDeviceGetPersistenceMode", 1)

    def nvmlDeviceGetEccMode(self, handle: str) -> list[int]:
        return self._answer("nvmlDeviceGetEccMode", [1, 1])

    def nvmlDeviceGetTotalEccErrors(self, handle: str, kind: int, since: int) -> int:
        assert (kind, since) == (1, 0)
        return self._answer("nvmlDeviceGetTotalEccErrors", 0)

    def nvmlDeviceGetMigMode(self, handle: str) -> list[int]:
        return self._answer("nvmlDeviceGetMigMode", [0, 0])

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: str) -> int:
        return self._answer("nvmlDeviceGetPowerManagementDefaultLimit", 700_000)

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> int:
        assert sensor == 0
        return self._answer("nvmlDeviceGetTemperature", 40)

    def nvmlDeviceGetTemperatureThreshold(self, handle: str, threshold: int) -> int:
        assert threshold == 1
        return self._answer("nvmlDeviceGetTemperatureThreshold", 90)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> int:
        return self._answer("nvmlDeviceGetCurrentClocksEventReasons", 0x01)

    def nvmlGpmQueryDeviceSupport(self, handle: str) -> Any:
        supported = self._answer("nvmlGpmQueryDeviceSupport", 1)
        return SimpleNamespace(isSupportedDevice=supported)

    def nvmlGpmSampleAlloc(self) -> str:
        self.samples += 1
        return "sample"

    def nvmlGpmSampleGet(self, handle: str, sample: str) -> str:
        return self._answer("nvmlGpmSampleGet", sample)

    def nvmlGpmSampleFree(self, sample: str) -> None:
        self.samples -= 1

    def _answer(self, function: str, value: Any) -> Any:
        if function in self._forbidden:
            raise self.NVMLError("Insufficient Permissions")
        return super()._answer(function, self._answers.get(function, value))
