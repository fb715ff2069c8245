"""A backend as the user writes it: ``kind[:argument][,key=value]...``; some have an option that
is a word alone, ``kind,word``.

>>> parse_backend("openai:http://127.0.0.1:8000,timeout=60").argument
'http://127.0.0.1:8000'
"""

from __future__ import annotations

from dataclasses import dataclass

from specbench import registry
from specbench.errors import SpecbenchError
from specbench.records.spec_text import Spec, split_spec


@dataclass(frozen=True)
class BackendSpec(Spec):
    """A parsed backend. The value of an option that is a word alone is empty."""

    of_a = "backend"

    def forbid_argument(self) -> None:
        """Raises SpecbenchError if there is an argument or an option."""
        if self.text != self.kind:
            raise SpecbenchError(f"backend {self.text!r}: nothing may follow", f"Write {self.kind}")


@dataclass(frozen=True)
class Facts:
    """What a sweep has to know of a kind of backend before one is made: ``FACTS`` in its file.

    Attributes:
        loads_weights: it is specbench that loads the target's weights, so it can quantise them, and
            make some for a shape.
        runs_already: it is a server that drafts with whatever it was started with.
        shares_prefixes: it can read once what prompts begin with.
        reads: fields of a sweep that say nothing to most engines.
    """

    loads_weights: bool = False
    runs_already: bool = False
    shares_prefixes: bool = False
    reads: tuple[str, ...] = ()


def facts_of(text: str) -> Facts:
    """Those of the backend that a user typed; nothing is imported.

    >>> facts_of("vllm,start=60").reads
    ('engine_python', 'engine_args', 'goodput')

    Raises:
        SpecbenchError: as :func:`parse_backend`.
    """
    return Facts(**registry.facts("backends", parse_backend(text).kind))


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
