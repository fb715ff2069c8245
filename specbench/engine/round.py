"""What one round did, before it is cut and recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from specbench.sampling.verify import overlap

MARKS_PER_STEP = 5
"""Of the clock: a round's, and one after the commit; plain decoding needs one less."""


@dataclass(frozen=True)
class Outcome:
    """What became of a draft.

    Attributes:
        committed, num_accepted, num_evaluated, overlap, p, path: as in :class:`Round`.
        hidden: per layer the target's states along the accepted tokens, for the drafter.
    """

    committed: list[list[int]]
    num_accepted: list[int]
    num_evaluated: list[int]
    hidden: dict[int, Tensor]
    overlap: Tensor | None
    p: Tensor | None = None
    path: list[list[int]] | None = None


@dataclass(frozen=True)
class Round:
    """One round of the whole batch.

    Attributes:
        committed: per row the accepted tokens and the correction or bonus token, before cuts.
        num_drafted, num_evaluated, num_accepted: per row.
        draft_levels: per row the levels that were drafted: a chain's tokens.
        num_verified: tokens per row in the target forward.
        marks: clock marks at begin, after drafting, after the target forward, and when tokens are
            chosen and known to the host.
        overlap: [B, N] acceptance chance per drafted position (of a tree: per level) where the rule
            gave it for free.
        p, q: the distributions [B, N + 1, V] and [B, N, V] where tokens were sampled from q.
        path: per row the numbers of the accepted nodes in a tree, or None: chains.
        replayed: acceptance was decided by a recording, not by the target.
    """

    committed: list[list[int]]
    num_drafted: list[int]
    draft_levels: list[int]
    num_evaluated: list[int]
    num_accepted: list[int]
    num_verified: int
    marks: tuple[Any, Any, Any, Any]
    overlap: Tensor | None = None
    p: Tensor | None = None
    q: Tensor | None = None
    path: list[list[int]] | None = None
    replayed: bool = False

    def measure_overlap(self) -> Tensor | None:
        """[B, N] chance that each drafted position is accepted; diagnostics, so call it untimed."""
        beta = self.overlap
        if beta is None and self.p is not None and self.q is not None:
            beta = overlap(self.p[:, :-1], self.q)
        return beta
