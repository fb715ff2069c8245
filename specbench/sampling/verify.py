"""The accept/reject rule, which keeps the output distributed as the target's own.

    accept drafted x with probability min(1, p(x) / q(x))
    at the first rejection draw the correction from norm(max(0, p - q))
    if every drafted token was accepted draw the bonus token from p

(Leviathan, Kalman and Matias 2023, algorithm 1.) At temperature 0, p is the argmax and the rule
becomes "equal to the target's argmax". Rows may have drafts of different lengths; a row that
drafted nothing takes its token from p.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.sampling.warp import sample


@dataclass(frozen=True)
class Verdict:
    """What one round decided, per row.

    Attributes:
        num_accepted: [B] drafted tokens accepted, the correction or bonus token not among them.
        next_token: [B] the correction token, or the bonus token after full acceptance.
        overlap: [B, N] chance that position i is accepted given that it is evaluated, where the
            rule yields it for free: 0 or 1 when greedy, p(x) for a one-hot q; else None.
    """

    num_accepted: Tensor
    next_token: Tensor
    overlap: Tensor | None


def verify_greedy(target_ids: Tensor, tokens: Tensor, lengths: Tensor) -> Verdict:
    """Accept the longest prefix of the draft that the target would have chosen itself.

    Args:
        target_ids: [B, N + 1] the target's argmax after the last committed and each drafted token.
        tokens: [B, N] drafted tokens; beyond lengths[b] they are padding.
        lengths: [B] drafted tokens per row.
    """
    matches = (tokens == target_ids[:, :-1]) & _drafted(tokens, lengths)  # [B, N]
    num_accepted = _prefix_length(matches)
    next_token = target_ids.gather(1, num_accepted[:, None]).squeeze(1)
    return Verdict(num_accepted, next_token, matches.float())


def verify_sampled(
    p: Tensor,
    tokens: Tensor,
    lengths: Tensor,
    q: Tensor | None,
    accept_uniforms: Tensor,
    residual_uniforms: Tensor,
) -> Verdict:
    """Speculative sampling of a chain.

    Args:
        p: [B, N + 1, V] the target's warped distribution at each position.
        tokens: [B, N] drafted tokens; beyond lengths[b] they are padding.
        lengths: [B] drafted tokens per row.
        q: [B, N, V] the distribution each token was drawn from, or None for one-hot.
        accept_uniforms: [B, N] in [0, 1).
        residual_uniforms: [B, N + 1] in [0, 1), for the token committed at that position.
    """
    p_drafted = p[:, :-1].gather(2, tokens[..., None]).squeeze(2)  # [B, N]
    q_drafted = 1.0 if q is None else q.gather(2, tokens[..., None]).squeeze(2)
    accepted = (accept_uniforms * q_drafted < p_drafted) & _drafted(tokens, lengths)
    num_accepted = _prefix_length(accepted)

    rows = torch.arange(p.shape[0], device=p.device)
    p_next = p[rows, num_accepted]  # [B, V]
    residual = _residual(p_next, tokens, lengths, q, num_accepted)
    next_token = sample(residual, residual_uniforms[rows, num_accepted])
    return Verdict(num_accepted, next_token, p_drafted if q is None else None)


def overlap(p: Tensor, q: Tensor) -> Tensor:
    """Sum of min(p, q) over the vocabulary: the paper's beta. [..., V] and [..., V] to [...]."""
    return torch.minimum(p, q).sum(dim=-1)


def _residual(
    p_next: Tensor, tokens: Tensor, lengths: Tensor, q: Tensor | None, num_accepted: Tensor
) -> Tensor:
    """norm(max(0, p - q)) in rows with a rejection, p in the others; p too if nothing is left."""
    if tokens.shape[1] == 0:
        return p_next
    rejected = num_accepted < lengths  # [B]
    at = num_accepted.clamp(max=tokens.shape[1] - 1)
    rows = torch.arange(p_next.shape[0], device=p_next.device)
    if q is None:
        residual = p_next.scatter(1, tokens[rows, at][:, None], 0.0)
    else:
        residual = (p_next - q[rows, at]).clamp(min=0)
    nothing_left = residual.sum(dim=1) <= 0
    return torch.where((rejected & ~nothing_left)[:, None], residual, p_next)


def _drafted(tokens: Tensor, lengths: Tensor) -> Tensor:
    """[B, N] which positions hold a drafted token and not padding."""
    return torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]


def _prefix_length(flags: Tensor) -> Tensor:
    """[B, N] booleans to the number of leading True per row, [B]."""
    return flags.long().cumprod(dim=1).sum(dim=1)
