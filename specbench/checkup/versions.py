"""Versions: of specbench, of Python, of every package that specbench requires."""

from __future__ import annotations

import platform
import tomllib
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from specbench.checkup.finding import Facts, Finding, check, fail, ok, warn
from specbench.records.provenance import git_state, package_versions, specbench_version

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from specbench.checkup.machine import Machine

_OWN_LINE = ("torch", "transformers")

_NEEDED_FOR = {
    "datasets": "prompts from the model hub",
    "gguf": "GGUF files and the embedded model",
    "nvidia-ml-py": "what the GPU's driver tells",
}
"""Packages that are imported when they are needed, and what a run without them lacks."""

_CHECKOUT = Path(__file__).parents[2] / "pyproject.toml"


@check("versions", "specbench")
def own_version(machine: Machine) -> Finding:
    git = git_state()
    if git is None:
        return ok(specbench_version())
    changed = ", changed since" if git["dirty"] else ""
    text = f"{specbench_version()}; commit {git['commit'][:7]}{changed}"
    return ok(text, commit=git["commit"], dirty=git["dirty"])


@check("versions", "python")
def python_version(machine: Machine) -> Finding:
    from packaging.specifiers import SpecifierSet

    version, needed = platform.python_version(), _required_python()
    if not SpecifierSet(needed).contains(version, prereleases=True):
        return fail(f"{version}, needs {needed}", "Install specbench with a Python of that range")
    return ok(f"{version} ({needed}) on {platform.platform()}")


@check("versions", "packages")
def packages(machine: Machine) -> list[Finding]:
    """A line for torch and transformers and each that is wrong; the others share one."""
    found: list[Finding] = []
    others: dict[str, str] = {}
    for requirement in _requirements():
        finding = _package(requirement)
        if finding.verdict == "ok" and requirement.name not in _OWN_LINE:
            others[requirement.name] = finding.facts["version"]
        else:
            found.append(finding)
    if others:
        named = ", ".join(f"{name} {version}" for name, version in others.items())
        found.append(ok(named, name="other packages", versions=others))
    return found


def _package(requirement: Requirement) -> Finding:
    name = requirement.name
    version = package_versions((name,))[name]
    facts: Facts = {"version": version, "supported": str(requirement.specifier)}
    install = f"pip install '{requirement}'"
    if version is None and name in _NEEDED_FOR:
        lacking = f"is not installed; only {_NEEDED_FOR[name]} need it"
        return warn(lacking, install, name=name, **facts)
    if version is None:
        return fail("is not installed", install, name=name, **facts)
    if not requirement.specifier.contains(version, prereleases=True):
        return fail(
            f"{version} is outside the supported range {requirement.specifier}",
            install,
            name=name,
            **facts,
        )
    return ok(f"{version} ({requirement.specifier})", name=name, **facts)


def requirements_of(lines: list[str]) -> list[Requirement]:
    """What is required here without extras, sorted by name.

    Args:
        lines: requirements with their markers, as a package's metadata has them.
    """
    from packaging.requirements import Requirement

    needed = [
        requirement
        for requirement in map(Requirement, lines)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
    ]
    return sorted(needed, key=lambda requirement: requirement.name)


def _requirements() -> list[Requirement]:
    """Of the installed package; of a checkout that is not installed, its own project file."""
    try:
        return requirements_of(metadata.requires("specbench") or [])
    except metadata.PackageNotFoundError:
        return requirements_of(_project()["dependencies"])


def _required_python() -> str:
    try:
        return metadata.metadata("specbench")["Requires-Python"]
    except metadata.PackageNotFoundError:
        return str(_project()["requires-python"])


def _project() -> dict[str, list[str]]:
    with _CHECKOUT.open("rb") as stream:
        project: dict[str, list[str]] = tomllib.load(stream)["project"]
    return project
