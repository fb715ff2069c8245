"""How long an answer must be before a drafter has paid for its start.

A drafter reads the prompt too, which delays the first token by E seconds. Every later token saves
T1 (1 - 1 / speedup) seconds. So an answer of

    1 + E / (T1 (1 - 1 / speedup))

tokens takes as long either way: shorter ones are slower with the drafter. The first token comes
from prefill and saves nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from specbench.analysis.recommending.candidates import Candidate, Field
from specbench.analysis.recommending.clusters import conversations
from specbench.theory.bootstrap import expanded_ends
from specbench.theory.clusters import Numbers

_ROUNDING = 1e-9  # by how much a whole number may be missed in floating point


@dataclass(frozen=True)
class BreakEven:
    """The length from which a candidate pays.

    Attributes:
        extra_s: seconds that the drafter adds to the first token; below 0 where it was faster.
        saved_s: that every later token saves.
        tokens: of an answer that takes as long either way; 1 where nothing is lost at the start,
            infinite where no token saves anything.
        ci: 95% interval of it; None where there is too little for one.
    """

    extra_s: float
    saved_s: float
    tokens: float
    ci: tuple[float, float] | None


def break_even(candidate: Candidate, field: Field) -> BreakEven | None:
    """The break-even length; None where first tokens were not timed with and without it."""
    group = candidate.group
    waits = group.waits
    speed = field.speed_of(group)
    if waits is None or speed is None:
        return None
    here = conversations(group.key.setting.task)
    rows = np.searchsorted(speed.clusters.sets[here], waits.names)
    ones = np.ones(speed.clusters.size)
    extra = float(waits.extra_s(np.ones(waits.names.size)))
    step_s, log = float(speed.step_s(ones)), math.log(candidate.speedup)
    ci = None
    if candidate.ci is not None and waits.names.size > 1:
        extras = waits.extra_s(field.draws[here][:, rows])
        steps = speed.step_s(speed.clusters.weights(field.draws))
        lengths = _tokens(extras, steps * -np.expm1(-candidate.logs))
        known = ~np.isnan(lengths)
        if known.any():
            ci = expanded_ends(lengths[known], waits.names.size, 0.95)
    saved = step_s * -math.expm1(-log)
    return BreakEven(extra, saved, float(_tokens(np.array(extra), np.array(saved))), ci)


def whole_tokens(length: float) -> str:
    """A break-even length in words: the first whole number of tokens that is long enough."""
    return "never" if math.isinf(length) else f"{math.ceil(length - _ROUNDING)}"


def _tokens(extra: Numbers, saved: Numbers) -> Numbers:
    """Break-even lengths; infinite where nothing is saved."""
    with np.errstate(divide="ignore", invalid="ignore"):
        lengths = 1.0 + np.maximum(extra, 0.0) / saved
    lengths = np.where(saved > 0.0, lengths, np.inf)
    return np.where(np.isnan(extra) | np.isnan(saved), np.nan, lengths)
