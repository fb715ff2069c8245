"""The machine as the checks see it: what is asked more than once is asked here.

Checks read files below :attr:`Machine.root`, variables in :attr:`Machine.environment` and the GPU
through :mod:`specbench.measure`, so that a test can put a whole machine in their place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from specbench.checkup.finding import short
from specbench.measure import nvml
from specbench.measure.gpu_state import GpuState, read_state
from specbench.measure.nvml import Reading


@dataclass
class Machine:
    """What checks ask.

    Attributes:
        wanted: the device as on the command line.
        in_use: whether this process computes on it already; otherwise every process on the GPU is
            somebody else's.
        online: True: hub and index must be reachable; False: they are not asked; None: they are
            asked, and it is no failure if they are not.
        results: where runs are written.
        environment: the process's variables.
        root: where ``proc`` and ``sys`` are.
    """

    wanted: str = "auto"
    in_use: bool = False
    online: bool | None = None
    results: Path = Path("results")
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    root: Path = Path("/")

    def __post_init__(self) -> None:
        """Look at the GPU before any check computes on it."""
        self.device: str | None = None
        self.torch_error: str | None = None
        try:
            from specbench.measure.device import resolve

            self.device = resolve(self.wanted)
            self._uuid = nvml.uuid_of(self.device)
        except Exception as error:  # torch is missing or can't be loaded: that is a finding
            self.torch_error, self._uuid = short(error), None
        reading = nvml.read(uuid=self._uuid, own_process_uses_gpu=self.in_use)
        self.gpu_unavailable = reading.unavailable
        self.gpu = reading if self._counts(reading) else None

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return str(self.device).startswith("cuda")

    @cached_property
    def state(self) -> GpuState:
        """The GPU's settings, asked when first needed."""
        return read_state(uuid=self._uuid)

    def gpu_now(self) -> Reading:
        """A new look at the GPU."""
        return nvml.read(uuid=self._uuid, own_process_uses_gpu=self.in_use)

    def _counts(self, reading: Reading) -> bool:
        """Whether a GPU is there that matters: to a run on the CPU none does."""
        return reading.unavailable is None and (self.on_gpu or not self.in_use)
