"""What a GPU counted while a cell was decoded: utilisation, clocks, power, energy, throttling.

:mod:`specbench.measure.sampler` reads; here is what is made of it. What the driver refuses is
``None`` with its reason in :attr:`Counters.reasons`; without a driver :attr:`Counters.unavailable`
says why. A field is a mean over looks or stretches, an invented zero never.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

from specbench.measure.gpm import Shares
from specbench.measure.throttling import SLOWDOWNS

AVERAGED_S = 1.0
"""The driver's memory utilisation and power are means over up to so many seconds before."""

LEAST_GPM_S = 0.1
"""Shares of shorter stretches are not used."""


class Look(NamedTuple):
    """Present values at one moment of a stretch that was ``age_s`` old; refused ones are absent."""

    age_s: float
    values: dict[str, float]


class Stretch(NamedTuple):
    """A stretch of decoding: its seconds, joules and GPM shares, None where not readable."""

    seconds: float
    energy_j: float | None
    shares: Shares | None


@dataclass
class Counters:
    """Of one cell's decoding. Seconds, MHz, watts, joules, bytes; shares from 0 to 1.

    Attributes:
        unavailable: why there is nothing at all.
        reasons: why a field is None.
        seconds: of all stretches of decoding, by the host's clock.
        looks: that counted.
        memory_utilization: time in which memory was read or written at all, however little.
        throttled: share of the looks by reason.
        energy_method: the driver's total, or mean power times seconds.
        gpm_seconds: of the stretches that the following shares are of.
        dram_bytes_per_s: dram_utilization of the memory's rate, twice its clock times its width.
        sampler_cpu_s, sampler_share: CPU time of the looking thread, and over the seconds.
    """

    unavailable: str | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    seconds: float | None = None
    looks: int = 0
    memory_utilization: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_least_mhz: float | None = None
    memory_clock_mhz: float | None = None
    temperature_most_c: float | None = None
    throttled: dict[str, float] | None = None
    power_w: float | None = None
    energy_j: float | None = None
    energy_method: str | None = None
    gpm_seconds: float | None = None
    dram_utilization: float | None = None
    sm_utilization: float | None = None
    tensor_utilization: float | None = None
    dram_bytes_per_s: float | None = None
    sampler_cpu_s: float | None = None
    sampler_share: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def concluded(
    looks: Sequence[Look],
    stretches: Sequence[Stretch],
    memory: Mapping[str, float],
    reasons: dict[str, str],
) -> Counters:
    """The counters of a cell.

    Args:
        looks: those that lie within a stretch.
        stretches: all of them.
        memory: bus_bits, and memory_clock_mhz right after decoding, for cells without a look.
        reasons: of what was refused, by field.
    """
    found = Counters(reasons=reasons, seconds=sum(part.seconds for part in stretches))
    found.looks = len(looks)
    if not looks:
        reasons.setdefault("looks", "decoding was over before the first look")
    _look_back(found, looks)
    _energy(found, looks, stretches)
    _gpm(found, stretches)
    if found.memory_clock_mhz is None:
        found.memory_clock_mhz = memory.get("memory_clock_mhz")
    share, clock, bits = found.dram_utilization, found.memory_clock_mhz, memory.get("bus_bits")
    if share is not None and clock is not None and bits is not None:
        found.dram_bytes_per_s = share * 2e6 * clock * bits / 8  # two transfers a clock
    return found


def _look_back(found: Counters, looks: Sequence[Look]) -> None:
    found.sm_clock_mhz = _mean(looks, "sm_clock_mhz")
    found.memory_clock_mhz = _mean(looks, "memory_clock_mhz")
    clocks, temperatures = _all(looks, "sm_clock_mhz"), _all(looks, "temperature_c")
    found.sm_clock_least_mhz = min(clocks, default=None)
    found.temperature_most_c = max(temperatures, default=None)
    bits = [int(value) for value in _all(looks, "throttled")]
    if bits:
        shares = {name: fmean(bool(seen & bit) for seen in bits) for bit, name in SLOWDOWNS.items()}
        found.throttled = {name: share for name, share in shares.items() if share}
    settled = [look for look in looks if look.age_s >= AVERAGED_S]
    found.memory_utilization = _mean(settled, "memory_utilization")
    if looks and not settled:
        found.reasons.setdefault(
            "memory_utilization",
            f"the driver averages over {AVERAGED_S:g} s, and no stretch of decoding lasted longer",
        )


def _energy(found: Counters, looks: Sequence[Look], stretches: Sequence[Stretch]) -> None:
    """The driver's running total if it has one, else power over time."""
    totals = [part.energy_j for part in stretches if part.energy_j is not None]
    power = _mean(looks, "power_w")
    if stretches and len(totals) == len(stretches):
        found.energy_j, found.energy_method = sum(totals), "the driver's total"
        found.power_w = found.energy_j / found.seconds if found.seconds else None
    elif power is not None and found.seconds is not None:
        found.energy_j, found.energy_method = power * found.seconds, "mean power times seconds"
        found.power_w = power


def _gpm(found: Counters, stretches: Sequence[Stretch]) -> None:
    """Shares weighted by the seconds that they are of."""
    read = [part for part in stretches if part.shares is not None]
    used = [part for part in read if part.seconds >= LEAST_GPM_S]
    if not used:
        if read:
            short = f"no stretch of decoding lasted {LEAST_GPM_S:g} s"
            found.reasons.setdefault("gpm", short)
        return
    found.gpm_seconds = sum(part.seconds for part in used)
    for name in ("dram_utilization", "sm_utilization", "tensor_utilization"):
        pairs = [(part.seconds, part.shares[name]) for part in used if part.shares]
        known = [(seconds, share) for seconds, share in pairs if share is not None]
        if known:
            weighted = sum(seconds * share for seconds, share in known)
            setattr(found, name, weighted / sum(seconds for seconds, _ in known))
        else:
            found.reasons.setdefault(name, "the driver gave no value")


def _all(looks: Sequence[Look], name: str) -> list[float]:
    return [look.values[name] for look in looks if name in look.values]


def _mean(looks: Sequence[Look], name: str) -> float | None:
    values = _all(looks, name)
    return fmean(values) if values else None
