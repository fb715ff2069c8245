"""Evidence in words, the same on the command line and in the report.

>>> print(figures(Evidence("ngram (code)", "α", (Side("T = 0", 0.7, (0.6, 0.8)),))))
ngram (code): α: T = 0 0.70 (0.60–0.80)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from specbench.analysis.claims.evidence import Evidence, Side
from specbench.theory.differences import Ends

SAYS: Mapping[bool | None, str] = {True: "for", False: "against", None: "open"}
"""What a comparison says of its claim, by ``Evidence.supports``."""

EXPLAINED = (
    "(low–high): 95% intervals; those of differences and ratios are widened for all comparisons of "
    "the claim together, and decide it where they leave out 0, or 1."
)


def figures(evidence: Evidence) -> str:
    """One comparison: where, of what, both sides, and their difference or ratio."""
    told = [*evidence.sides, *([evidence.compared] if evidence.compared else [])]
    return f"{evidence.where}: {evidence.quantity}: {'; '.join(map(_side, told))}"


def most_telling(evidence: Sequence[Evidence], most: int) -> list[Evidence]:
    """The clearest of each kind, for, against and open, then the next ones, in their order."""
    first: dict[bool | None, int] = {}
    for place, found in enumerate(evidence):
        first.setdefault(found.supports, place)
    places = [*first.values(), *range(len(evidence))]
    return [evidence[place] for place in list(dict.fromkeys(places))[:most]]


def _side(side: Side) -> str:
    if side.interval is None and side.value.is_integer():
        return f"{side.label} {side.value:.0f}".strip()  # a count
    value = f"{side.label} {_number(side.value)}".strip()
    return value if side.interval is None else f"{value} ({_span(side.interval)})"


def _span(ends: Ends) -> str:
    """``0.12–0.30``; with a sign in it ``-0.12 to 0.30``."""
    dash = " to " if min(ends) < 0.0 else "–"
    return dash.join(map(_number, ends))


def _number(value: float) -> str:
    """Two decimals, three of what is small, no digits that say nothing of what is huge."""
    if abs(value) >= 1e4:
        return f"{value:.3g}"
    return f"{value:.2f}" if abs(value) >= 0.0995 or value == 0.0 else f"{value:.3f}"
