"""What one round did, before it is cut and recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from specbench.sampling.verify import overlap


@dataclass(frozen=True)
class Round:
    """One round of the whole batch.

    Attributes:
        committed: per row the accepted tokens and the correction or bonus token, before cuts.
        num_drafted, num_accepted: per row.
        num_verified: tokens per row in the target forward.
        marks: clock marks at begin, after drafting, after the target forward.
        overlap: [B, N] acceptance chance per drafted position where the rule gave it for free.
        p, q: the distributions [B, N + 1, V] and [B, N, V] where tokens were sampled from q.
        replayed: acceptance was decided by a recording, not by the target.
    """

    committed: list[list[int]]
    num_drafted: list[int]
    num_accepted: list[int]
    num_verified: int
    marks: tuple[Any, Any, Any]
    overlap: Tensor | None = None
    p: Tensor | None = None
    q: Tensor | None = None
    replayed: bool = False

    def measure_overlap(self) -> list[list[float]] | None:
        """[B][N] chance that each drafted position is accepted; diagnostics, so call it untimed."""
        beta = self.overlap
        if beta is None and self.p is not None and self.q is not None:
            beta = overlap(self.p[:, :-1], self.q)
        return None if beta is None else beta.tolist()
