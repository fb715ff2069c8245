"""Reads a GPU's counters while a cell is decoded, and only then.

Running totals (energy, GPM) are read when a stretch of decoding begins and ends, between rounds.
What has only a present value (clocks, temperature, reasons to throttle) is looked at by a thread a
few times a second; a look counts if it lies within one stretch as a whole. After a look the thread
waits 99 times as long as it took, or a tenth of a second if that is longer: so it costs at most 1%
by construction, and its own CPU time is measured and recorded all the same.

>>> with Sampler(uuid=None) as sampler:
...     sampler.resume()
...     sampler.pause()
>>> sampler.counters.unavailable is None or sampler.counters.energy_j is None
True
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from specbench.measure import nvml as driver
from specbench.measure.counters import Counters, Look, Stretch, concluded
from specbench.measure.gpm import Gpm, GpmError

INTERVAL_S = 0.1
MOST_COST = 0.01
"""Share of the time that looks may take."""


class Sampler:
    """Context manager around a cell, told of its stretches of decoding as a Watch is.

    Args:
        uuid: the driver's name of the GPU; None: its first one.
        interval_s: seconds between looks, at least.
        now: the host's clock.

    Attributes:
        counters: after the context.
    """

    def __init__(
        self,
        uuid: str | None,
        *,
        interval_s: float = INTERVAL_S,
        now: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._uuid, self._interval_s, self._now = uuid, interval_s, now
        self._nvml: Any = None
        self._handle: Any = None
        self._gpm: Gpm | None = None
        self._reasons: dict[str, str] = {}
        self._looks: list[Look] = []
        self._stretches: list[Stretch] = []
        self._lock = threading.Lock()  # of the next two, which the thread reads
        self._begun_s: float | None = None  # when the stretch began that goes on
        self._changes = 0  # resumes and pauses so far
        self._energy_j: float | None = None
        self._cpu_s = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu counters", daemon=True)
        self.counters = Counters()

    def __enter__(self) -> Sampler:
        nvml, reason = driver._start()
        if nvml is not None:
            self._nvml = nvml
            try:
                self._handle = driver._handle(nvml, 0, self._uuid)
                reason = _not_its_own(nvml, self._handle)
            except nvml.NVMLError as error:
                reason = f"NVML: {error}"
        if reason is not None:
            self._close()
            self.counters.unavailable = reason
            return self
        try:
            self._gpm = Gpm(nvml, self._handle)
        except GpmError as error:
            self._reasons["gpm"] = str(error)
        self._thread.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._nvml is None:
            return
        self._stopped.set()
        self._thread.join()
        self.pause()
        memory = self._asked(_of_memory(self._nvml, self._handle))
        self.counters = found = concluded(self._looks, self._stretches, memory, self._reasons)
        found.sampler_cpu_s = self._cpu_s
        found.sampler_share = self._cpu_s / found.seconds if found.seconds else None
        self._close()

    def resume(self) -> None:
        """Decoding begins or goes on."""
        if self._nvml is None or self._begun_s is not None:
            return
        self._energy_j = self._total_energy()
        if self._gpm is not None:
            try:
                self._gpm.begin()
            except self._nvml.NVMLError as error:
                self._give_up_gpm(error)
        self._change(self._now())

    def pause(self) -> None:
        """Decoding is interrupted or over."""
        begun = self._begun_s
        if begun is None:
            return
        seconds = self._now() - begun
        self._change(None)
        shares = None
        if self._gpm is not None:
            try:
                shares = self._gpm.end()
            except self._nvml.NVMLError as error:
                self._give_up_gpm(error)
        before, after = self._energy_j, self._total_energy()
        energy = None if before is None or after is None else after - before
        self._stretches.append(Stretch(seconds, energy, shares))

    def look(self) -> None:
        """Ask for all present values; they count if one stretch went on meanwhile."""
        with self._lock:
            begun, changes = self._begun_s, self._changes
        if begun is None:
            return
        age_s = self._now() - begun
        values = self._asked(_questions(self._nvml, self._handle))
        with self._lock:
            if self._changes == changes:
                self._looks.append(Look(age_s, values))

    def _run(self) -> None:
        wait_s = self._interval_s
        while not self._stopped.wait(wait_s):
            begin = self._now()
            self.look()
            wait_s = wait_after(self._now() - begin, self._interval_s)
        self._cpu_s = time.thread_time()

    def _change(self, begun_s: float | None) -> None:
        with self._lock:
            self._begun_s = begun_s
            self._changes += 1

    def _total_energy(self) -> float | None:
        total = self._nvml.nvmlDeviceGetTotalEnergyConsumption
        return self._asked({"energy_j": lambda: total(self._handle) / 1000.0}).get("energy_j")

    def _asked(self, questions: Mapping[str, Callable[[], float]]) -> dict[str, float]:
        """The answers that there are; the reasons of the others are kept."""
        answers = {}
        for name, question in questions.items():
            try:
                answers[name] = float(question())
            except self._nvml.NVMLError as error:
                self._reasons.setdefault(name, f"NVML: {error}")
            except AttributeError as error:  # an older nvidia-ml-py
                self._reasons.setdefault(name, str(error))
        return answers

    def _give_up_gpm(self, error: Exception) -> None:
        self._reasons["gpm"] = f"NVML: {error}"
        if self._gpm is not None:
            self._gpm.close()
        self._gpm = None

    def _close(self) -> None:
        if self._gpm is not None:
            self._gpm.close()
        if self._nvml is not None:
            self._nvml.nvmlShutdown()
        self._nvml = None


def wait_after(took_s: float, interval_s: float) -> float:
    """Seconds to wait after a look, so that looks take at most their share of the time."""
    return max(interval_s, took_s * (1.0 - MOST_COST) / MOST_COST)


def _questions(nvml: Any, handle: Any) -> dict[str, Callable[[], float]]:
    """What a look asks for, by the name it is kept under."""
    return {
        "memory_utilization": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).memory / 100,
        "sm_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
        "throttled": lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
        "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
        "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
    }


def _of_memory(nvml: Any, handle: Any) -> dict[str, Callable[[], float]]:
    """What its full rate follows from."""
    return {
        "bus_bits": lambda: nvml.nvmlDeviceGetMemoryBusWidth(handle),
        "memory_clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM),
    }


def _not_its_own(nvml: Any, handle: Any) -> str | None:
    """Why the GPU's counters do not tell of this process alone; None if they may."""
    try:
        shared = bool(nvml.nvmlDeviceGetMigMode(handle)[0])
    except nvml.NVMLError:  # a card without MIG
        return None
    return (
        "MIG is on: the counters are the whole card's, which others may share" if shared else None
    )
