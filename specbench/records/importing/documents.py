"""JSON and JSONL files as lists of objects, and their fields as checked numbers.

A file is one object, a list of objects, or one object per line. What is missing, null or not finite
is None; what is there and no number is refused by name.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Source:
    """A file: its objects, at least one, and the hash of its bytes."""

    path: Path
    documents: list[Document]
    sha256: str


def load(path: Path) -> Source:
    """Read a file.

    Raises:
        SpecbenchError: it can't be read, is empty, or is not JSON; says where.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SpecbenchError(f"cannot read {path}: {error.strerror}") from error
    text = content.decode(_encoding(content), errors="replace")
    if not text.strip():
        raise SpecbenchError(f"{path} is empty", "The tool that wrote it may have failed")
    try:
        documents = _objects(path, text)
    except RecursionError as error:
        raise SpecbenchError(f"{path} is nested too deeply to be a result", _SHAPE) from error
    for number, document in enumerate(documents, start=1):
        if not isinstance(document, dict):
            raise SpecbenchError(f"{path} object {number} is {json.dumps(document)[:40]}", _SHAPE)
    if not documents:
        raise SpecbenchError(f"{path} is an empty list", "The tool that wrote it may have failed")
    return Source(path, documents, hashlib.sha256(content).hexdigest())


def _encoding(content: bytes) -> str:
    """UTF-8, with a mark before it or not; or what its mark says, as PowerShell writes files."""
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return "utf-16" if is_wide else "utf-8-sig"


_SHAPE = "A file holds one object, a list of objects, or one object per line"


def _objects(path: Path, text: str) -> list[Any]:
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        if len(lines) == 1 or not _is_json(lines[0][1]):
            where = f"line {error.lineno} column {error.colno}"
            raise SpecbenchError(f"{path} is not JSON: {error.msg} at {where}", _CUT) from error
        return [_line(path, number, line) for number, line in lines]
    return whole if isinstance(whole, list) else [whole]


_CUT = "It may be cut short"


def _is_json(line: str) -> bool:
    try:
        json.loads(line)
    except json.JSONDecodeError:
        return False
    return True


def _line(path: Path, number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise SpecbenchError(f"{path} line {number} is not JSON: {error.msg}", _CUT) from error


def number(document: Document, *keys: str) -> float | None:
    """The first of these fields that is there, as a float.

    Raises:
        SpecbenchError: it is no number, or negative.
    """
    for key in keys:
        value = document.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SpecbenchError(f"{key} is {json.dumps(value)[:40]}, not a number", _FIELD)
        if math.isfinite(value):
            if value < 0:
                raise SpecbenchError(f"{key} is {value:g}, below 0", _FIELD)
            return float(value)
    return None


def positive(document: Document, *keys: str) -> float | None:
    """As :func:`number`; 0 means not measured, as of a mean over nothing."""
    return number(document, *keys) or None


def count(document: Document, *keys: str) -> int | None:
    """As :func:`number`, a whole one."""
    value = number(document, *keys)
    if value is not None and value != int(value):
        raise SpecbenchError(f"{keys[0]} is {value:g}, not a whole number", _FIELD)
    return None if value is None else int(value)


def numbers(document: Document, key: str) -> list[float]:
    """A list of numbers, empty where it is missing.

    Raises:
        SpecbenchError: it is no such list.
    """
    values = document.get(key)
    if values is None:
        return []
    if not isinstance(values, list):
        raise SpecbenchError(f"{key} is {json.dumps(values)[:40]}, not a list", _FIELD)
    found = [number({key: value}, key) for value in values]
    if None in found:
        raise SpecbenchError(f"{key} has a value that is no number", _FIELD)
    return [value for value in found if value is not None]


_FIELD = "The file is damaged or of another format"
