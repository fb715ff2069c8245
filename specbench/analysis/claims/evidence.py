"""What a claim rests on, and how comparisons become one of four verdicts.

A comparison speaks for a claim if the interval of its margin lies above 0, against it if below, and
says nothing if 0 is inside. All comparisons of one claim are looked at together, so their intervals
are widened (Bonferroni): else of many pairs that do not differ at all a few would be taken for
counterexamples. A figure speaks for a range if its whole interval is inside, against it if all is
outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from specbench.theory.clusters import Numbers
from specbench.theory.differences import Ends, Term, correlation, simultaneous, weighted_sum
from specbench.theory.intervals import ratio_interval

if TYPE_CHECKING:
    from specbench.analysis.claims.view import View

Verdict = Literal["held", "not held", "not decided", "not measured"]

Sums = Mapping[str, Numbers]
"""conversation -> the two sums [2] whose ratio is a share."""

_RATIO = "ratio"  # label of what compares sides whose margin is a log
_FAR = 300.0  # of a log: two conversations and many comparisons tell nothing, but a number still


@dataclass(frozen=True)
class Side:
    """One figure: what it is of, its value, and its 95% interval where there is one."""

    label: str
    value: float
    interval: Ends | None = None


@dataclass(frozen=True)
class Evidence:
    """One comparison, or one figure held against a range.

    Attributes:
        where: the cells, e.g. "ngram (code, batch 1)".
        quantity: what the sides are figures of.
        sides: the figures.
        margin: by how much it speaks for the claim, negative if against, a log where sides are
            compared by their ratio; None where the claim is not about a difference.
        margin_ci: its 95% interval; None where there is too little for one.
        supports: True for, False against, None if it leaves the claim open.
        compared: the sides' difference or ratio, as a reader is told it; once decided, with the
            interval that decides, widened for all comparisons of the claim together.
        clusters: that the interval of the margin rests on; None where that is not known.
    """

    where: str
    quantity: str
    sides: tuple[Side, ...]
    margin: float | None = None
    margin_ci: Ends | None = None
    supports: bool | None = None
    compared: Side | None = None
    clusters: int | None = None


@dataclass(frozen=True)
class Answer:
    """The verdict on one claim, the most telling evidence first, and the reason in words.

    For "not measured" the reason names what is lacking and how to measure it.
    """

    verdict: Verdict
    evidence: tuple[Evidence, ...]
    reason: str


@dataclass(frozen=True)
class Claim:
    """What the literature says, and the function that holds it against a run."""

    name: str
    wording: str
    source: str
    check: Callable[[View], Answer]


def claim(name: str, wording: str, source: str) -> Callable[[Callable[[View], Answer]], Claim]:
    """Declare the decorated function as the check of a claim."""
    return lambda check: Claim(name, wording, source, check)


def every(evidence: Sequence[Evidence], lacking: str) -> Answer:
    """A claim about all cases, by comparisons: a clear one is needed, a counterexample is against.

    Args:
        evidence: its comparisons.
        lacking: what is missing where there are none.
    """
    settled = _settled(evidence)
    yes, no, _ = _counts(settled)
    return _answer("not held" if no else "held" if yes else "not decided", settled, lacking)


def some(evidence: Sequence[Evidence], lacking: str) -> Answer:
    """A claim that something can happen: one clear case is enough, and all must be against it."""
    settled = _settled(evidence)
    yes, _, open_ = _counts(settled)
    return _answer("held" if yes else "not decided" if open_ else "not held", settled, lacking)


def each(evidence: Sequence[Evidence], lacking: str) -> Answer:
    """A claim about single figures: all of them must be clearly as it says."""
    _, no, open_ = _counts(evidence)
    return _answer("not held" if no else "not decided" if open_ else "held", evidence, lacking)


def both(parts: Mapping[str, Answer]) -> Answer:
    """A claim of several parts: held if all are, not held if one is not; what decides it first."""
    ranked = sorted(parts.items(), key=lambda part: _FROM_WORST.index(part[1].verdict))
    verdict = ranked[0][1].verdict
    evidence = tuple(found for _, part in ranked for found in part.evidence)
    if verdict == "not measured":
        return Answer(verdict, evidence, ranked[0][1].reason)
    return Answer(verdict, evidence, "; ".join(f"{name}: {part.reason}" for name, part in ranked))


def not_measured(lacking: str) -> Answer:
    """The answer where the run lacks something."""
    return Answer("not measured", (), lacking)


def shares(
    where: str, quantity: str, labels: tuple[str, str], left: Sums, right: Sums, *, paired: bool
) -> Evidence | None:
    """Two shares, left - right; conversations are paired where both sides have the same ones.

    Args:
        left, right: per conversation hits and trials.
        paired: equal names are the same conversation.

    Returns:
        None where a side has no trial.
    """
    columns = [
        np.array([sums[name] for name in sorted(sums)]).reshape(-1, 2) for sums in (left, right)
    ]
    if any(not column[:, 1].sum() for column in columns):
        return None
    values = [float(column[:, 0].sum() / column[:, 1].sum()) for column in columns]
    intervals = [ratio_interval(*column.T) for column in columns]
    ends = [interval.ends if interval else None for interval in intervals]
    sides = tuple(map(Side, labels, values, ends))
    found = Evidence(where, quantity, sides, margin=values[0] - values[1])
    if ends[0] is None or ends[1] is None:
        return found
    together = paired and left.keys() == right.keys()
    shared = correlation(*columns[0].T, *columns[1].T) if together else 0.0
    terms = [Term(1.0, values[0], ends[0]), Term(-1.0, values[1], ends[1])]
    margin, margin_ci = weighted_sum(terms, shared)
    return replace(
        found,
        margin_ci=margin_ci,
        compared=Side("difference", margin, margin_ci),
        clusters=min(interval.clusters for interval in intervals if interval),
    )


def ratios(where: str, quantity: str, left: Side, right: Side, clusters: int | None) -> Evidence:
    """Two positive figures that vary independently, by left / right.

    Args:
        clusters: of the side with fewer; None where they are not known.
    """
    parts = [
        Term.log(weight, side.value, side.interval)
        for weight, side in ((1.0, left), (-1.0, right))
        if side.interval is not None
    ]
    terms = [part for part in parts if part is not None]
    if len(terms) < 2:
        return Evidence(where, quantity, (left, right))
    margin, (low, high) = weighted_sum(terms)
    ends = (math.exp(low), math.exp(high))
    ratio = math.exp(margin)
    return by_ratio(where, quantity, (left, right), ratio, ends, clusters)


def by_ratio(
    where: str,
    quantity: str,
    sides: tuple[Side, Side],
    ratio: float,
    ends: Ends,
    clusters: int | None,
    least: float = 1,
) -> Evidence:
    """Two sides with their ratio and its interval, which speaks for a claim from ``least`` on."""
    margin, low, high = (math.log(value / least) for value in (ratio, *ends))
    compared = Side(_RATIO, ratio, ends)
    return Evidence(
        where, quantity, sides, margin, (low, high), compared=compared, clusters=clusters
    )


def fewest(clusters: Sequence[int | None]) -> int | None:
    """Of the numbers of clusters that are known; None if none is."""
    return min((count for count in clusters if count is not None), default=None)


def within(interval: Ends | None, low: float, high: float) -> bool | None:
    """Whether a figure lies in a range: True or False only if its whole interval says so."""
    if interval is None:
        return None
    if low <= interval[0] and interval[1] <= high:
        return True
    return False if interval[1] < low or interval[0] > high else None


_FROM_WORST: tuple[Verdict, ...] = ("not held", "not measured", "not decided", "held")

_FIRST: dict[Verdict, tuple[bool | None, ...]] = {
    "held": (True, None, False),
    "not held": (False, None, True),
    "not decided": (None, True, False),
}
"""What is told first under a verdict, by what it says."""


def _settled(evidence: Sequence[Evidence]) -> list[Evidence]:
    """Comparisons with a margin, decided all together."""
    count = sum(found.margin_ci is not None for found in evidence)
    return [_decided(found, count) for found in evidence]


def _decided(found: Evidence, comparisons: int) -> Evidence:
    if found.margin is None or found.margin_ci is None:
        return found
    low, high = simultaneous(found.margin, found.margin_ci, comparisons, found.clusters)
    supports = True if low > 0.0 else False if high < 0.0 else None
    compared = found.compared and _widened(found.compared, low - found.margin, high - found.margin)
    return replace(found, supports=supports, compared=compared)


def _widened(compared: Side, below: float, above: float) -> Side:
    """A difference or a ratio with the ends of its margin: so far below it, so far above."""
    value = compared.value
    if compared.label == _RATIO:
        ends = (value * math.exp(below), value * math.exp(min(above, _FAR)))
    else:
        ends = (value + below, value + above)
    return replace(compared, interval=ends)


def _counts(evidence: Sequence[Evidence]) -> tuple[int, int, int]:
    """How many are for the claim, against it, and leave it open."""
    speaks = [found.supports for found in evidence]
    return speaks.count(True), speaks.count(False), speaks.count(None)


def _answer(verdict: Verdict, evidence: Sequence[Evidence], lacking: str) -> Answer:
    if not evidence:
        return not_measured(lacking)
    order = _FIRST[verdict]
    ranked = sorted(evidence, key=lambda found: (order.index(found.supports), -_clarity(found)))
    return Answer(verdict, tuple(ranked), _counted(*_counts(evidence)))


def _clarity(found: Evidence) -> float:
    """The margin in widths of its interval."""
    if found.margin is None or found.margin_ci is None:
        return 0.0
    width = found.margin_ci[1] - found.margin_ci[0]
    return abs(found.margin) / width if width > 0.0 else float("inf")


def _counted(yes: int, no: int, open_: int) -> str:
    parts = [(yes, "for it"), (no, "against it"), (open_, "not decided")]
    return ", ".join(f"{count} {text}" for count, text in parts if count)
