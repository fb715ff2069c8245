"""Peak memory of a region of code, and how much there is.

On CUDA the peak is the most that tensors held at once (``torch.cuda.max_memory_allocated``), and
what captured graphs keep to work in, which no tensor holds; what the allocator merely has in
reserve is not counted. On the CPU it is the whole process's resident memory, interpreter and
libraries included, since no narrower number exists: on Linux the kernel's own high-water mark
(``VmHWM``, set back through ``/proc/self/clear_refs``), which misses nothing; elsewhere a thread
samples the resident size every 5 ms and can miss a shorter peak.
:attr:`PeakMemory.method` says which.

>>> with PeakMemory("cpu") as memory:
...     block = bytearray(2**20)
>>> memory.peak_bytes > 2**20
True
"""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from specbench.measure.cgroup import memory_left, memory_limit

_SAMPLE_INTERVAL_S = 0.005
_NO_GRAPHS = (0, 0)  # the pool of everything else
_PROC_SELF = Path("/proc/self")


class PeakMemory:
    """Context manager; after it :attr:`peak_bytes` is the region's peak. Regions do not nest.

    On CUDA :attr:`beyond_bytes` is by how much more tensors held at their peak than at the last
    :meth:`mark_held`, and :attr:`graph_bytes` what all captured graphs keep. Of a process both stay
    None: resident memory does not shrink with tensors. Where pools of graphs are not told of, the
    peak is not known.

    Args:
        device: a torch device or its name.
        cuda: stands in for ``torch.cuda`` in tests.
    """

    def __init__(self, device: Any, cuda: Any = None) -> None:
        self._device = str(device)
        self._cuda = cuda
        self._sampler: _ResidentSampler | None = None
        self.method = ""
        self.peak_bytes: int | None = None
        self.beyond_bytes: int | None = None
        self.graph_bytes: int | None = None
        self._held_bytes: int | None = None

    def __enter__(self) -> PeakMemory:
        if self._device.startswith("cuda"):
            self.method = "torch.cuda.max_memory_allocated and the pools of graphs"
            self._torch_cuda().reset_peak_memory_stats(self._device)
        elif _reset_high_water_mark():
            self.method = "VmHWM"
        else:
            self.method = "resident size sampled every 5 ms"
            self._sampler = _ResidentSampler()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._device.startswith("cuda"):
            cuda = self._torch_cuda()
            peak = int(cuda.max_memory_allocated(self._device))
            self.graph_bytes = graph_bytes(self._device, cuda)
            self.peak_bytes = None if self.graph_bytes is None else peak + self.graph_bytes
            if self._held_bytes is not None:
                self.beyond_bytes = peak - self._held_bytes
        elif self._sampler is not None:
            self.peak_bytes = self._sampler.stop()
        else:
            self.peak_bytes = _high_water_mark()

    def mark_held(self) -> None:
        """What lies in memory now is held, and not of the work that follows."""
        if self._device.startswith("cuda"):
            self._held_bytes = int(self._torch_cuda().memory_allocated(self._device))

    def _torch_cuda(self) -> Any:
        if self._cuda is None:
            import torch

            self._cuda = torch.cuda
        return self._cuda


def graph_bytes(device: str, cuda: Any) -> int | None:
    """Bytes of a CUDA device that captured graphs keep for what they compute on the way.

    Tensors of a captured step are given up when it has been captured, but its graph writes to where
    they lay: memory in pools of its own, in use and free at once. None where the allocator does not
    tell of its pools, as CUDA's own (``backend:cudaMallocAsync``).
    """
    try:
        segments = cuda.memory_snapshot()
    except RuntimeError:
        return None
    index = int(device.partition(":")[2] or 0)
    return sum(
        int(segment["total_size"] - segment["allocated_size"])
        for segment in segments
        if segment["device"] == index and tuple(segment["segment_pool_id"]) != _NO_GRAPHS
    )


def capacity_bytes(device: Any, cuda: Any = None, root: Path = Path("/")) -> int:
    """Bytes of memory there are: the GPU's, or the machine's (a control group's limit if lower).

    Args:
        device: a torch device or its name.
        cuda: stands in for ``torch.cuda`` in tests.
        root: where ``proc`` and ``sys`` are.
    """
    if str(device).startswith("cuda"):
        if cuda is None:
            import torch

            cuda = torch.cuda
        return int(cuda.get_device_properties(str(device)).total_memory)
    import psutil

    return _lower(int(psutil.virtual_memory().total), memory_limit(root))


def available_bytes(device: Any, cuda: Any = None, root: Path = Path("/")) -> int:
    """Bytes that are free now: of the GPU, or of the machine (a control group's rest if less).

    Args:
        device, cuda, root: as of :func:`capacity_bytes`.
    """
    if str(device).startswith("cuda"):
        if cuda is None:
            import torch

            cuda = torch.cuda
        name = str(device)  # what torch holds in reserve is free for torch
        unused = cuda.memory_reserved(name) - cuda.memory_allocated(name)
        return int(cuda.mem_get_info(name)[0] + unused)
    import psutil

    return _lower(int(psutil.virtual_memory().available), memory_left(root))


def _lower(of_machine: int, of_group: int | None) -> int:
    return of_machine if of_group is None else min(of_machine, of_group)


def _reset_high_water_mark() -> bool:
    try:
        (_PROC_SELF / "clear_refs").write_text("5")
    except OSError:
        return False
    return _high_water_mark() is not None


def _high_water_mark() -> int | None:
    try:
        status = (_PROC_SELF / "status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None


class _ResidentSampler:
    """A thread that keeps the largest resident size it saw, both ends of the region included."""

    def __init__(self) -> None:
        import psutil

        self._process = psutil.Process()
        self._peak = self._resident()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> int:
        self._stopped.set()
        self._thread.join()
        return max(self._peak, self._resident())

    def _run(self) -> None:
        while not self._stopped.wait(_SAMPLE_INTERVAL_S):
            self._peak = max(self._peak, self._resident())

    def _resident(self) -> int:
        return int(self._process.memory_info().rss)
