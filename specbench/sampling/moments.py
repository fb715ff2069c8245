"""How uncertain a distribution is: what sets the limits of drafting above temperature 0.

>>> [round(float(part), 3) for part in moments(torch.tensor([0.5, 0.5, 0.0]))]  # ln 2, ln^2 2
[0.693, 0.48, 0.5]
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Moments(NamedTuple):
    """Of distributions p [..., V], each [...]; logarithms are natural.

    Attributes:
        entropy: -sum p ln p.
        second_moment: sum p ln^2 p.
        max_p: the largest p: no guess of one token is right more often.
    """

    entropy: Tensor
    second_moment: Tensor
    max_p: Tensor


def moments(p: Tensor) -> Moments:
    """The moments of p [..., V]; a token of probability 0 counts for nothing."""
    p = p.clamp(max=1.0)  # rounding may go beyond, and ln p above 0
    surprise = torch.special.xlogy(p, p)  # p ln p
    return Moments(
        surprise.sum(dim=-1).neg().clamp(min=0.0),
        torch.special.xlogy(surprise, p).sum(dim=-1),
        p.amax(dim=-1),
    )
