"""The baseline: one target forward per token.

It is the same engine with drafting off: same cache, same forward, same sampling, same bookkeeping.
A slow baseline would be a fake speedup.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specbench.drafters.base import Session
from specbench.engine.round import Round
from specbench.measure.clock import Clock
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams, sample, warp


class Autoregressive:
    """Commits one token per row and round."""

    drafter = None

    def __init__(self, target: LanguageModel, session: Session, clock: Clock) -> None:
        self.target = target
        self.session = session
        self.clock = clock

    def rehearse(self, prompt_lengths: Sequence[int]) -> None:
        """Let the step be captured for every length that a row may have."""
        self.target.rehearse(self.session.target_cache, 1, min(prompt_lengths))

    def round(self) -> Round:
        rows, sampling = self.session.rows, self.session.sampling
        lengths = rows.lengths
        begin = self.clock.mark()

        starts = [n - 1 for n in lengths]
        logits = self.target.forward(rows.last_tokens(), self.session.target_cache, starts).logits
        verified = self.clock.mark()

        uniforms = None if sampling.greedy else rows.uniforms.at("residual", lengths)[:, 0]
        tokens = choose(logits[:, -1], sampling, uniforms).tolist()
        chosen = self.clock.mark()
        none = [0] * len(rows)
        return Round(
            committed=[[token] for token in tokens],
            num_drafted=none,
            draft_levels=none,
            num_evaluated=none,
            num_accepted=none,
            num_verified=1,
            marks=(begin, begin, verified, chosen),
        )


def choose(logits: Tensor, sampling: SamplingParams, uniforms: Tensor | None) -> Tensor:
    """The next token [B] from logits [B, V]: argmax, or a draw with uniforms [B]."""
    if uniforms is None:
        return logits.argmax(dim=-1)
    return sample(warp(logits, sampling), uniforms)
