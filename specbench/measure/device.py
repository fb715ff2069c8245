"""Which device a run uses, how many threads, and what to write down about them.

>>> resolve("cpu")
'cpu'
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError

DTYPES = ("auto", "float32", "bfloat16", "float16")
DEVICES = r"auto|cpu|cuda(:\d+)?"
SEVERAL_DEVICES = r"cuda:\d+(,cuda:\d+)+"
"""What a device may be called, and several for the layers of one model: regular expressions."""
_MOST_THREADS_PER_CORE = 8


def resolve(name: str = "auto") -> str:
    """A torch device name with its number: ``"cpu"`` or ``"cuda:0"``.

    Args:
        name: ``auto`` (the first CUDA device if torch sees one, else the CPU), ``cpu``, ``cuda`` or
            ``cuda:N``.

    Raises:
        SpecbenchError: no such device here; the message says what there is.
    """
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "cpu":
        return "cpu"
    if name == "auto":
        return "cuda:0" if count else "cpu"
    if name == "cuda" or name.startswith("cuda:"):
        number = name.partition(":")[2] or "0"
        if not count:
            raise SpecbenchError(
                f"device {name!r} is not usable: torch {torch.__version__} sees no CUDA device",
                "Use --device cpu, or run specbench doctor to see why",
            )
        if not number.isdecimal() or int(number) >= count:
            raise SpecbenchError(
                f"no device {name!r}", f"There are {count}: cuda:0 to cuda:{count - 1}"
            )
        return f"cuda:{number}"
    raise SpecbenchError(f"unknown device {name!r}", "Use auto, cpu, cuda or cuda:N")


def check_threads(threads: int | None) -> None:
    """Refuse a number of threads that no work on this machine has a use for.

    Args:
        threads: as asked for; None is right everywhere.

    Raises:
        SpecbenchError: fewer than one, or more than some per core: torch and scipy end with a
            traceback where the system gives them no more.
    """
    most = _MOST_THREADS_PER_CORE * (os.cpu_count() or 1)
    if threads is not None and not 1 <= threads <= most:
        raise SpecbenchError(
            f"--threads {threads} is not usable",
            f"Give a whole number from 1 to {most}, {_MOST_THREADS_PER_CORE} per core of this"
            " machine",
        )


def set_threads(threads: int | None) -> int:
    """Set torch's threads for work on the CPU; returns the count in force.

    ``None`` takes as many as there are cores in this process's affinity mask, so that a run under
    ``taskset`` or in a container does not start more threads than it can run.
    """
    import torch

    torch.set_num_threads(threads if threads is not None else usable_cores())
    return torch.get_num_threads()


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe(device: str) -> dict[str, Any]:
    """What a record keeps about the machine: plain values, ``None`` where unknown.

    Args:
        device: a resolved device name.
    """
    import torch

    from specbench.measure.memory import capacity_bytes

    facts: dict[str, Any] = {
        "device": device,
        "cpu": cpu_model(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "memory_bytes": capacity_bytes("cpu"),
        "last_level_cache_bytes": last_level_cache_bytes(),
        "torch_cuda": torch.version.cuda,
        "gpu": None,
        "gpu_unavailable": "the run is on the CPU",
    }
    if device.startswith("cuda"):
        from specbench.measure import nvml

        properties = torch.cuda.get_device_properties(device)
        reading = nvml.read(uuid=nvml.uuid_of(device))
        facts["gpu"] = {
            "name": properties.name,
            "compute_capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
            "nvml": reading.to_dict(),
        }
        facts["gpu_unavailable"] = None
    return facts


def cpu_model() -> str | None:
    """The processor's name as the kernel gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or None


def last_level_cache_bytes(caches: Path = Path("/sys/devices/system/cpu")) -> int | None:
    """Bytes of all last-level caches of the machine together; ``None`` where the kernel is silent.

    Args:
        caches: the kernel's folder of processors, another one in tests.
    """
    found: dict[tuple[int, str], int] = {}
    for folder in caches.glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            level = int((folder / "level").read_text())
            size = (folder / "size").read_text().strip()
            sharing = (folder / "shared_cpu_list").read_text().strip()
        except (OSError, ValueError):
            continue
        if size.endswith("K"):
            found[(level, sharing)] = int(size[:-1]) * 1024
    if not found:
        return None
    last = max(level for level, _ in found)
    return sum(size for (level, _), size in found.items() if level == last)
