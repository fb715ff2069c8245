"""A backend as the user writes it: ``kind[:argument][,key=value]...``; some have an option that
is a word alone, ``kind,word``.

>>> parse_backend("openai:http://127.0.0.1:8000,timeout=60").argument
'http://127.0.0.1:8000'
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from specbench import registry
from specbench.errors import SpecbenchError
from specbench.records.spec_text import split_spec


@dataclass(frozen=True)
class BackendSpec:
    """A parsed backend; ``text`` is what the user wrote and what records carry.

    The value of an option that is a word alone is empty.
    """

    kind: str
    argument: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    text: str = ""

    def forbid_argument(self) -> None:
        """Raises SpecbenchError if there is an argument or an option."""
        if self.text != self.kind:
            raise SpecbenchError(f"backend {self.text!r}: nothing may follow", f"Write {self.kind}")

    def allow_options(self, known: Iterable[str]) -> None:
        """Raises SpecbenchError at the first option that is not in ``known``."""
        for key in self.options:
            if key not in known:
                raise SpecbenchError(
                    f"backend {self.kind!r} has no option {key!r}", f"Options: {', '.join(known)}"
                )


def parse_backend(text: str) -> BackendSpec:
    """Parse a backend and check that its kind exists.

    Raises:
        SpecbenchError: an unknown kind, or an option that is given twice.
    """
    head, pairs = split_spec(text)
    before, colon, argument = head.partition(":")
    kind, *words = before.split(",")
    registry.path("backends", kind)
    pairs = [*((word, "") for word in words), *pairs]
    options = dict(pairs)
    if len(options) < len(pairs):
        raise SpecbenchError(f"backend {kind!r}: an option is given twice", "Write it once")
    return BackendSpec(kind, argument if colon else None, options, text.strip())
