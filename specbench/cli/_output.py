"""How the commands that answer print: data to stdout, notes to stderr."""

from __future__ import annotations

import csv
import itertools
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from specbench.analysis.shown.formats import FORM_MARKS as FORM_MARKS
from specbench.analysis.shown.formats import SYNTHETIC_MARK as SYNTHETIC_MARK
from specbench.analysis.shown.formats import SYNTHETIC_NOTE as SYNTHETIC_NOTE
from specbench.analysis.shown.formats import alpha_mark as alpha_mark
from specbench.analysis.shown.formats import form_notes as form_notes
from specbench.analysis.shown.formats import number as number
from specbench.analysis.shown.formats import percent as percent
from specbench.analysis.shown.formats import with_interval as with_interval
from specbench.analysis.shown.names import broken, cut_in_middle, task_title
from specbench.analysis.shown.names import printable as printable
from specbench.errors import SpecbenchError

if TYPE_CHECKING:
    from specbench.registry import Kind

_WIDTH, _WIDEST = 80, 400
_LONGEST, _LONGEST_LABEL = 26, 60  # letters of a name: in a column of its own, over several lines


Item = TypeVar("Item")


class Placed(Protocol):
    """What has a task and an engine."""

    @property
    def task(self) -> str:
        """Its name."""

    @property
    def backend(self) -> str:
        """The engine's name."""


class OutputFormat(StrEnum):
    """The values of ``--format``."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"

    @classmethod
    def of(cls, text: str) -> OutputFormat:
        """The format of that name.

        Raises:
            SpecbenchError: there is none.
        """
        known = [format.value for format in cls]
        if text not in known:
            raise SpecbenchError(f"unknown output format {text!r}", f"Known: {', '.join(known)}")
        return cls(text)


FORMAT_METAVAR = "table|json|csv"


def print_json(document: Mapping[str, Any]) -> None:
    """One JSON document; a value that is not there is null, never NaN."""
    text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False)
    print("\n".join(map(printable, text.split("\n"))))


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """One CSV table with a header; a value that is not there is an empty field.

    Args:
        rows: at least one; all with the keys of the first.
    """
    writer = csv.DictWriter(sys.stdout, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {key: printable(value) if isinstance(value, str) else value for key, value in row.items()}
        for row in rows
    )


def print_notes(notes: Iterable[str]) -> None:
    """Notes about the measurement on stderr: one line each, between words in a terminal."""
    for note in notes:
        text = f"note: {note}"
        print(wrapped(text, "") if sys.stderr.isatty() else printable(text), file=sys.stderr)


def by_task(items: Iterable[Item], place: Callable[[Item], Placed]) -> dict[str, list[Item]]:
    """Items by the title of their table: the task, with the engine where there are several."""
    found = list(items)
    several = len({place(item).backend for item in found}) > 1
    titled: dict[str, list[Item]] = {}
    for item in found:
        here = place(item)
        titled.setdefault(task_title(here.task, here.backend, several), []).append(item)
    return titled


def wrapped(text: str, indent: str = "  ", hanging: str = "    ") -> str:
    """A sentence in lines of 80 columns; options and spans stay whole."""
    return textwrap.fill(
        printable(text),
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=hanging,
        break_on_hyphens=False,
    )


def print_described(kind: Kind) -> None:
    """The names of one kind of plug-in, each with the first line of what its file says of it."""
    from specbench import registry

    names = registry.names(kind)
    width = max(map(len, names)) + 4
    for name in names:
        description = registry.describe(kind, name).replace("`", "")
        print(wrapped(description, f"{name:<{width}}", " " * width))


def few_prompts_note() -> str:
    """What stands under a table whose intervals rest on few prompts."""
    from specbench.records.conversations import FEW_PROMPTS

    return (
        f"few prompts: these intervals rest on fewer than {FEW_PROMPTS} prompts "
        f"(--prompts {FEW_PROMPTS} or more)"
    )


def print_context_note(lengths: Iterable[int | None]) -> None:
    """What B@N means, where prompts were padded to some length."""
    if any(length is not None for length in lengths):
        print("B@N: prompts brought to N tokens with earlier text of their task")


def beside_label(label: str, rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Put a label before the first row; a long one goes on before the following rows.

    Args:
        label: the name of all these rows; cut in its middle if it is very long.
        rows: at least one; all of one length.
        width: characters per line of the label.
    """
    empty = [""] * len(rows[0])
    lines = broken(cut_in_middle(printable(label), _LONGEST_LABEL), width)
    return [
        [name, *(row or empty)] for name, row in itertools.zip_longest(lines, rows, fillvalue="")
    ]


def print_table(
    title: str,
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    texts: int = 1,
    last_is_text: bool = False,
) -> None:
    """A table of text with its title, legible without colour.

    Args:
        headings: one per column.
        rows: with as many fields each.
        texts: so many leading columns are text and aligned left; the others are numbers.
        last_is_text: so is the last one.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="underline")
    for index, heading in enumerate(headings):
        is_text = index < texts or (last_is_text and index == len(headings) - 1)
        justify: Literal["left", "right"] = "left" if is_text else "right"
        table.add_column(printable(heading), justify=justify, no_wrap=True)
    for row in rows:
        fields = [printable(field) for field in row]
        table.add_row(*(cut_in_middle(text, _LONGEST) for text in fields[:texts]), *fields[texts:])
    # Never narrower than the table: rich would shorten numbers to fit.
    console = Console(highlight=False, markup=False, width=_WIDEST)
    console.print(cut_in_middle(printable(title), _WIDTH), style="bold")
    console.print(table)
    console.print()
