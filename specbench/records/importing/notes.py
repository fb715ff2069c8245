"""What was taken for granted of files, told once however many files it is true of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_NAMED = 3  # files that are named, the others counted


class Note(NamedTuple):
    """A remark on one file."""

    file: str
    text: str


def told(notes: Iterable[Note]) -> list[str]:
    """One sentence per remark, in the order in which they came up.

    >>> told([Note(f"{n}.json", "taken as plain decoding") for n in range(5)])
    ['0.json, 1.json, 2.json and 2 more: taken as plain decoding']
    """
    files: dict[str, dict[str, None]] = {}
    for note in notes:
        files.setdefault(note.text, {})[note.file] = None
    return [f"{_some(list(names))}: {text}" for text, names in files.items()]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
