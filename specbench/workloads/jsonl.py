"""Reads JSON Lines, and says file and line of whatever is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError


@dataclass(frozen=True)
class Row:
    """One JSON object and where it stands, as ``FILE:LINE``."""

    line: int
    where: str
    fields: dict[str, Any]


def read_bytes(path: Path) -> bytes:
    """The file's content.

    Raises:
        SpecbenchError: it does not exist, is a folder, or cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise SpecbenchError(
            f"prompt file {str(path)!r} not found", "Check the path; `specbench tasks` lists tasks"
        ) from None
    except IsADirectoryError:
        raise SpecbenchError(
            f"{str(path)!r} is a folder, not a prompt file", "Name one JSONL file in it"
        ) from None
    except OSError as error:
        raise SpecbenchError(
            f"cannot read {str(path)!r}: {error.strerror or error}", "Check its permissions"
        ) from None


def parse_rows(content: bytes, path: Path) -> Iterator[Row]:
    """The rows of a JSONL file; blank lines are skipped, a byte order mark is accepted.

    Raises:
        SpecbenchError: not UTF-8, a line that is no JSON object, or no row at all.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecbenchError(
            f"{path}:{line} is not UTF-8 (byte 0x{content[error.start]:02x})",
            "Save the file as UTF-8",
        ) from None
    empty = True
    # Not splitlines(): a raw U+2028 is legal inside a JSON string.
    for number, line_text in enumerate(text.split("\n"), start=1):
        if not line_text.strip():
            continue
        empty = False
        yield Row(number, f"{path}:{number}", _parse_line(line_text, f"{path}:{number}"))
    if empty:
        raise SpecbenchError(
            f"prompt file {str(path)!r} is empty", 'Write one {"prompt": "..."} object per line'
        )


def _parse_line(text: str, where: str) -> dict[str, Any]:
    hint = 'Each line must be one JSON object, e.g. {"prompt": "..."}'
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        reason = getattr(error, "msg", "nested too deeply")
        column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise SpecbenchError(f"{where} is malformed JSON: {reason}{column}", hint) from None
    if not isinstance(value, dict):
        raise SpecbenchError(f"{where} is a JSON {_json_type(value)}, not an object", hint)
    return value


def _json_type(value: object) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")
