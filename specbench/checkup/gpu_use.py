"""What the GPU is doing: other processes, memory, clocks and what holds them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from specbench.checkup._gpu import gpu_check, not_known, reason
from specbench.checkup.finding import Facts, Finding, gibibytes, ok, warn

if TYPE_CHECKING:
    from specbench.checkup.machine import Machine
    from specbench.measure.nvml import Reading

_BUSY = 0.05
_FOREIGN_MEMORY = 0.05
_LITTLE_MEMORY = 0.10
_CONTEXT_BYTES = 2**30  # what CUDA, its libraries and captured graphs take outside torch's books
_DEGREES_LEFT = 5


@gpu_check("GPU processes", spoils=True)
def processes(machine: Machine, gpu: Reading) -> Finding:
    """Who else computes here; inside a container the driver gives the host's process numbers."""
    others = gpu.foreign_processes
    if others:
        who = ", ".join(map(_process, others))
        return warn(
            f"also used by {who}",
            "End them, or choose another GPU with CUDA_VISIBLE_DEVICES",
            processes=others,
        )
    if others is not None:
        return ok("no other", processes=[])
    if machine.state.num_processes == 1:
        return ok("one, taken for this one: the driver gives its number on the host")
    return warn(
        f"not known ({reason('foreign_processes', gpu)})",
        "Look at nvidia-smi outside the container",
    )


@gpu_check("GPU load")
def load(machine: Machine, gpu: Reading) -> Finding | None:
    """Utilisation before this process has computed anything."""
    if machine.in_use:
        return None
    busy = gpu.gpu_utilization
    if busy is None:
        return not_known("gpu_utilization", gpu)
    value = f"busy {busy:.0%} of the time before this command began"
    if busy > _BUSY:
        return warn(value, "Something else uses the GPU: see nvidia-smi", share=busy)
    return ok(value, share=busy)


@gpu_check("GPU memory", spoils=True)
def memory(machine: Machine, gpu: Reading) -> Finding:
    now = machine.gpu_now() if machine.in_use else gpu
    used, total = now.memory_used_bytes, now.memory_total_bytes
    if used is None or total is None:
        return not_known("memory_used_bytes", now)
    foreign = max(used - _own_bytes(machine), 0)
    value = f"{gibibytes(total - used)} free of {gibibytes(total)}"
    facts: Facts = {"free_bytes": total - used, "total_bytes": total, "foreign_bytes": foreign}
    if foreign > _FOREIGN_MEMORY * total:
        return warn(
            f"{value}, {gibibytes(foreign)} held by others",
            "End what holds it, or choose another GPU with CUDA_VISIBLE_DEVICES",
            **facts,
        )
    if total - used < _LITTLE_MEMORY * total:
        return warn(value, "Choose a smaller batch size, dtype or target", **facts)
    return ok(value, **facts)


@gpu_check("clocks")
def clocks(machine: Machine, gpu: Reading) -> Finding:
    """Right after the matrix products where those were measured: at rest clocks are low."""
    now, held = machine.gpu_now(), machine.state.clocks_set
    if now.sm_clock_mhz is None or now.max_sm_clock_mhz is None:
        return not_known("sm_clock_mhz", now)
    value = f"SM {now.sm_clock_mhz} of {now.max_sm_clock_mhz} MHz"
    if now.memory_clock_mhz is not None:
        value += f", memory {now.memory_clock_mhz} of {now.max_memory_clock_mhz} MHz"
    facts: Facts = {
        "sm_clock_mhz": now.sm_clock_mhz,
        "max_sm_clock_mhz": now.max_sm_clock_mhz,
        "memory_clock_mhz": now.memory_clock_mhz,
        "max_memory_clock_mhz": now.max_memory_clock_mhz,
        "held_by_a_setting": held,
    }
    if held is None:
        return ok(f"{value}, locked or not is not known", **facts)
    if held and now.sm_clock_mhz < now.max_sm_clock_mhz:
        return warn(
            f"{value}, held there by a setting",
            "Speeds hold for these clocks only; nvidia-smi -rgc and -rac set them free",
            **facts,
        )
    return ok(f"{value}, {'held by a setting' if held else 'free to move'}", **facts)


@gpu_check("throttling", spoils=True)
def throttling(machine: Machine, gpu: Reading) -> Finding:
    """A card at its power limit under full load is as its maker meant it; heat is not."""
    state = machine.state
    if state.slowed_by is None:
        return not_known("slowed_by", state)
    if not state.slowed_by:
        return ok("none", slowed_by=[])
    value = "slowed by " + ", ".join(state.slowed_by)
    facts: Facts = {"slowed_by": state.slowed_by}
    if state.slowed_by == ["power limit"]:
        return ok(f"{value}, as under full load", **facts)
    return warn(value, "Let it cool, and look at its cooling and power supply", **facts)


@gpu_check("temperature")
def temperature(machine: Machine, gpu: Reading) -> Finding:
    state = machine.state
    now, most = state.temperature_c, state.slowdown_temperature_c
    if now is None:
        return not_known("temperature_c", state)
    facts: Facts = {"temperature_c": now, "slowdown_temperature_c": most}
    if most is None:
        return ok(f"{now} °C", **facts)
    value = f"{now} °C, slows down at {most} °C"
    if now > most - _DEGREES_LEFT:
        return warn(value, "Let it cool before measuring", **facts)
    return ok(value, **facts)


def _process(process: dict[str, Any]) -> str:
    """``python3 (41, 1.0 GiB)``."""
    import psutil

    try:
        name = psutil.Process(process["pid"]).name()
    except psutil.Error:
        name = "process"
    memory = process["memory_bytes"]
    return f"{name} ({process['pid']}" + (f", {gibibytes(memory)})" if memory else ")")


def _own_bytes(machine: Machine) -> int:
    """What this process holds of the card's memory, at most."""
    if not machine.in_use:
        return 0
    import torch

    return int(torch.cuda.memory_reserved(str(machine.device))) + _CONTEXT_BYTES
