"""When a run may be taken up: same configuration, and what changed on the machine is said."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.records.reading import MANIFEST
from specbench.records.schema import Manifest

FOLDERS = ("requests", "rounds", "diagnostics", "figures")
"""What a run's folder holds beside its two files."""

_DIGITS = 8  # of a file's hash
_MACHINE = ("git", "packages", "device", "target")
_TIMED = ("swapped_linear_rows", "swapped_linear_columns")
"""Facts of a target that are timed anew at every load: they tell of no other target."""

_SHARED = ("device", "target", "drafters", "servers")
"""What the engines of one run tell together: a server leaves out what it does not know."""


def continued(old: Manifest, new: Manifest, folder: Path) -> Manifest:
    """The manifest of a resumed run: the new one, with what belongs to the whole run kept.

    Raises:
        SpecbenchError: the configurations differ; names the keys and both values.
    """
    if old.config_hash != new.config_hash:
        raise SpecbenchError(
            f"{folder} holds a run of another configuration"
            f" ({_differences(old.config, new.config)})",
            "Choose another folder with --out, or run with the same options to resume",
        )
    warnings = [*old.warnings, *(text for text in new.warnings if text not in old.warnings)]
    changed = [name for name in _MACHINE if _differ(old, new, name)]
    if changed:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        warnings.append(f"resumed {now} with another {', '.join(changed)}")
    shared = _SHARED if old.servers or new.servers else ()
    return new.model_copy(
        update={
            **{name: {**getattr(old, name), **getattr(new, name)} for name in shared},
            "created": old.created or new.created,
            "warnings": warnings,
            "bandwidth_bytes_per_s": new.bandwidth_bytes_per_s or old.bandwidth_bytes_per_s,
            "read_bandwidth_bytes_per_s": new.read_bandwidth_bytes_per_s
            or old.read_bandwidth_bytes_per_s,
            "matmul_flops_per_s": new.matmul_flops_per_s or old.matmul_flops_per_s,
            "timing": new.timing or old.timing,
            "captured": new.captured or old.captured,
        }
    )


def refuse_foreign(folder: Path) -> None:
    """Results are not mixed into a folder of other things.

    Raises:
        SpecbenchError: the folder holds files and none of them is a run's manifest.
    """
    if (folder / MANIFEST).exists():
        return
    foreign = sorted(
        entry.name
        for entry in folder.iterdir()
        if entry.name not in FOLDERS and not entry.name.startswith(".")
    )
    if foreign:
        raise SpecbenchError(
            f"{folder} is not empty and holds no run (found {foreign[0]!r})",
            "Choose another folder with --out",
        )


def _lasting(facts: Any) -> Any:
    if not isinstance(facts, dict):
        return facts
    return {name: value for name, value in facts.items() if name not in _TIMED}


def _differ(old: Manifest, new: Manifest, name: str) -> bool:
    """Whether a fact changed; a server leaves out what it does not know."""
    before, now = (_lasting(getattr(manifest, name)) for manifest in (old, new))
    if not old.servers and not new.servers:
        return bool(before != now)
    before, now = before or {}, now or {}
    return any(before[key] != now[key] for key in before.keys() & now.keys())


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The configuration keys that differ, with both values."""
    before, after = _flat(old), _flat(new)
    parts = [
        f"{key}: {_shown(before.get(key))} there, {_shown(after.get(key))} here"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]
    return "; ".join(parts) or "written by another version"


def _shown(value: Any) -> str:
    """A value as it is told; of files their names and the beginning of their hashes."""
    if isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
        return ", ".join(
            f"{one.get('name')} ({str(one.get('sha256'))[:_DIGITS]})"
            if {"name", "sha256"} <= one.keys()
            else repr(one)
            for one in value
        )
    return repr(value)


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = list(value) if isinstance(value, tuple) else value
    return flat
