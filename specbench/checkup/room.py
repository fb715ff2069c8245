"""Room: memory, and disk for results and for models."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from specbench.checkup.finding import Facts, Finding, check, fail, gibibytes, ok, warn

if TYPE_CHECKING:
    from specbench.checkup.machine import Machine

_LITTLE_MEMORY = 0.10
_LEAST_MEMORY_BYTES = 2**30
_LITTLE_RESULTS_BYTES = 2**30
_LEAST_RESULTS_BYTES = 50 * 2**20


@check("room", "memory", spoils=True)
def memory(machine: Machine) -> Finding:
    """Of the machine, or what a control group leaves of it."""
    from specbench.measure.cgroup import memory_limit
    from specbench.measure.memory import available_bytes, capacity_bytes

    limit = memory_limit(machine.root)
    total = capacity_bytes("cpu", root=machine.root)
    free = available_bytes("cpu", root=machine.root)
    value = f"{gibibytes(free)} free of {gibibytes(total)}"
    if limit == total:
        value += ", the limit of a control group"
    facts: Facts = {"free_bytes": free, "total_bytes": total, "limit_bytes": limit}
    if free < max(_LITTLE_MEMORY * total, _LEAST_MEMORY_BYTES):
        return warn(value, "End what holds it, or choose a smaller target", **facts)
    return ok(value, **facts)


@check("room", "results")
def results(machine: Machine) -> Finding:
    folder = machine.results.absolute()
    free, writable = _free(folder), _writable(folder)
    value = f"{gibibytes(free)} free in {folder}"
    facts: Facts = {"free_bytes": free}
    way_out = "Write elsewhere with --out, or free some"
    if not writable:
        return fail(f"{folder} can't be written", "Write elsewhere with --out", **facts)
    if free < _LEAST_RESULTS_BYTES:
        return fail(value, way_out, **facts)
    return warn(value, way_out, **facts) if free < _LITTLE_RESULTS_BYTES else ok(value, **facts)


@check("room", "cache")
def cache(machine: Machine) -> Finding:
    """The embedded model is built there by the first run that needs it."""
    from specbench.weights import embedded

    folder = embedded.cache_dir()
    free = _free(folder)
    value = f"{gibibytes(free)} free in {folder}"
    facts: Facts = {"free_bytes": free}
    found = embedded.inspect(check_hashes=False)
    if found is not None and found.usable:
        return ok(f"{value}, with the default model", default_model=True, **facts)
    way_out = f"Set SPECBENCH_CACHE to a folder with {gibibytes(embedded.NEEDED_BYTES)}"
    if not _writable(folder):
        return fail(f"{folder} can't be written", way_out, default_model=False, **facts)
    if free < embedded.NEEDED_BYTES:
        return fail(value, way_out, default_model=False, **facts)
    wanted = f"the first run fetches the default model ({embedded.WHEEL_BYTES / 1e6:.0f} MB)"
    return ok(f"{value}; {wanted}", default_model=False, **facts)


def _existing(folder: Path) -> Path:
    """A folder or, until it exists, its nearest parent."""
    return next(parent for parent in (folder, *folder.parents) if parent.exists())


def _free(folder: Path) -> int:
    return shutil.disk_usage(_existing(folder)).free


def _writable(folder: Path) -> bool:
    return os.access(_existing(folder), os.W_OK)
