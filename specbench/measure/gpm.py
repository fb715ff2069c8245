"""NVIDIA's GPU performance monitoring (GPM): what the memory, the SMs and the tensor cores did.

The driver keeps running counters from Hopper on; two samples of them give the shares of the time
between. Percentages of the driver are shares from 0 to 1 here. Structures and calls are those of
``nvml.h``, through ``pynvml``.
"""

from __future__ import annotations

import math
from typing import Any

_METRICS = {
    "dram_utilization": "NVML_GPM_METRIC_DRAM_BW_UTIL",
    "sm_utilization": "NVML_GPM_METRIC_SM_UTIL",
    "tensor_utilization": "NVML_GPM_METRIC_ANY_TENSOR_UTIL",
}

Shares = dict[str, float | None]
"""dram_utilization (of the memory's rate by its clock and width), sm_utilization,
tensor_utilization; None where the driver gave no value."""


class GpmError(Exception):
    """There are no such counters here, or they may not be read; the message says which."""


class Gpm:
    """Two samples of one GPU's counters.

    Args:
        nvml: the initialised module ``pynvml``.
        handle: of the GPU.

    Raises:
        GpmError: with the reason.
    """

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle
        self._samples: list[Any] = []
        if not hasattr(nvml, "nvmlGpmQueryDeviceSupport"):
            raise GpmError("this nvidia-ml-py has no GPM: pip install -U nvidia-ml-py")
        try:
            if not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
                raise GpmError("GPM needs a Hopper GPU or a later one")
            self._samples = [nvml.nvmlGpmSampleAlloc() for _ in range(2)]
            self.begin()  # a user may be forbidden to read what the card has
        except nvml.NVMLError as error:
            self.close()
            raise GpmError(f"NVML: {error}") from error

    def begin(self) -> None:
        """Take the first sample.

        Raises:
            NVMLError: the driver refuses.
        """
        self._nvml.nvmlGpmSampleGet(self._handle, self._samples[0])

    def end(self) -> Shares:
        """Take the second sample; the shares between the two.

        Raises:
            NVMLError: the driver refuses.
        """
        self._nvml.nvmlGpmSampleGet(self._handle, self._samples[1])
        asked = self._nvml.c_nvmlGpmMetricsGet_t()
        asked.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(_METRICS)
        asked.sample1, asked.sample2 = self._samples
        for place, name in enumerate(_METRICS.values()):
            asked.metrics[place].metricId = getattr(self._nvml, name)
        self._nvml.nvmlGpmMetricsGet(asked)
        return {name: self._share(asked.metrics[place]) for place, name in enumerate(_METRICS)}

    def close(self) -> None:
        """Give the samples' memory back."""
        for sample in self._samples:
            self._nvml.nvmlGpmSampleFree(sample)
        self._samples = []

    def _share(self, metric: Any) -> float | None:
        if metric.nvmlReturn != self._nvml.NVML_SUCCESS or not math.isfinite(metric.value):
            return None
        return float(metric.value) / 100.0
