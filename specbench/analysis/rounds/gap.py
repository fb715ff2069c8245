"""Where the closed form and the measured speedup part: a sum of named terms.

The closed form's assumptions are replaced by what was measured, one after the other, always in this
order. A term is the change that its replacement makes to the log of the speedup, so that all of
them add up to log(measured / closed form):

============  =========================================  =======================================
term          the closed form takes                      replaced by
============  =========================================  =======================================
acceptance    one alpha                                  the acceptance model, where i.i.d. is
                                                         rejected; else nothing, and 0
short_drafts  gamma tokens in every draft                the lengths that were drafted
draft         a draft time of c per token, c pooled      the mean draft time at this gamma
              over gammas                                (a fixed cost d0, another c)
verify        a verifying forward of 1                   its mean time v(gamma + 1)
other         no other time                              the mean remaining time o
cut           all committed tokens are output            what was cut at the end of outputs
rest          nothing                                    what is left: acceptance at this gamma
                                                         against the model, by chance or not; above
                                                         batch size 1 also rows of unequal drafts
============  =========================================  =======================================

Terms of times depend on the order, since times add up and speedups multiply: a cost that is
replaced later weighs less, what came before it being in the denominator already.

>>> gap.terms["verify"], gap.total                                              # doctest: +SKIP
(-0.21, -0.24)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from specbench.analysis.rounds.model import RoundModel
from specbench.theory import closed_form

TERMS: Mapping[str, str] = {
    "acceptance": "α not i.i.d.",
    "short_drafts": "drafts shorter than γ",
    "draft": "draft time (d0, c)",
    "verify": "v > 1",
    "other": "o > 0",
    "cut": "cut tokens",
    "rest": "rest (chance, noise)",
}
"""The terms in their order, as people read them."""

_CHEAPER = "v < 1"
"""What the term of verification is called where it is cheaper than a plain step."""

_RIGHT = 0.005  # an error of less than half a percent is none


@dataclass(frozen=True)
class Gap:
    """log(measured / closed form) of one gamma.

    Attributes:
        terms: name -> its part; below 0 where the closed form is optimistic. The keys of TERMS.
    """

    terms: Mapping[str, float]

    @property
    def total(self) -> float:
        """log(measured / closed form)."""
        return sum(self.terms.values())


def decompose(model: RoundModel, gamma: int, cut_share: float, measured: float) -> Gap:
    """Take one gamma's gap apart.

    Args:
        model: of the group; gamma must be one that it was measured at.
        cut_share: tokens cut at the end of outputs / tokens committed.
        measured: speedup.
    """
    shape = model.shapes[gamma]
    length = sum(drafted * share for drafted, share in enumerate(shape.draft_lengths))
    always = (*(0.0,) * gamma, 1.0)
    full, real = model.tokens(always), model.tokens(shape.draft_lengths)
    steps = [  # speedups, from the closed form on
        closed_form.speedup(model.alpha, gamma, model.c),
        full / (1.0 + gamma * model.c),
        real / (1.0 + length * model.c),
        real / (1.0 + shape.draft),
        real / (shape.verify + shape.draft),
        real / (shape.verify + shape.draft + shape.other),
        real / (shape.verify + shape.draft + shape.other) * (1.0 - cut_share),
        measured,
    ]
    logs = [math.log(step) for step in steps]
    parts = [after - before for before, after in itertools.pairwise(logs)]
    return Gap(dict(zip(TERMS, parts, strict=True)))


def gap_sentence(gaps: Sequence[Gap]) -> str:
    """How wrong the closed form is over some gammas, on average, and what most of that is."""
    return f"Averaged over γ the closed form is {gap_verdict(gaps)}."


def gap_verdict(gaps: Sequence[Gap]) -> str:
    """The same in few words.

    Args:
        gaps: at least one.
    """
    return told_together([mean_gap(gaps)])


class MeanGap(NamedTuple):
    """Which way the closed form errs on average, what most of that is, and by how much it errs."""

    way: str
    term: str
    error: float


def mean_gap(gaps: Sequence[Gap]) -> MeanGap:
    """Of at least one gap."""
    means = {name: fmean(gap.terms[name] for gap in gaps) for name in TERMS}
    total = sum(means.values())
    error = math.expm1(-total)
    if abs(error) < _RIGHT:
        return MeanGap("right", "", error)
    way = 1.0 if total > 0.0 else -1.0
    largest = max(means, key=lambda name: way * means[name])
    if error > 0:
        return MeanGap("optimistic", TERMS[largest], error)
    return MeanGap("pessimistic", _CHEAPER if largest == "verify" else TERMS[largest], error)


def told_together(found: Sequence[MeanGap]) -> str:
    """One or several that err the same way for the same reason, in few words."""
    if not found[0].term:
        return "right"
    errors = sorted(abs(one.error) for one in found)
    span = "–".join(dict.fromkeys(f"{100 * error:.0f}" for error in (errors[0], errors[-1])))
    return f"{found[0].way} by {span}%, the largest term is {found[0].term}"
