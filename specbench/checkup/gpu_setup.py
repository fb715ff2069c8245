"""How the GPU is set up: what somebody configured, and whether its counters may be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specbench.checkup._gpu import gpu_check, not_known, reason
from specbench.checkup.finding import Facts, Finding, ok, warn

if TYPE_CHECKING:
    from specbench.checkup.machine import Machine
    from specbench.measure.nvml import Reading


@gpu_check("power limit")
def power_limit(machine: Machine, gpu: Reading) -> Finding:
    state = machine.state
    limit, default = state.power_limit_w, state.default_power_limit_w
    if limit is None:
        return not_known("power_limit_w", state)
    facts: Facts = {"power_limit_w": limit, "default_power_limit_w": default}
    if default is not None and limit < default:
        return warn(
            f"{limit:.0f} W, set below its default of {default:.0f} W",
            f"Speeds hold for this limit only; sudo nvidia-smi -pl {default:.0f} takes it back",
            **facts,
        )
    return ok(f"{limit:.0f} W", **facts)


@gpu_check("persistence")
def persistence(machine: Machine, gpu: Reading) -> Finding:
    state = machine.state
    if state.persistence is None:
        return not_known("persistence", state)
    if not state.persistence:
        return warn(
            "off: the driver lets the card go between commands, which start slowly",
            "sudo nvidia-smi -pm 1",
            persistence=False,
        )
    return ok("on", persistence=True)


@gpu_check("ECC")
def ecc(machine: Machine, gpu: Reading) -> Finding:
    state = machine.state
    if state.ecc is None:
        return not_known("ecc", state)
    word, errors = _on(state.ecc), state.uncorrected_errors
    facts: Facts = {"ecc": state.ecc, "uncorrected_errors": errors}
    if errors:
        return warn(
            f"{word}, uncorrected memory errors: {errors}",
            "Restart the machine; if they come back, have the card replaced",
            **facts,
        )
    if state.ecc_after_reboot not in {None, state.ecc}:
        value = f"{word}, {_on(not state.ecc)} after a restart"
        return warn(value, "Restart the machine before comparing runs", **facts)
    return ok(word, **facts)


@gpu_check("MIG")
def mig(machine: Machine, gpu: Reading) -> Finding:
    state = machine.state
    if state.mig is None:
        return not_known("mig", state)
    if state.mig:
        return warn(
            "on: a part of a card, whose other parts share its power and clocks",
            "Compare with runs on a part of the same size only",
            mig=True,
        )
    return ok("off: the whole card", mig=False)


@gpu_check("GPM counters")
def counters(machine: Machine, gpu: Reading) -> Finding:
    """Bandwidth and utilisation as the hardware counts them, on Hopper and later."""
    state = machine.state
    if state.counters:
        return ok("readable: bandwidth is counted, too", readable=True)
    why = "Not Supported" if state.counters is False else reason("counters", state)
    if why == "Not Supported":
        return ok("this card has none: bandwidth is bytes over time", readable=False)
    return warn(
        f"not readable ({why})",
        "Run as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0",
        readable=False,
    )


def _on(switch: bool) -> str:
    return "on" if switch else "off"
