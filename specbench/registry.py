"""Finds drafters, backends, figures, tasks and sections of the report, without importing them.

A file is a plug-in: ``drafters/early_exit.py`` is the drafter ``early-exit``, ``tasks/chat.toml``
is the task ``chat``, ``_shapes/NAME.toml`` the architecture ``shape:NAME``. Listing reads the
folder, describing reads the first line of the docstring from the source, what has to be known
before a sweep is planned is the literal ``FACTS`` there, and only :func:`load` imports, so that
``specbench drafters`` never starts torch.

>>> "ngram" in names("drafters")
True
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from specbench.errors import SpecbenchError

Kind = Literal["drafters", "backends", "plots", "tasks", "sections", "shapes"]

_PACKAGE = Path(__file__).parent
_NOT_A_PLUGIN = {"base", "spec"}


def tasks_dir() -> Path:
    """The folder of task files: inside an installed wheel, or beside the package in a checkout."""
    installed = _PACKAGE / "_tasks"
    return installed if installed.is_dir() else _PACKAGE.parent / "tasks"


def names(kind: Kind) -> list[str]:
    """The names of all plug-ins of a kind, sorted."""
    return sorted(_files(kind))


def path(kind: Kind, name: str) -> Path:
    """The file behind a name.

    Raises:
        SpecbenchError: no such plug-in; the message suggests close names and lists all.
    """
    files = _files(kind)
    if name in files:
        return files[name]
    close = difflib.get_close_matches(name, files, n=1, cutoff=0.7)
    suggestion = f"Did you mean {close[0]!r}? " if close else ""
    known = ", ".join(sorted(files)) or "none"
    raise SpecbenchError(f"unknown {_SINGULAR[kind]} {name!r}", f"{suggestion}Known: {known}")


def load(kind: Kind, name: str) -> ModuleType:
    """Import the module behind the name of anything but a task or a shape."""
    package = ".".join(("specbench", *_FOLDERS.get(kind, (kind,))))
    return importlib.import_module(f"{package}.{path(kind, name).stem}")


def describe(kind: Kind, name: str) -> str:
    """The first line of its docstring, a task's description or a shape's source; no import."""
    file = path(kind, name)
    if kind in _TOML:
        with file.open("rb") as stream:
            return str(tomllib.load(stream).get(_TOML[kind], ""))
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


@functools.cache
def facts(kind: Kind, name: str) -> Mapping[str, Any]:
    """What a plug-in's module says of itself as ``FACTS = {...}``; no import.

    Returns:
        the literal, empty where there is none.

    Raises:
        SpecbenchError: no such plug-in.
    """
    for line in ast.parse(path(kind, name).read_text(encoding="utf-8")).body:
        match line:
            case ast.Assign(targets=[ast.Name(id="FACTS")], value=value):
                return dict(ast.literal_eval(value))
    return {}


_SINGULAR: dict[str, str] = {
    "drafters": "drafter",
    "backends": "backend",
    "plots": "figure",
    "tasks": "task",
    "sections": "section of the report",
    "shapes": "shape",
}

_TOML: dict[str, str] = {"tasks": "description", "shapes": "source"}
"""Kinds that are TOML files, and the key that describes one."""

_FOLDERS: dict[str, tuple[str, ...]] = {"sections": ("report", "sections")}
"""Where a kind lies in the package, if not in a folder of its own name."""


def _files(kind: Kind) -> dict[str, Path]:
    if kind in _TOML:
        folder = tasks_dir() if kind == "tasks" else _PACKAGE / "_shapes"
        return {file.stem: file for file in folder.glob("*.toml")}
    return {
        file.stem.replace("_", "-"): file
        for file in _PACKAGE.joinpath(*_FOLDERS.get(kind, (kind,))).glob("*.py")
        if file.stem not in _NOT_A_PLUGIN and not file.stem.startswith("_")
    }
