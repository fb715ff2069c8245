"""What the NVIDIA driver says of a GPU: clocks, memory, utilisation, power, energy, neighbours.

Read through ``pynvml`` (the package nvidia-ml-py). A field that the driver or the card does not
support is ``None`` with its reason in :attr:`Reading.reasons`; without a driver every field is
``None`` and :attr:`Reading.unavailable` says why, so that a record never holds an invented zero.

>>> reading = read()
>>> reading.unavailable is None or reading.power_w is None
True
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from types import ModuleType
from typing import Any


@dataclass
class Reading:
    """One look at one GPU. Bytes, watts, joules, MHz; utilisations are shares from 0 to 1."""

    unavailable: str | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    uuid: str | None = None
    driver: str | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    max_sm_clock_mhz: int | None = None
    max_memory_clock_mhz: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    gpu_utilization: float | None = None
    memory_utilization: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    energy_j: float | None = None
    """Since the driver was loaded; only differences mean anything."""
    foreign_processes: list[dict[str, Any]] | None = None
    """``{"pid", "memory_bytes"}`` of the other processes that compute on this GPU."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read(
    index: int = 0, uuid: str | None = None, own_process_uses_gpu: bool | None = None
) -> Reading:
    """Read every field once.

    Args:
        index: the driver's number of the GPU, which ``CUDA_VISIBLE_DEVICES`` does not renumber.
        uuid: names the GPU whatever the numbering; preferred (see :func:`uuid_of`).
        own_process_uses_gpu: whether this process has a CUDA context, so that it must be in the
            driver's list; asked of torch when not given.
    """
    nvml, reason = _start()
    if nvml is None:
        return Reading(unavailable=reason)
    try:
        return _read_all(nvml, index, uuid, own_process_uses_gpu)
    except nvml.NVMLError as error:
        return Reading(unavailable=f"NVML: {error}")
    finally:
        nvml.nvmlShutdown()


def uuid_of(device: Any) -> str | None:
    """The driver's name (``GPU-…``) of a torch CUDA device, ``None`` on the CPU."""
    if not str(device).startswith("cuda"):
        return None
    import torch

    uuid = str(torch.cuda.get_device_properties(str(device)).uuid)
    return uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"


def _start() -> tuple[Any, str | None]:
    """The initialised ``pynvml`` module, or the reason why there is none."""
    try:
        import pynvml
    except ImportError:
        return None, "the package nvidia-ml-py is not installed"
    nvml: ModuleType = pynvml
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return None, f"no NVIDIA driver: {error}"
    return nvml, None


def _handle(nvml: Any, index: int, uuid: str | None) -> Any:
    if uuid is not None:
        return nvml.nvmlDeviceGetHandleByUUID(uuid)
    return nvml.nvmlDeviceGetHandleByIndex(index)


def _read_all(nvml: Any, index: int, uuid: str | None, own: bool | None) -> Reading:
    handle = _handle(nvml, index, uuid)
    reading = Reading()

    def ask(name: str, question: Callable[[], Any]) -> None:
        try:
            setattr(reading, name, question())
        except nvml.NVMLError as error:
            reading.reasons[name] = str(error)

    ask("name", lambda: _text(nvml.nvmlDeviceGetName(handle)))
    ask("uuid", lambda: _text(nvml.nvmlDeviceGetUUID(handle)))
    ask("driver", lambda: _text(nvml.nvmlSystemGetDriverVersion()))
    sm, memory = nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM
    ask("sm_clock_mhz", lambda: int(nvml.nvmlDeviceGetClockInfo(handle, sm)))
    ask("memory_clock_mhz", lambda: int(nvml.nvmlDeviceGetClockInfo(handle, memory)))
    ask("max_sm_clock_mhz", lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, sm)))
    ask("max_memory_clock_mhz", lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, memory)))
    ask("memory_used_bytes", lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used))
    ask("memory_total_bytes", lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).total))
    ask("gpu_utilization", lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)
    ask("memory_utilization", lambda: nvml.nvmlDeviceGetUtilizationRates(handle).memory / 100)
    ask("power_w", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000)
    ask("power_limit_w", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000)
    ask("energy_j", lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000)
    ask("foreign_processes", lambda: _foreign(nvml, handle, reading, own))
    return reading


def _foreign(
    nvml: Any, handle: Any, reading: Reading, own_process_uses_gpu: bool | None
) -> list[dict[str, Any]] | None:
    processes = {
        int(process.pid): process.usedGpuMemory
        for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    }
    if own_process_uses_gpu is None:
        own_process_uses_gpu = _torch_uses_gpu()
    if processes and own_process_uses_gpu and os.getpid() not in processes:
        # Inside a container the driver reports the host's process ids, so ours can't be told apart.
        reading.reasons["foreign_processes"] = (
            f"{len(processes)} processes on the GPU, but this one is not found among them: "
            "the process ids are those of the host outside this container"
        )
        return None
    return [
        {"pid": pid, "memory_bytes": memory}
        for pid, memory in sorted(processes.items())
        if pid != os.getpid()
    ]


def _torch_uses_gpu() -> bool:
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and bool(torch.cuda.is_initialized())


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
