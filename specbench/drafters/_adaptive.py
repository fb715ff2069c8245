"""Drafts that end when the next token would not pay (``gamma=auto``).

One more token costs c one-token steps of the target for certain and brings one token if everything
up to it is accepted. So a row goes on drafting while that raises its expected tokens per unit of
time,

    survival * next_alpha / cost_of_a_token  >  expected tokens so far / cost so far,

where survival is the product of the acceptance chances of the tokens drafted so far. Both estimates
learn from the rounds before, over all rows of a cell, old rounds counting less and less:

* a drafted token's chance: how often tokens were accepted that the drafter gave about the same
  probability (its confidence, in ten bins);
* the chance of the token that is not drafted yet: how often evaluated tokens were accepted lately.

What one row teaches serves the others. So above temperature 0, where the length of a draft decides
which random numbers are used, outputs may depend on the batch; their distribution does not.

The last token, on whose confidence the row stops, stays in the draft. Dropping it would make what
is proposed depend on what was drawn, and with it the output; as it is, the rule for each token that
stands in the draft is the usual one, and the output is the target's. Acceptance is another matter:
the draft is longest where tokens are easy, so alpha is not that of a fixed gamma.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.drafters.spec import DrafterSpec
from specbench.errors import SpecbenchError

AUTO_OPTIONS = ("gamma", "c")
TOKEN_COST = 0.03
"""What verifying one more token and launching one more draft step cost, in one-token steps, on top
of the drafter's share of the target's weights; a round number of the size seen on small models."""

AUTO_NOTE = (
    "gamma=auto ends drafts where the next token would not pay: alpha is of easier tokens than at "
    "a fixed gamma"
)

_NUM_BINS = 10
_FORGET = 0.98
_PRIOR_WEIGHT = 2.0
_PRIOR_ALPHA = 0.6


class StopRule:
    """Decides after each drafted token which rows go on.

    Args:
        cost: of one more drafted token, in one-token steps of the target.
    """

    def __init__(self, cost: float) -> None:
        self.cost = cost
        self.reset()

    @classmethod
    def of(cls, spec: DrafterSpec, weight_share: float) -> StopRule | None:
        """From ``gamma=auto`` and, if given, ``c=C``; None for the fixed draft length of the cell.

        Args:
            spec: the SPEC.
            weight_share: bytes that a draft step reads / bytes that a target step reads.

        Raises:
            SpecbenchError: another value of gamma, or a c that is none.
        """
        if "gamma" not in spec.options:
            if "c" in spec.options:
                raise SpecbenchError(
                    f"drafter {spec.text!r}: c= needs gamma=auto", "Write gamma=auto,c=0.1"
                )
            return None
        spec.choice("gamma", ("auto",))
        if spec.options.get("tree", "chain") != "chain":
            raise SpecbenchError(
                f"drafter {spec.text!r}: gamma=auto drafts chains, not trees",
                "Leave out gamma=auto or tree=",
            )
        cost = spec.number("c", weight_share + TOKEN_COST)
        return cls(cost)

    def reset(self) -> None:
        """Forget everything: a cell begins."""
        middle = (torch.arange(_NUM_BINS) + 0.5) / _NUM_BINS
        self._accepted = (_PRIOR_WEIGHT * middle).tolist()
        self._evaluated = [_PRIOR_WEIGHT] * _NUM_BINS
        self._recent_accepted = _PRIOR_WEIGHT * _PRIOR_ALPHA
        self._recent_evaluated = _PRIOR_WEIGHT

    def begin(self, active: Sequence[bool]) -> None:
        """A draft begins; rows that are not active draft nothing."""
        self._going = list(active)
        self._bins: list[list[int]] = [[] for _ in active]
        self._survival = [1.0] * len(active)
        self._expected = [1.0] * len(active)

    def go_on(self, confidence: Tensor) -> bool:
        """Note the drafter's probabilities [B] of the tokens just drafted; is any row to go on?"""
        next_alpha = self._recent_accepted / self._recent_evaluated
        for row, value in enumerate(confidence.tolist()):
            if not self._going[row]:
                continue
            index = min(int(value * _NUM_BINS), _NUM_BINS - 1)
            self._bins[row].append(index)
            self._survival[row] *= self._accepted[index] / self._evaluated[index]
            self._expected[row] += self._survival[row]
            cost = 1.0 + self.cost * len(self._bins[row])
            gain = self._survival[row] * next_alpha
            self._going[row] = gain * cost > self.cost * self._expected[row]
        return any(self._going)

    @property
    def lengths(self) -> list[int]:
        """[B] tokens that each row drafted since :meth:`begin`."""
        return [len(bins) for bins in self._bins]

    def learn(self, num_accepted: Sequence[int]) -> None:
        """The verdict on the draft: tokens behind the first rejected one say nothing."""
        for bins, accepted in zip(self._bins, num_accepted, strict=True):
            for position, index in enumerate(bins[: accepted + 1]):
                hit = float(position < accepted)
                self._accepted[index] = _FORGET * self._accepted[index] + hit
                self._evaluated[index] = _FORGET * self._evaluated[index] + 1.0
                self._recent_accepted = _FORGET * self._recent_accepted + hit
                self._recent_evaluated = _FORGET * self._recent_evaluated + 1.0
