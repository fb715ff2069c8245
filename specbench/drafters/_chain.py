"""Drafting token by token with a model, shared by every drafter that is one."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specbench.drafters._adaptive import StopRule
from specbench.drafters.base import Draft, Session
from specbench.sampling.warp import SamplingParams, sample, warp


def draft_chain(
    step: Callable[[Tensor | None, int], Tensor],
    gamma: int,
    session: Session,
    vocab_size: int,
    ids: Tensor | None = None,
    stop: StopRule | None = None,
) -> Draft:
    """Draft ``gamma`` tokens per row: greedily at temperature 0, else sampled, keeping q.

    Args:
        step: (previous tokens [B, 1] or None at first, index) to logits [B, V_drafter].
        gamma: draft length.
        session: the cell's rows and sampling parameters.
        vocab_size: the target's V; q is 0 on ids that the drafter's head lacks, and ids that only
            the drafter's (padded) head has are never proposed.
        ids: [V_drafter] the target's id of each of the drafter's, or None: they are the same.
        stop: ends rows before gamma; what they drafted up to there stays.
    """
    active = [row.active for row in session.rows.slots]
    if stop is not None:
        stop.begin(active)
    rows, sampling = session.rows, session.sampling
    uniforms = None if sampling.greedy else rows.uniforms.at("draft", rows.lengths, gamma)
    tokens: list[Tensor] = []
    probs: list[Tensor] = []
    for index in range(gamma):
        logits = step(tokens[-1][:, None] if tokens else None, index)[:, :vocab_size]
        if uniforms is None:
            drawn = logits.argmax(dim=-1)
        else:
            q = warp(logits, sampling)
            drawn = sample(q, uniforms[:, index])
            probs.append(widen(q, vocab_size, ids))
        tokens.append(drawn if ids is None else ids[drawn])
        if stop is not None and not stop.go_on(_confidence(logits, drawn, sampling)):
            break
    lengths = [gamma * on for on in active] if stop is None else stop.lengths
    return Draft(torch.stack(tokens, 1), lengths, torch.stack(probs, 1) if probs else None)


def widen(q: Tensor, vocab_size: int, ids: Tensor | None) -> Tensor:
    """q [B, V_drafter] over the target's ids, [B, V]; 0 on those that the drafter lacks."""
    if ids is None:
        return torch.nn.functional.pad(q, (0, vocab_size - q.shape[-1]))
    return q.new_zeros(len(q), vocab_size).index_copy_(1, ids, q)


def _confidence(logits: Tensor, drawn: Tensor, sampling: SamplingParams) -> Tensor:
    """The drafter's probability [B] of what it drew, before top-k and top-p."""
    scaled = logits.float() / (sampling.temperature or 1.0)
    return (scaled.gather(1, drawn[:, None])[:, 0] - scaled.logsumexp(dim=-1)).exp()
