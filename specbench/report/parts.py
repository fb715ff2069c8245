"""What a section of the report is made of; ``templates/parts.html`` has the HTML of each.

Everything here is plain text, which the template escapes: names, prompts and errors of a run may
hold anything. Only a picture holds markup, and only what :mod:`specbench.report.pictures` made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from markupsafe import Markup

LONG = 24
"""A table of more rows is folded."""

Tone = Literal["plain", "note", "warning", "loud"]
"""How a text is set: as it is, small, as something to know first, or as a reason not to believe."""


class Measured(NamedTuple):
    """A table's field: a value as text, its 95% interval, and a mark before it."""

    value: str
    interval: str = ""
    mark: str = ""


Field = str | Measured


@dataclass(frozen=True)
class Answer:
    """The two sentences that a reader in a hurry needs: what to do; how sure, from what."""

    kind: ClassVar[str] = "answer"
    act: str
    basis: str


@dataclass(frozen=True)
class Paragraph:
    """Sentences."""

    kind: ClassVar[str] = "paragraph"
    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Bullet:
    """One point of a list."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Bullets:
    """A list of points."""

    kind: ClassVar[str] = "bullets"
    items: Sequence[Bullet]


@dataclass(frozen=True)
class Commands:
    """Lines to type."""

    kind: ClassVar[str] = "commands"
    lines: Sequence[str]


@dataclass(frozen=True)
class Facts:
    """Names and what they are."""

    kind: ClassVar[str] = "facts"
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Rows:
    """Rows of a table that belong together; the title stands over them if there is one."""

    rows: Sequence[Sequence[Field]]
    title: str = ""


@dataclass(frozen=True)
class Table:
    """A table in a box of its own, in which it scrolls where the page is narrower.

    Attributes:
        columns: headings.
        groups: rows with as many fields each; the first field names its row.
        texts: columns beside the first one that hold text, aligned left; the others hold numbers.
        notes: what a reader needs to know under it.
    """

    kind: ClassVar[str] = "table"
    caption: str
    columns: Sequence[str]
    groups: Sequence[Rows]
    texts: frozenset[str] = frozenset()
    notes: Sequence[str] = ()

    @property
    def length(self) -> int:
        """Its rows."""
        return sum(len(group.rows) for group in self.groups)

    @property
    def folded(self) -> bool:
        """Whether it opens on request only."""
        return self.length > LONG


@dataclass(frozen=True)
class Picture:
    """A figure.

    Attributes:
        svg: made by this package; everything else is escaped.
        alt: what it shows, for those who can't see it.
        width: in CSS pixels, as drawn.
    """

    kind: ClassVar[str] = "picture"
    name: str
    svg: Markup
    alt: str
    caption: str
    width: int


@dataclass(frozen=True)
class Folded:
    """Parts that open on request."""

    kind: ClassVar[str] = "folded"
    summary: str
    parts: Sequence[Part]


Part = Answer | Paragraph | Bullets | Commands | Facts | Table | Picture | Folded


@dataclass(frozen=True)
class Section:
    """A heading with its parts; ``anchor`` is what links to it name."""

    anchor: str
    title: str
    parts: Sequence[Part]
