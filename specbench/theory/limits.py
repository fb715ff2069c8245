"""What neither a better drafter nor a better kernel can beat: limits of drafting and of hardware.

Of drafting, from the target's own uncertainty mu = E[-sum p ln p] and mu2 = E[sum p ln^2 p]. Of the
hardware, the roofline: a forward moves its bytes and does its operations, and takes at least as
long as the slower of the two.

>>> round(accepted_reference(1.0, 2.0, 8), 2)  # 3 ln 8
6.24
>>> forward = Forward(weight_bytes=1e9, kv_bytes=0.0, parameters=5e8)
>>> machine = Machine(bandwidth_bytes_per_s=1e11, matmul_flops_per_s=1e13)
>>> seconds = [machine.seconds(forward, tokens) for tokens in (1, 100, 200)]
>>> [f"{value * 1e3:.0f} ms" for value in seconds]  # memory-bound up to 100 tokens
['10 ms', '10 ms', '20 ms']
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from specbench.errors import SpecbenchError
from specbench.theory.traffic import NO_EXPERTS, OPERATIONS_PER_WEIGHT, Experts

_STEPS = 100


def accepted_reference(entropy: float, second_moment: float, verified: float) -> float | None:
    """Drafted tokens per round that deterministic drafting can have accepted: a reference.

    (mu + mu2) ln P / mu^2 without the O(1) that the theorem leaves open, so asymptotic in P and no
    bound at small P. Pankratov and Alistarh, arXiv 2512.11718.

    Args:
        entropy: mu = E[-sum p ln p] of the target's next token, nats, temperature above 0.
        second_moment: mu2 = E[sum p ln^2 p].
        verified: tokens per round and row in the target's forward, the last committed one included.

    Returns:
        None for a target without uncertainty, which sets no limit.

    Raises:
        SpecbenchError: an argument is out of range.
    """
    _at_least("entropy", entropy, 0.0)
    _at_least("second log-moment", second_moment, 0.0)
    _at_least("verified tokens", verified, 1.0)
    if entropy == 0.0:
        return None
    return (entropy + second_moment) * math.log(verified) / entropy**2


@dataclass(frozen=True)
class Forward:
    """What a target forward needs.

    Attributes:
        weight_bytes: read once, whatever the number of tokens.
        kv_bytes: keys and values of all rows' contexts, read once.
        parameters: each multiplied with every token.
        experts: of which the more are read the more tokens there are.
        attention_flops: operations per token with the keys and values of its context.
    """

    weight_bytes: float
    kv_bytes: float
    parameters: float
    experts: Experts = NO_EXPERTS
    attention_flops: float = 0.0

    @property
    def bytes(self) -> float:
        """Everything that must move for one token."""
        return self.bytes_for(1.0)

    def bytes_for(self, tokens: float) -> float:
        """Everything that must move for so many tokens, of all rows together."""
        return self.weight_bytes + float(self.experts.read(tokens)) + self.kv_bytes

    def flops(self, tokens: float) -> float:
        """Operations for so many tokens, of all rows together."""
        return (OPERATIONS_PER_WEIGHT * self.parameters + self.attention_flops) * tokens


@dataclass(frozen=True)
class Machine:
    """What was measured of the machine; None where it was not."""

    bandwidth_bytes_per_s: float | None
    matmul_flops_per_s: float | None

    def moving_s(self, forward: Forward, tokens: float = 1.0) -> float | None:
        """Shortest time to move a forward's bytes."""
        rate = self.bandwidth_bytes_per_s
        return forward.bytes_for(tokens) / rate if rate else None

    def computing_s(self, forward: Forward, tokens: float) -> float | None:
        """Shortest time to do its operations."""
        rate = self.matmul_flops_per_s
        return forward.flops(tokens) / rate if rate else None

    def seconds(self, forward: Forward, tokens: float) -> float | None:
        """The roofline: the longer of the two; None where either rate is not known."""
        moving, computing = self.moving_s(forward, tokens), self.computing_s(forward, tokens)
        return None if moving is None or computing is None else max(moving, computing)

    def v(self, forward: Forward, rows: int, verified: float) -> float | None:
        """Roofline of v: a forward over ``verified`` tokens a row / over one token a row.

        1 as long as the bytes take longer than the operations, then rising with rows x verified.
        """
        one, many = self.seconds(forward, rows), self.seconds(forward, rows * verified)
        return many / one if one and many is not None else None

    def compute_bound_from(self, forward: Forward) -> float | None:
        """Tokens of all rows together from which operations take longer than bytes."""
        one, tokens = self.computing_s(forward, 1.0), math.inf
        for _ in range(_STEPS):  # falls to its value: fewer tokens touch fewer experts
            moving = self.moving_s(forward, tokens)
            if not one or moving is None:
                return None
            tokens = moving / one
        return tokens


def _at_least(name: str, value: float, least: float) -> None:
    if not (math.isfinite(value) and value >= least):
        raise SpecbenchError(
            f"{name} {value:g} is out of range", f"Give a number of at least {least:g}"
        )
