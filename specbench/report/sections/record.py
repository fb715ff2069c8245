"""Where the numbers come from: command, machine, models, texts, versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specbench.analysis.shown.formats import MISSING
from specbench.report.material import Material
from specbench.report.parts import Commands, Facts, Folded, Part, Rows, Table

TITLE, ORDER = "Hardware and versions", 110
FIGURES: tuple[str, ...] = ()

_GIGA = 1e9


def section(material: Material) -> Sequence[Part]:
    """The manifest, the main facts first and everything else folded."""
    manifest = material.run.manifest
    parts: list[Part] = [Commands([manifest.command])] if manifest.command else []
    facts = [(name, text) for name, text in _facts(material) if text]
    parts.append(Facts(facts))
    if manifest.tasks:
        parts.append(_tasks(manifest.tasks))
    folded = {
        "Packages": {
            name: version or "not installed" for name, version in manifest.packages.items()
        },
        "Device": manifest.device,
        "Target": manifest.target,
        "Drafters": manifest.drafters,
        "Configuration": manifest.config,
    }
    for summary, values in folded.items():
        if values:
            missing = "not given" if summary == "Configuration" else "not known"
            parts.append(Folded(summary, [Facts(list(_flat(values, missing)))]))
    return parts


def _facts(material: Material) -> Iterator[tuple[str, str]]:
    manifest = material.run.manifest
    device, target = manifest.device, manifest.target
    yield "Machine", ", ".join(_machine(material))
    yield "Peak bandwidth", _rate(manifest.bandwidth_bytes_per_s, "GB/s of a copy, measured")
    yield "Peak bandwidth of reading", _rate(manifest.read_bandwidth_bytes_per_s, "GB/s, measured")
    yield "Matmul rate", _rate(manifest.matmul_flops_per_s, "GFLOP/s, measured")
    yield (
        "Target",
        _listed(
            material.target,
            target.get("dtype"),
            target.get("attention") and f"{target['attention']} attention",
            target.get("parameters") and f"{target['parameters']:,} parameters",
        ),
    )
    yield "From", str(target.get("served_from") or "")
    yield "Weights' sha256", str(target.get("sha256") or "")
    yield "Seed", str(manifest.seed)
    yield "Begun", manifest.created or ""
    yield "Ended", manifest.finished or "not ended"
    yield "specbench", _listed(manifest.packages.get("specbench"), _commit(manifest.git))
    versions = [
        f"{name} {manifest.packages[name]}" for name in _MAIN if manifest.packages.get(name)
    ]
    yield "With", ", ".join(versions)
    yield "Threads", str(device.get("threads") or "")


_MAIN = ("torch", "transformers")


def _machine(material: Material) -> Iterator[str]:
    device = material.run.manifest.device
    if material.machine:
        yield material.machine
    gpu = device.get("gpu") or {}
    memory = gpu.get("memory_bytes") or device.get("memory_bytes")
    if not gpu and device.get("usable_cores"):
        yield f"{device['usable_cores']} cores"
    if memory:
        yield f"{memory / _GIGA:.0f} GB of memory"
    driver = (gpu.get("nvml") or {}).get("driver_version")
    if driver:
        yield f"driver {driver}"


def _commit(git: Mapping[str, Any] | None) -> str:
    if not git or not git.get("commit"):
        return ""
    return f"commit {git['commit'][:12]}{' with changes' if git.get('dirty') else ''}"


def _rate(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value / _GIGA:.1f} {unit}"


def _listed(*texts: Any) -> str:
    return ", ".join(str(text) for text in texts if text)


def _tasks(tasks: Sequence[Mapping[str, Any]]) -> Table:
    names = ("name", "version", "source", "licence", "num_prompts")
    rows = [
        [MISSING if task.get(name) is None else str(task[name]) for name in names] for task in tasks
    ]
    columns = ("task", "version", "source", "licence", "prompts")
    return Table("Texts", columns, [Rows(rows)], frozenset({"source", "licence"}))


_NULL_MEANS = {"quantization.group": "a row"}
"""What null says where it is an answer: how many weights share a scale."""


def _flat(values: Mapping[str, Any], missing: str, above: str = "") -> Iterator[tuple[str, str]]:
    """Nested values as one list; what is null is said."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, missing, f"{above}{name}.")
        else:
            listed = ", ".join(map(str, value)) if isinstance(value, list) else value
            path = f"{above}{name}"
            unsaid = _NULL_MEANS.get(path, missing)
            yield path, unsaid if value is None else str(listed)
