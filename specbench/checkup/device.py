"""What does the work: the device, the processor, and torch's build against the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specbench.checkup.finding import Facts, Finding, check, fail, gibibytes, ok, warn

if TYPE_CHECKING:
    from specbench.checkup.machine import Machine


@check("device", "used by default")
def used_by_default(machine: Machine) -> Finding:
    if machine.torch_error is not None:
        return fail(f"torch can't be used: {machine.torch_error}", "Install it: pip install torch")
    if not machine.on_gpu:
        return ok(str(machine.device), device=machine.device)
    import torch

    properties = torch.cuda.get_device_properties(str(machine.device))
    capability = f"{properties.major}.{properties.minor}"
    return ok(
        f"{machine.device}, {properties.name}, {gibibytes(properties.total_memory)}, "
        f"compute capability {capability}",
        device=machine.device,
        gpu=properties.name,
        memory_bytes=properties.total_memory,
        compute_capability=capability,
    )


@check("device", "GPU")
def gpu(machine: Machine) -> Finding | None:
    """A card that torch does not use is a mistake more often than a choice."""
    if machine.on_gpu:
        return None
    if machine.gpu is None:
        return ok(f"none seen ({machine.gpu_unavailable})")
    advice = "Install the CUDA build of torch that fits the driver (see pytorch.org)"
    if _torch_cuda() is not None:
        advice = "Is it hidden by CUDA_VISIBLE_DEVICES, or the driver too old for torch's CUDA?"
    return warn(f"{machine.gpu.name} is here, but torch can't use it", advice)


@check("device", "CUDA")
def cuda(machine: Machine) -> Finding | None:
    """Within one major version an older driver runs a newer build; across them it does not."""
    built = _torch_cuda()
    if machine.gpu is None:
        return ok("torch is built without it") if built is None else ok(f"torch has {built}")
    newest = machine.state.cuda_version
    if built is None or newest is None:
        reason = machine.state.reasons.get("cuda_version", machine.state.unavailable)
        driver = f"up to {_text(newest)}" if newest else f"not known ({reason})"
        return ok(f"driver {machine.gpu.driver}: {driver}; torch has {built or 'none'}")
    facts: Facts = {"driver": machine.gpu.driver, "driver_cuda": _text(newest), "torch_cuda": built}
    value = f"driver {machine.gpu.driver} runs up to {_text(newest)}; torch has {built}"
    if int(built.partition(".")[0]) > newest[0]:
        return fail(
            value, f"Update the driver, or install a torch for CUDA {_text(newest)}", **facts
        )
    return ok(value, **facts)


@check("device", "CPU")
def cpu(machine: Machine) -> Finding:
    from specbench.measure.device import cpu_model, last_level_cache_bytes

    cache = last_level_cache_bytes(machine.root / "sys/devices/system/cpu")
    shown = f"{gibibytes(cache)} of last-level cache" if cache else "cache not known"
    return ok(
        ", ".join(part for part in (cpu_model() or "not known", shown, _vector_units()) if part),
        last_level_cache_bytes=cache,
    )


def _torch_cuda() -> str | None:
    """The CUDA that torch was built for."""
    try:
        import torch
    except ImportError:
        return None
    built: str | None = torch.version.cuda
    return built


def _vector_units() -> str:
    try:
        import torch
    except ImportError:
        return ""
    return f"{torch.backends.cpu.get_cpu_capability()}"


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
