"""How the text of a drafter or a backend is cut into pieces: ``kind[:argument][,key=value]...``.

>>> split_spec("model:ORG/NAME,tree=8,topk=2")
('model:ORG/NAME', [('tree', '8'), ('topk', '2')])
>>> split_spec("synthetic:0.8,cost=ngram,max=2")
('synthetic:0.8', [('cost', 'ngram,max=2')])

``cost=`` takes the rest of the text, because its value is itself a drafter.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

from specbench.errors import SpecbenchError

_OPTION = re.compile(r",(?=[a-z_]+=)")

DraftForm = Literal["chain", "tree", "adaptive"]
"""What a draft of gamma is: so many tokens, a tree of so many levels, or a chain of at most so
many tokens that ends where the next one would not pay."""


@dataclass(frozen=True)
class Spec:
    """A parsed text; ``text`` is what the user wrote and what records carry."""

    of_a: ClassVar[str]
    """What messages call it: drafter, backend."""

    kind: str
    argument: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    text: str = ""

    def forbid_argument(self) -> None:
        """Raises SpecbenchError if an argument was given."""
        if self.argument is not None:
            raise SpecbenchError(
                f"{self.of_a} {self.kind!r} takes no argument, got {self.argument!r}"
            )

    def allow_options(self, known: Iterable[str]) -> None:
        """Raises SpecbenchError at the first option that is not in ``known``."""
        known = sorted(known)
        for key in self.options:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                hint = f"Did you mean {close[0]!r}? " if close else ""
                options = ", ".join(known) or "none"
                raise SpecbenchError(
                    f"{self.of_a} {self.kind!r} has no option {key!r}", f"{hint}Options: {options}"
                )


def split_spec(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Kind with argument, and the options in the order in which they are written."""
    own, separator, cost = text.strip().partition(",cost=")
    head, *parts = _OPTION.split(own)
    cut = (part.partition("=") for part in parts)
    options = [(key, value) for key, _, value in cut]
    return head, [*options, ("cost", cost)] if separator else options


class Pieces(NamedTuple):
    """A SPEC in pieces, as far as its text tells; the argument is empty where none is written."""

    kind: str
    argument: str
    options: dict[str, str]

    @property
    def is_tree(self) -> bool:
        """Whether it drafts trees."""
        return self.options.get("tree", "chain") != "chain"

    @property
    def is_adaptive(self) -> bool:
        """Whether drafts end where the next token would not pay."""
        return self.options.get("gamma") == "auto"


def pieces(text: str) -> Pieces:
    """A SPEC in pieces.

    >>> pieces("eagle:PATH,tree=24")
    Pieces(kind='eagle', argument='PATH', options={'tree': '24'})
    """
    head, options = split_spec(text)
    kind, _, argument = head.partition(":")
    return Pieces(kind, argument, dict(options))


def kind_of(text: str) -> str:
    """The kind of a SPEC.

    >>> kind_of("model:ORG/NAME,tree=8"), kind_of("ngram,max=3")
    ('model', 'ngram')
    """
    return text.strip().partition(",")[0].partition(":")[0]


def draft_form(text: str) -> DraftForm:
    """What gamma means for the drafter of a SPEC.

    >>> draft_form("eagle:PATH,tree=24"), draft_form("eagle:PATH,gamma=auto"), draft_form("ngram")
    ('tree', 'adaptive', 'chain')
    """
    spec = pieces(text)
    return "tree" if spec.is_tree else "adaptive" if spec.is_adaptive else "chain"


def quantised_name(name: str, method: str | None) -> str:
    """What a model is called whose weights were quantised while it was loaded.

    >>> quantised_name("ORG/NAME", "int8"), quantised_name("ORG/NAME", None)
    ('ORG/NAME, int8', 'ORG/NAME')
    """
    return name if method is None else f"{name}, {method}"


def is_synthetic(text: str) -> bool:
    """Whether a drafter's acceptance is set by whoever writes the SPEC, not measured."""
    return kind_of(text) == "synthetic"


def set_alpha(text: str) -> float:
    """The acceptance that a synthetic drafter's SPEC sets.

    >>> set_alpha("synthetic:0.8,cost=ngram")
    0.8
    """
    return float(pieces(text).argument)
