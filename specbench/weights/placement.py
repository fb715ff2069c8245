"""Where a model's weights go: one device, or the layers spread over several GPUs of a machine.

>>> Placement.of("cpu").first
device(type='cpu')
>>> Placement.of("cuda:0,cuda:1").is_spread                                     # doctest: +SKIP
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from specbench.errors import SpecbenchError
from specbench.measure.device import resolve
from specbench.measure.memory import available_bytes

_FILLED = 0.9
"""Share of a GPU's free memory that weights may take; keys, values and work need the rest."""


@dataclass(frozen=True)
class Placement:
    """The devices of one model, in the order in which its layers fill them."""

    devices: tuple[torch.device, ...]

    @classmethod
    def of(cls, text: str, asked: str = "") -> Placement:
        """From ``auto``, ``cpu``, ``cuda``, ``cuda:N``, or several ``cuda:N`` with commas.

        Args:
            asked: what it was asked for with, to begin messages; nothing for ``--device``.

        Raises:
            SpecbenchError: one of them is not there, or is named twice.
        """
        try:
            names = [resolve(name) for name in text.split(",")]
        except SpecbenchError as error:
            if not asked:
                raise
            raise SpecbenchError(f"{asked}: {error.message}", "Leave device= out") from error
        if len(set(names)) < len(names):
            raise SpecbenchError(f"--device {text!r} names a device twice", "Name each once")
        return cls(tuple(map(torch.device, names)))

    @property
    def first(self) -> torch.device:
        return self.devices[0]

    @property
    def is_spread(self) -> bool:
        return len(self.devices) > 1

    @property
    def free_bytes(self) -> int:
        """What is free on all devices together."""
        return sum(map(available_bytes, self.devices))

    @property
    def options(self) -> dict[str, Any]:
        """What ``from_pretrained`` is told: weights go straight onto GPUs, without a copy in host
        memory first; over several, layer by layer, as many on each as has room."""
        if self.is_spread:
            room = {device.index: int(_FILLED * available_bytes(device)) for device in self.devices}
            return {"device_map": "balanced", "max_memory": room}
        return {} if self.first.type == "cpu" else {"device_map": {"": self.first}}

    def require_one(self, what: str) -> torch.device:
        """The device.

        Raises:
            SpecbenchError: there are several, and ``what`` can't be spread.
        """
        if self.is_spread:
            raise SpecbenchError(
                f"{what} can't be spread over {len(self.devices)} devices", "Name one --device"
            )
        return self.first

    def __str__(self) -> str:
        return ", ".join(map(str, self.devices))
