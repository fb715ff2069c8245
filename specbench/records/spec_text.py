"""How the text of a drafter is cut into pieces: ``kind[:argument][,key=value]...``.

>>> split_spec("model:ORG/NAME,tree=8,topk=2")
('model:ORG/NAME', [('tree', '8'), ('topk', '2')])
>>> split_spec("synthetic:0.8,cost=ngram,max=2")
('synthetic:0.8', [('cost', 'ngram,max=2')])

``cost=`` takes the rest of the text, because its value is itself a drafter.
"""

from __future__ import annotations

import re

_OPTION = re.compile(r",(?=[a-z_]+=)")


def split_spec(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Kind with argument, and the options in the order in which they are written."""
    own, separator, cost = text.strip().partition(",cost=")
    head, *parts = _OPTION.split(own)
    cut = (part.partition("=") for part in parts)
    options = [(key, value) for key, _, value in cut]
    return head, [*options, ("cost", cost)] if separator else options
