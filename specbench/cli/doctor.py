"""``specbench doctor``: what this machine has, what is missing, and how fast its memory is.

Everything is looked at, nothing is changed. Exit code 1 if something that ``specbench run`` needs
is missing, so that a script can rely on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from specbench.measure.nvml import Reading

_LABEL_WIDTH = 18
_UNITS = {"mhz": "MHz", "w": "W", "j": "J since the driver was loaded"}
_HUB_TIMEOUT_S = 10.0
_INDEX_TIMEOUT_S = 60.0


def doctor(
    online: Annotated[
        bool,
        typer.Option("--online", help="Also try to reach the model hub and the package index."),
    ] = False,
) -> None:
    """Show versions, device, memory, disk and measured speed, and what is wrong with them."""
    problems: list[str] = []
    for title, lines in _sections(problems, online):
        print(title)
        print("\n".join(f"  {line}" for line in lines))
        print()
    if problems:
        print("\n".join(f"problem: {problem}" for problem in problems))
        raise typer.Exit(1)
    print("no problems found")


def _sections(problems: list[str], online: bool) -> Iterator[tuple[str, list[str]]]:
    yield "versions", _versions(problems)
    yield "device", _device(problems)
    yield "disk", _disk()
    yield "measured speed", _speed()
    if online:
        yield "network", _network(problems)


def _versions(problems: list[str]) -> list[str]:
    """One line per package that specbench requires: version, supported range, verdict."""
    from importlib import metadata

    from specbench.records.provenance import platform_facts, specbench_version

    facts = platform_facts()
    lines = [
        _pair("specbench", specbench_version()),
        _pair("python", facts["python"]),
        _pair("system", facts["system"]),
    ]
    try:
        requirements = requirements_of("specbench")
    except metadata.PackageNotFoundError:
        return [*lines, "specbench is not installed here, so the supported ranges are unknown"]
    for requirement in requirements:
        lines.append(_package_line(requirement, problems))
    return lines


def requirements_of(package: str) -> list[Requirement]:
    """What an installed package requires without its extras, sorted by name.

    Raises:
        importlib.metadata.PackageNotFoundError: it is not installed.
    """
    from importlib import metadata

    from packaging.requirements import Requirement

    found = [Requirement(text) for text in metadata.requires(package) or []]
    needed = [
        requirement
        for requirement in found
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    ]
    return sorted(needed, key=lambda requirement: requirement.name)


def _package_line(requirement: Requirement, problems: list[str]) -> str:
    from specbench.records.provenance import package_versions

    version = package_versions((requirement.name,))[requirement.name]
    if version is None:
        problems.append(f"{requirement.name} is not installed: pip install '{requirement}'")
        return _pair(requirement.name, f"missing, needs {requirement.specifier}")
    if not requirement.specifier.contains(version, prereleases=True):
        problems.append(
            f"{requirement.name} {version} is outside the supported range: "
            f"pip install '{requirement}'"
        )
        return _pair(requirement.name, f"{version}, needs {requirement.specifier}")
    return _pair(requirement.name, f"{version:<16} ({requirement.specifier})")


def _device(problems: list[str]) -> list[str]:
    try:
        import torch
    except ImportError as error:
        problems.append(f"torch cannot be imported: {error}")
        return [_pair("torch", f"cannot be imported: {error}")]
    from specbench.measure import device as devices
    from specbench.measure import nvml
    from specbench.measure.memory import capacity_bytes

    name = devices.resolve("auto")
    facts = devices.describe(name)
    cache = facts["last_level_cache_bytes"]
    lines = [
        _pair("used by default", name),
        _pair("cpu", f"{facts['cpu']}"),
        _pair("cores", f"{facts['usable_cores']} usable of {facts['cores']}"),
        _pair("torch threads", str(facts["threads"])),
        _pair("last-level cache", gibibytes(cache) if cache else "unknown"),
        _pair("memory", gibibytes(capacity_bytes("cpu"))),
        _pair("torch build", f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU only"),
        _pair("vector units", torch.backends.cpu.get_cpu_capability()),
    ]
    reading = nvml.read(uuid=nvml.uuid_of(name))
    if reading.unavailable is not None:
        return [*lines, _pair("gpu", f"not seen ({reading.unavailable})")]
    return lines + _gpu(reading)


def _gpu(reading: Reading) -> list[str]:
    """Every field of the driver's answer; a missing one with its reason."""
    from dataclasses import fields

    lines = []
    for field in fields(reading):
        if field.name in {"unavailable", "reasons", "foreign_processes"}:
            continue
        value = getattr(reading, field.name)
        label, _, unit = re.sub(r"_(bytes|mhz|w|j|utilization)$", r" \1", field.name).partition(" ")
        if value is None:
            shown = f"unknown ({reading.reasons.get(field.name, 'no reason given')})"
        elif unit == "bytes":
            shown = gibibytes(value)
        elif unit == "utilization":
            label, shown = f"{label} in use", f"{value:.0%} of the time"
        else:
            shown = f"{value} {_UNITS.get(unit, '')}".rstrip()
        lines.append(_pair(label.replace("_", " "), shown))
    others = reading.foreign_processes
    if others is None:
        shown = f"unknown ({reading.reasons.get('foreign_processes', 'no reason given')})"
    else:
        shown = ", ".join(str(process["pid"]) for process in others) or "none"
    return [*lines, _pair("other processes", shown)]


def _disk() -> list[str]:
    from specbench.weights.embedded import cache_dir

    return [
        _pair("results", _free(Path("results").absolute())),
        _pair("cache", _free(cache_dir())),
    ]


def _free(folder: Path) -> str:
    """Free bytes of the disk that holds a folder or, until it exists, its nearest parent."""
    import shutil

    existing = next(parent for parent in (folder, *folder.parents) if parent.exists())
    return f"{gibibytes(shutil.disk_usage(existing).free)} free in {folder}"


def _speed() -> list[str]:
    import torch

    from specbench.measure.bandwidth import copy_bandwidth, matmul_rate
    from specbench.measure.device import resolve, set_threads

    set_threads(None)
    name = resolve("auto")
    lines = [_pair("memory copy", f"{copy_bandwidth(name) / 1e9:.1f} GB/s, read + write")]
    for dtype in (torch.float32, torch.bfloat16):
        label = str(dtype).removeprefix("torch.")
        rate = matmul_rate(name, dtype, budget_s=0.5)
        lines.append(_pair(f"matmul {label}", f"{rate / 1e9:,.1f} GFLOP/s"))
    return lines


def _network(problems: list[str]) -> list[str]:
    lines = []
    for label, reach in (("model hub", _reach_hub), ("package index", _reach_index)):
        reason = reach()
        lines.append(_pair(label, "reachable" if reason is None else f"not reachable: {reason}"))
        if reason is not None:
            problems.append(f"the {label} is not reachable; what is cached can still be used")
    return lines


def _reach_hub() -> str | None:
    """Ask the hub for the embedded default; the reason if it does not answer."""
    from huggingface_hub import HfApi

    from specbench.weights.source import DEFAULT_NAME

    try:
        HfApi().model_info(DEFAULT_NAME, timeout=_HUB_TIMEOUT_S)
    except Exception as error:  # transport errors have other classes in each version of the client
        return _first_line(error)
    return None


def _reach_index() -> str | None:
    """Ask for the embedded default's package as a first run would; the reason if it fails."""
    import subprocess
    import sys

    from specbench.weights.download import installers, reason_of
    from specbench.weights.embedded import REQUIREMENT

    found = installers()
    if not found:
        return "neither pip nor uv was found"
    asks = {
        "pip": ("index", "versions", REQUIREMENT.partition("==")[0]),
        "uv": ("pip", "install", "--dry-run", "--no-deps", "--python", sys.executable, REQUIREMENT),
    }
    command = [*found[0].command, *asks[found[0].kind]]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=_INDEX_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return _first_line(error)
    return None if result.returncode == 0 else reason_of(result.stderr)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().partition("\n")[0] or type(error).__name__)[:160]


def gibibytes(count: int) -> str:
    """Bytes for a person: ``3.2 GiB``, ``32 MiB`` below one gibibyte."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def _pair(label: str, value: str) -> str:
    return f"{label:<{_LABEL_WIDTH}} {value}"
