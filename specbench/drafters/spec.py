"""A drafter as the user writes it: ``kind[:argument][,key=value]...``

>>> parse_spec("ngram,max=3")
DrafterSpec(kind='ngram', argument=None, options={'max': '3'}, text='ngram,max=3')
>>> parse_spec("model:ORG/NAME").argument
'ORG/NAME'
>>> parse_spec("medusa:shape,heads=3").has_random_weights
True
>>> parse_spec("synthetic:0.8,cost=ngram,max=2").options
{'cost': 'ngram,max=2'}
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from specbench import registry
from specbench.errors import SpecbenchError
from specbench.records.spec_text import Spec, split_spec

SERVER_KINDS = frozenset({"mtp", "suffix"})
"""Drafters that only servers have: heads inside the target, and matches in a suffix tree."""

SHAPE = "shape"
"""The argument of a head with random weights in the target's dimensions."""

QUANTIZATION = "quantization"
"""The option of a draft model whose weights are to be quantised."""

_WHOLE = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class DrafterSpec(Spec):
    """A parsed SPEC."""

    of_a = "drafter"

    @property
    def has_random_weights(self) -> bool:
        """Whether it names a shape instead of weights: ``eagle:shape``, ``model:shape:NAME``."""
        return (self.argument or "").partition(":")[0] == SHAPE

    def need_argument(self, what: str) -> str:
        """The argument, which must be there.

        Raises:
            SpecbenchError: it is missing.
        """
        if not self.argument:
            raise SpecbenchError(f"drafter {self.text!r} needs {what}", f"Write {self.kind}:{what}")
        return self.argument

    def integer(self, key: str, default: int, minimum: int = 1) -> int:
        """An option as a whole number of at least ``minimum``."""
        text = self.options.get(key)
        if text is None:
            return default
        if not _WHOLE.fullmatch(text) or int(text) < minimum:
            raise SpecbenchError(
                f"drafter {self.text!r}: {key}={text} is not a whole number of at least {minimum}",
                f"Write for example {self._with(f'{key}={max(default, minimum)}')}",
            )
        return int(text)

    def number(self, key: str, default: float) -> float:
        """An option as a positive number."""
        text = self.options.get(key)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 < value < math.inf:
            raise SpecbenchError(
                f"drafter {self.text!r}: {key}={text} is not a positive number",
                f"Write for example {self._with(f'{key}=0.1')}",
            )
        return value

    def _with(self, option: str) -> str:
        """The SPEC with this option in the place of the one of its name."""
        key = option.partition("=")[0]
        kept = [f"{name}={value}" for name, value in self.options.items() if name != key]
        head = self.kind if self.argument is None else f"{self.kind}:{self.argument}"
        return ",".join([head, *kept, option])

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        """An option as one of ``choices``, the first being the default."""
        value = self.options.get(key, choices[0])
        if value not in choices:
            raise SpecbenchError(
                f"drafter {self.text!r}: {key}={value} is unknown", f"Choose {' or '.join(choices)}"
            )
        return value


def quantised(text: str, method: str) -> str:
    """The SPEC of a draft model with a method to quantise it, unless it names one; others as is.

    >>> quantised("model:ORG/NAME,tree=8", "int8"), quantised("ngram", "int8")
    ('model:ORG/NAME,tree=8,quantization=int8', 'ngram')
    >>> quantised("synthetic:0.8,cost=model", "int8")
    'synthetic:0.8,cost=model,quantization=int8'
    """
    spec = parse_spec(text)
    of_cost = spec.options.get("cost")
    if of_cost is not None:
        return f"{spec.text.partition(',cost=')[0]},cost={quantised(of_cost, method)}"
    if spec.kind != "model" or QUANTIZATION in spec.options:
        return spec.text
    return f"{spec.text},{QUANTIZATION}={method}"


def parse_spec(text: str) -> DrafterSpec:
    """Parse a SPEC and check that its kind exists.

    Raises:
        SpecbenchError: empty, an unknown kind, an option without a value or given twice.
    """
    head, pairs = split_spec(text)
    kind, colon, argument = head.partition(":")
    if "," in kind:
        raise SpecbenchError(
            f"drafter {text!r}: {head.split(',')[1]!r} is not an option", "Write key=value"
        )
    if kind not in SERVER_KINDS:
        registry.path("drafters", kind)
    options: dict[str, str] = {}
    for key, value in pairs:
        if key in options:
            raise SpecbenchError(f"drafter {text!r}: {key}= is given twice", "Write it once")
        options[key] = value
    return DrafterSpec(kind, argument if colon else None, options, text.strip())
