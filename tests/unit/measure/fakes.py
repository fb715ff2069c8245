"""Stand-ins for ``torch.cuda`` and ``pynvml``: a GPU whose every answer the test decides."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any


class FakeCuda:
    """``torch.cuda`` with a device clock in milliseconds that the test moves."""

    def __init__(self, now_ms: float = 0.0) -> None:
        self.now_ms = now_ms
        self.streams: list[str] = []
        self.waited_for: list[Any] = []
        self.calls: list[str] = []
        self.events = 0
        self.happened = -1  # place in calls up to which everything was waited for
        self.held = {"cuda:0": 0, "cuda:1": 0}
        self.peaks = {"cuda:0": 0, "cuda:1": 0}
        self.total_memory = 80 * 2**30
        self.segments: list[dict[str, Any]] = []
        self.free = self.reserved = 0

    def current_stream(self, device: str) -> str:
        self.streams.append(device)
        return f"stream of {device}"

    def Event(self, enable_timing: bool) -> FakeEvent:
        assert enable_timing
        self.events += 1
        return FakeEvent(self)

    def reset_peak_memory_stats(self, device: str) -> None:
        self.peaks[device] = 0

    def memory_allocated(self, device: str) -> int:
        return self.held[device]

    def max_memory_allocated(self, device: str) -> int:
        return self.peaks[device]

    def memory_snapshot(self) -> list[dict[str, Any]]:
        return self.segments

    def get_device_properties(self, device: str) -> Any:
        return SimpleNamespace(total_memory=self.total_memory)

    def mem_get_info(self, device: str) -> tuple[int, int]:
        return self.free, self.total_memory

    def memory_reserved(self, device: str) -> int:
        return self.reserved


class FakeEvent:
    """Has happened once an event was waited for that was recorded as late or later."""

    def __init__(self, cuda: FakeCuda) -> None:
        self._cuda = cuda
        self.recorded_ms: float | None = None
        self.place: int | None = None

    def record(self, stream: str) -> None:
        assert stream.startswith("stream of ")
        self.recorded_ms = self._cuda.now_ms
        self.place = len(self._cuda.calls)
        self._cuda.calls.append("record")

    def synchronize(self) -> None:
        self._cuda.calls.append("synchronize")
        self._cuda.waited_for.append(self)
        assert self.place is not None
        self._cuda.happened = max(self._cuda.happened, self.place)

    def elapsed_time(self, end: FakeEvent) -> float:
        self._cuda.calls.append("elapsed_time")
        assert end.place is not None
        assert end.place <= self._cuda.happened, (
            "elapsed_time of an event that may not have happened"
        )
        assert self.recorded_ms is not None
        assert end.recorded_ms is not None
        return end.recorded_ms - self.recorded_ms


class FakeNvml(ModuleType):
    """The module ``pynvml`` for one GPU; ``unsupported`` names the functions that refuse."""

    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2

    class NVMLError(Exception):
        pass

    def __init__(self, unsupported: tuple[str, ...] = (), processes: tuple[int, ...] = ()) -> None:
        super().__init__("pynvml")
        self._unsupported = unsupported
        self._processes = processes
        self.open_sessions = 0
        self.energy_mj = 5_000_000
        self.uuids: list[str] = []

    def nvmlInit(self) -> None:
        self._refuse("nvmlInit")
        self.open_sessions += 1

    def nvmlShutdown(self) -> None:
        self.open_sessions -= 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        if index != 0:
            raise self.NVMLError("Invalid Argument")
        return "handle"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        self.uuids.append(uuid)
        return "handle"

    def nvmlDeviceGetName(self, handle: str) -> bytes:
        return self._answer("nvmlDeviceGetName", b"Fake H100")

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return self._answer("nvmlDeviceGetUUID", "GPU-1234")

    def nvmlSystemGetDriverVersion(self) -> str:
        return self._answer("nvmlSystemGetDriverVersion", "580.1")

    def nvmlDeviceGetClockInfo(self, handle: str, clock: int) -> int:
        return self._answer("nvmlDeviceGetClockInfo", {1: 1500, 2: 2600}[clock])

    def nvmlDeviceGetMaxClockInfo(self, handle: str, clock: int) -> int:
        return self._answer("nvmlDeviceGetMaxClockInfo", {1: 1980, 2: 2619}[clock])

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        return self._answer("nvmlDeviceGetMemoryInfo", SimpleNamespace(used=2**30, total=2**36))

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        return self._answer("nvmlDeviceGetUtilizationRates", SimpleNamespace(gpu=50, memory=25))

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:
        return self._answer("nvmlDeviceGetPowerUsage", 350_500)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:
        return self._answer("nvmlDeviceGetEnforcedPowerLimit", 700_000)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> int:
        return self._answer("nvmlDeviceGetTotalEnergyConsumption", self.energy_mj)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:
        found = [SimpleNamespace(pid=pid, usedGpuMemory=2**20) for pid in self._processes]
        return self._answer("nvmlDeviceGetComputeRunningProcesses", found)

    def _answer(self, function: str, value: Any) -> Any:
        self._refuse(function)
        return value

    def _refuse(self, function: str) -> None:
        if function in self._unsupported:
            raise self.NVMLError("Not Supported")
