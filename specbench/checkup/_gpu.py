"""What the checks of a GPU share: without a GPU they say nothing; a silent driver is no fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from specbench.checkup.finding import Answer, Check, Finding, check, ok

if TYPE_CHECKING:
    from specbench.checkup.machine import Machine
    from specbench.measure.gpu_state import GpuState
    from specbench.measure.nvml import Reading


def gpu_check(
    name: str, *, spoils: bool = False
) -> Callable[[Callable[[Machine, Reading], Answer]], Check]:
    """Declare a check of a GPU: it gets the machine and the driver's first answer."""

    def declare(ask: Callable[[Machine, Reading], Answer]) -> Check:
        def on_a_gpu(machine: Machine) -> Answer:
            return None if machine.gpu is None else ask(machine, machine.gpu)

        return check("GPU", name, spoils=spoils)(on_a_gpu)

    return declare


def not_known(field: str, answer: Reading | GpuState) -> Finding:
    """A field that the driver does not tell, with its reason; many cards lack some."""
    return ok(f"not known ({reason(field, answer)})")


def reason(field: str, answer: Reading | GpuState) -> str:
    """Why a field is None."""
    return answer.unavailable or answer.reasons.get(field, "no reason given")
