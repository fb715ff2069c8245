"""What the driver gives as reasons for clocks lower than asked for, in words.

>>> slowed_by(0x04 | 0x40)
['power limit', 'temperature (hardware)']
"""

from __future__ import annotations

SLOWDOWNS = {
    0x04: "power limit",
    0x08: "hardware slowdown",
    0x10: "kept in step with other GPUs",
    0x20: "temperature (driver)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
"""Bits of ``nvmlClocksEventReasons*`` that mean slower than asked for. Idle (0x01) is none."""


def slowed_by(bits: int) -> list[str]:
    """Values of :data:`SLOWDOWNS` whose bits are set."""
    return [name for bit, name in SLOWDOWNS.items() if bits & bit]
