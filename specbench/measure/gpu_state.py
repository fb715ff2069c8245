"""How a GPU is set up and how it feels: what decides whether its speed is its own.

:mod:`specbench.measure.nvml` reads what changes from second to second and goes into records; this
is what somebody configured (persistence, ECC, MIG, power limit), what holds the clocks back, and
whether the hardware's own counters (GPM, from Hopper on) may be read. What the driver refuses is
``None`` with its reason in :attr:`GpuState.reasons`.

>>> state = read_state()
>>> state.unavailable is None or state.ecc is None
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from specbench.measure import nvml as driver
from specbench.measure.throttling import slowed_by

_SETTING = 0x02 | 0x100  # application or locked clocks, display clocks


@dataclass
class GpuState:
    """One look at one GPU's settings. Watts, degrees Celsius, counts."""

    unavailable: str | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    cuda_version: tuple[int, int] | None = None
    """The newest CUDA that the driver runs."""
    persistence: bool | None = None
    ecc: bool | None = None
    ecc_after_reboot: bool | None = None
    uncorrected_errors: int | None = None
    """Of memory, since the driver was loaded."""
    mig: bool | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    temperature_c: int | None = None
    slowdown_temperature_c: int | None = None
    slowed_by: list[str] | None = None
    """What holds the clocks back at this moment, by :mod:`specbench.measure.throttling`."""
    clocks_set: bool | None = None
    """Whether a setting, not the load, decides the clocks at this moment."""
    num_processes: int | None = None
    """That compute on this GPU, this one included."""
    counters: bool | None = None
    """Whether GPM samples can be taken; False on a card without them."""


def read_state(index: int = 0, uuid: str | None = None) -> GpuState:
    """Ask for every field once.

    Args:
        index: the driver's number of the GPU, which ``CUDA_VISIBLE_DEVICES`` does not renumber.
        uuid: names the GPU whatever the numbering; preferred (see :func:`nvml.uuid_of`).
    """
    library, reason = driver._start()
    if library is None:
        return GpuState(unavailable=reason)
    try:
        return _read_all(library, driver._handle(library, index, uuid))
    except library.NVMLError as error:
        return GpuState(unavailable=f"NVML: {error}")
    finally:
        library.nvmlShutdown()


def _read_all(library: Any, handle: Any) -> GpuState:
    state = GpuState()

    def ask(name: str, question: Callable[[], Any]) -> None:
        try:
            setattr(state, name, question())
        except library.NVMLError as error:
            state.reasons[name] = str(error)

    ask("cuda_version", lambda: _version(library.nvmlSystemGetCudaDriverVersion()))
    ask("persistence", lambda: bool(library.nvmlDeviceGetPersistenceMode(handle)))
    ask("ecc", lambda: bool(library.nvmlDeviceGetEccMode(handle)[0]))
    ask("ecc_after_reboot", lambda: bool(library.nvmlDeviceGetEccMode(handle)[1]))
    ask("uncorrected_errors", lambda: _uncorrected_errors(library, handle))
    ask("mig", lambda: bool(library.nvmlDeviceGetMigMode(handle)[0]))
    ask("power_limit_w", lambda: library.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000)
    ask(
        "default_power_limit_w",
        lambda: library.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000,
    )
    ask("temperature_c", lambda: _temperature(library, handle))
    ask("slowdown_temperature_c", lambda: _slowdown_temperature(library, handle))
    ask("slowed_by", lambda: slowed_by(library.nvmlDeviceGetCurrentClocksEventReasons(handle)))
    ask(
        "clocks_set",
        lambda: bool(library.nvmlDeviceGetCurrentClocksEventReasons(handle) & _SETTING),
    )
    ask("num_processes", lambda: len(library.nvmlDeviceGetComputeRunningProcesses(handle)))
    ask("counters", lambda: _has_counters(library, handle))
    return state


def _version(number: int) -> tuple[int, int]:
    """13000 is CUDA 13.0."""
    return number // 1000, number % 1000 // 10


def _uncorrected_errors(library: Any, handle: Any) -> int:
    kind, since_loading = library.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, library.NVML_VOLATILE_ECC
    return int(library.nvmlDeviceGetTotalEccErrors(handle, kind, since_loading))


def _temperature(library: Any, handle: Any) -> int:
    return int(library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU))


def _slowdown_temperature(library: Any, handle: Any) -> int:
    threshold = library.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    return int(library.nvmlDeviceGetTemperatureThreshold(handle, threshold))


def _has_counters(library: Any, handle: Any) -> bool:
    """Take one sample: the card may have counters and the user not be allowed to read them."""
    if not library.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
        return False
    sample = library.nvmlGpmSampleAlloc()
    try:
        library.nvmlGpmSampleGet(handle, sample)
    finally:
        library.nvmlGpmSampleFree(sample)
    return True
