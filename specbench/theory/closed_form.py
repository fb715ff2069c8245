"""The closed forms of speculative decoding, in plain `math`.

What one can say before measuring anything: how many tokens a round gives when every drafted token
is accepted with the same chance alpha, what that is worth when a drafter step costs c target
steps, and which draft length gamma is best. Exact at alpha 0 and 1 and stable close to 1. Nothing
but the standard library is imported, so a question asked with two numbers is answered at once.

Source of every formula unless another is named: Leviathan, Kalman, Matias 2023, "Fast Inference
from Transformers via Speculative Decoding" (arXiv 2211.17192).

>>> round(expected_tokens(0.8, 4), 4)
3.3616
>>> round(speedup(0.8, 4, 0.02), 3)
3.113
>>> optimal_gamma(0.1, 0.2, 16)  # drafting costs more than it gives: do not speculate
0
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from specbench.errors import SpecbenchError

DEFAULT_MAX_GAMMA = 16
"""The longest draft considered when nobody says otherwise."""

LONGEST_GAMMA = 1024
"""A larger maximum is a typing mistake: no draft is that long."""

_LONGEST_SUM = 512
"""Up to here the geometric sum is added term by term; beyond, its closed form is used."""


@dataclass(frozen=True)
class CurvePoint:
    """One draft length on the speedup curve; gamma 0 is plain decoding (1 token, speedup 1)."""

    gamma: int
    tokens_per_round: float
    speedup: float


def expected_tokens(alpha: float, gamma: int) -> float:
    """Tokens that one round gives on average, the correction or bonus token included (eq. 1).

    (1 - alpha^(gamma+1)) / (1 - alpha) = 1 + alpha + ... + alpha^gamma, so gamma + 1 at alpha 1.

    Args:
        alpha: chance that an evaluated token is accepted, 0 to 1.
        gamma: tokens drafted per round, 0 or more.

    Raises:
        SpecbenchError: alpha or gamma is out of range.
    """
    alpha, gamma = _chance(alpha), _length(gamma)
    if alpha == 1.0:
        return gamma + 1.0
    if alpha == 0.0:
        return 1.0
    if gamma <= _LONGEST_SUM:
        total = 1.0
        for _ in range(gamma):
            total = 1.0 + alpha * total
        return total
    return -math.expm1((gamma + 1) * math.log(alpha)) / (1.0 - alpha)


def speedup(alpha: float, gamma: int, c: float) -> float:
    """Speedup of decoding, with verification as cheap as one target step (theorem 3.8).

    Args:
        alpha: chance that an evaluated token is accepted, 0 to 1.
        gamma: tokens drafted per round, 0 or more; 0 gives 1.
        c: time of one drafter step / time of one one-token target step, 0 or more.

    Raises:
        SpecbenchError: an argument is out of range.
    """
    c = _non_negative("cost c", c)
    return expected_tokens(alpha, gamma) / (gamma * c + 1.0)


def optimal_gamma(alpha: float, c: float, max_gamma: int = DEFAULT_MAX_GAMMA) -> int:
    """The draft length with the highest closed-form speedup among 0..max_gamma.

    0 means "do not speculate". Of equal speedups the shorter draft wins, so alpha = c gives 0.

    Raises:
        SpecbenchError: an argument is out of range.
    """
    return best(curve(alpha, c, max_gamma)).gamma


def curve(alpha: float, c: float, max_gamma: int = DEFAULT_MAX_GAMMA) -> list[CurvePoint]:
    """The closed-form speedup of every draft length 0..max_gamma, in that order.

    Raises:
        SpecbenchError: an argument is out of range.
    """
    alpha, c = _chance(alpha), _non_negative("cost c", c)
    last = _length(max_gamma, "max gamma")
    if last > LONGEST_GAMMA:
        raise SpecbenchError(
            f"max gamma {last} is out of range", f"Give a whole number from 0 to {LONGEST_GAMMA}"
        )
    points = []
    for gamma in range(last + 1):
        tokens = expected_tokens(alpha, gamma)
        points.append(CurvePoint(gamma, tokens, tokens / (gamma * c + 1.0)))
    return points


def best(points: list[CurvePoint]) -> CurvePoint:
    """The point with the highest speedup; of equal ones (to rounding) the shortest draft."""
    if not points:
        raise SpecbenchError("a curve without points has no best draft length")
    winner = points[0]
    for point in points[1:]:
        if point.speedup > winner.speedup * (1.0 + 1e-12):
            winner = point
    return winner


@dataclass(frozen=True)
class Shift:
    """What becomes of a choice of gamma if alpha is another than was thought.

    Attributes:
        alpha: the other one.
        best: gamma's best there.
        kept: what the gamma chosen before gives there.
    """

    alpha: float
    best: CurvePoint
    kept: CurvePoint


def sensitivity(
    alpha: float, c: float, gamma: int, max_gamma: int = DEFAULT_MAX_GAMMA, by: float = 0.05
) -> list[Shift]:
    """The choice of a gamma at alpha - by and alpha + by, cut to the range of alpha.

    Raises:
        SpecbenchError: an argument is out of range.
    """
    found = []
    for other in (max(_chance(alpha) - by, 0.0), min(alpha + by, 1.0)):
        points = curve(other, c, max(max_gamma, gamma))
        found.append(Shift(other, best(points[: max_gamma + 1]), points[gamma]))
    return found


def largest_paying_cost(alpha: float, gamma: int = 1) -> float:
    """The c at which drafts of gamma tokens break even; they pay below it.

    (alpha + ... + alpha^gamma) / gamma: the speedup is 1 where the tokens gained cost as much as
    drafting. It falls with gamma, so no draft pays from c = alpha on, and a draft of one token is
    the last that does.

    Raises:
        SpecbenchError: alpha is out of range, or gamma below 1.
    """
    if _length(gamma) < 1:
        raise SpecbenchError(f"gamma {gamma} is out of range", "Give a whole number of at least 1")
    return (expected_tokens(alpha, gamma) - 1.0) / gamma


def operations_factor(alpha: float, gamma: int, c_hat: float) -> float:
    """Arithmetic operations per token with speculation / without (theorem 3.11).

    Args:
        alpha: chance that an evaluated token is accepted, 0 to 1.
        gamma: tokens drafted per round, 0 or more.
        c_hat: operations of one drafter step / operations of one target step per token.

    Raises:
        SpecbenchError: an argument is out of range.
    """
    c_hat = _non_negative("operations ratio c_hat", c_hat)
    return (gamma * c_hat + gamma + 1.0) / expected_tokens(alpha, gamma)


def extended_speedup(
    tau: float, gamma: float, c: float, v: float = 1.0, overhead: float = 0.0, d0: float = 0.0
) -> float:
    """Speedup on a real machine: tau / (d0 + gamma c + v + overhead).

    All costs are in units of T1, the baseline's whole decode time per step. With the defaults and
    the closed form's tau this is :func:`speedup`. It stands for drafts that really have this
    length: where a drafter proposes fewer, give the mean length as gamma.

    Args:
        tau: tokens committed per target forward, 1 or more.
        gamma: tokens drafted per round (a mean length may be fractional), 0 or more.
        c: time of one drafter step.
        v: time of the verifying forward over gamma + 1 tokens.
        overhead: the rest of the round (sampling, bookkeeping).
        d0: drafting time that does not grow with gamma.

    Raises:
        SpecbenchError: an argument is out of range, or the costs add up to nothing.
    """
    if not (math.isfinite(tau) and tau >= 1.0):
        raise SpecbenchError(f"tau {tau:g} is out of range", "Give a number of at least 1")
    cost = _non_negative("fixed draft cost d0", d0)
    cost += _non_negative("gamma", gamma) * _non_negative("cost c", c)
    cost += _non_negative("verify cost v", v) + _non_negative("overhead", overhead)
    if cost == 0.0:
        raise SpecbenchError("a round that costs nothing has no speedup", "Give v above 0")
    return tau / cost


def _chance(alpha: float) -> float:
    if not 0.0 <= alpha <= 1.0:
        raise SpecbenchError(f"alpha {alpha:g} is out of range", "Give a number from 0 to 1")
    return float(alpha)


def _length(gamma: int, name: str = "gamma") -> int:
    if isinstance(gamma, bool) or not math.isfinite(gamma) or gamma < 0 or gamma != int(gamma):
        raise SpecbenchError(f"{name} {gamma} is out of range", "Give a whole number of at least 0")
    return int(gamma)


def _non_negative(name: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0.0):
        raise SpecbenchError(f"{name} {value:g} is out of range", "Give a number of at least 0")
    return float(value)
