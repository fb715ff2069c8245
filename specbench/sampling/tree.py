"""The accept/reject rule for a tree of drafted tokens: recursion over siblings.

At each node that the round has reached, its children are tried in order. With p the target's
distribution there, and q the one that a child was drawn from, its earlier siblings removed::

    accept child x with probability min(1, p(x) / q(x)) and go on from x
    else p <- norm(max(0, p - q)), and try the next child
    when no child is left draw the next token from what remains of p

(Miao et al. 2023, arXiv 2305.09781; children drawn without replacement as in Jeon et al. 2024,
arXiv 2402.14160.) Children that were *chosen*, as the k best, are one-hots: x is accepted with
probability p(x), and a rejection sets p(x) to 0. The softmax that chose them is not what they were
drawn from, and would bias the output. At temperature 0 a child is accepted if it is the target's
argmax.

Whether a node is accepted, should it be tried, depends on no other node's uniform. So all nodes are
judged at once, and the walk from the root comes after.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.sampling.warp import sample


@dataclass(frozen=True)
class TreeVerdict:
    """What one round decided, per row; L is the number of levels.

    Attributes:
        num_accepted: [B] accepted tokens, the correction or bonus token not among them.
        num_evaluated: [B] levels on which children were tried: ending at a leaf is no rejection.
        next_token: [B] the correction or bonus token.
        path: [B, L + 1] the root and the accepted nodes in order, the last one repeated.
        overlap: [B, L] chance that some child is accepted, given that the level is evaluated: 0 or
            1 when greedy, the sum of p over one-hot children.
    """

    num_accepted: Tensor
    num_evaluated: Tensor
    next_token: Tensor
    path: Tensor
    overlap: Tensor


def verify_tree_greedy(
    target_ids: Tensor, tokens: Tensor, lengths: Tensor, parents: Tensor, levels: int
) -> TreeVerdict:
    """Accept the path on which every token is the target's own choice.

    Args:
        target_ids: [B, N + 1] the target's argmax after each node, the root first.
        tokens: [B, N] drafted tokens; beyond lengths[b] they are padding.
        lengths: [B] drafted tokens per row.
        parents: [B, N] node number of each one's parent; drafted token i is node i + 1.
        levels: L, the most that any row has.
    """
    family = _Family(lengths, parents)
    accepted = family.real & (tokens == target_ids.gather(1, parents))
    path, num_accepted = family.walk(accepted, levels)
    next_token = target_ids.gather(1, path[:, -1:]).squeeze(1)
    return family.verdict(path, num_accepted, next_token, accepted.float())


def verify_tree_sampled(
    p: Tensor,
    tokens: Tensor,
    lengths: Tensor,
    parents: Tensor,
    depths: Tensor,
    q: Tensor | None,
    accept_uniforms: Tensor,
    residual_uniforms: Tensor,
) -> TreeVerdict:
    """Speculative sampling of a tree.

    Args:
        p: [B, N + 1, V] the target's warped distribution after each node, the root first.
        tokens: [B, N] drafted tokens, no two siblings alike; beyond lengths[b] they are padding.
        lengths: [B] drafted tokens per row.
        parents: [B, N] node number of each one's parent; drafted token i is node i + 1.
        depths: [B, N + 1] of the nodes.
        q: [B, N, V] the distribution from which the children of a token's parent were drawn without
            replacement, or None if children were chosen: one-hots.
        accept_uniforms: [B, L, S] in [0, 1), for the s-th child on each level.
        residual_uniforms: [B, L + 1] in [0, 1), for the token committed at that position.
    """
    rows = torch.arange(p.shape[0], device=p.device)
    family = _Family(lengths, parents)
    uniforms = accept_uniforms[rows[:, None], depths[:, 1:] - 1, family.rank]  # [B, N]
    levels, siblings = accept_uniforms.shape[1:]
    if q is None:
        judged: _Chosen | _Drawn = _Chosen(p, tokens, family, uniforms)
    else:
        judged = _Drawn(p, tokens, family, uniforms, q, siblings)
    path, num_accepted = family.walk(judged.accepted, levels)

    end = path[:, -1]
    p_end = p[rows, end]  # [B, V]
    rest = judged.rest(end)
    next_p = torch.where((rest.sum(dim=1) > 0)[:, None], rest, p_end)
    next_token = sample(next_p, residual_uniforms[rows, num_accepted])
    return family.verdict(path, num_accepted, next_token, judged.chance)


class _Family:
    """Who is whose sibling among the drafted nodes.

    Attributes:
        real: [B, N] which nodes are drafted and not padding.
        earlier: [B, N, N] whether the node of the last axis is an earlier sibling.
        rank: [B, N] how many of those a node has.
    """

    def __init__(self, lengths: Tensor, parents: Tensor) -> None:
        index = torch.arange(parents.shape[1], device=parents.device)
        self.parents = parents
        self.real = index < lengths[:, None]
        alike = parents[:, :, None] == parents[:, None]
        self.earlier = alike & (index < index[:, None]) & self.real[:, None]
        self.rank = self.earlier.sum(dim=2) * self.real
        self._numbers = index + 1

    def children(self, nodes: Tensor) -> Tensor:
        """[B, N] which drafted nodes are children of nodes [B]."""
        return self.real & (self.parents == nodes[:, None])

    def last_child(self, nodes: Tensor) -> Tensor:
        """[B] the number of the last child of nodes [B], 0 for a leaf."""
        return (self.children(nodes) * self._numbers).amax(dim=1)

    def walk(self, accepted: Tensor, levels: int) -> tuple[Tensor, Tensor]:
        """From the root to the first accepted child and so on: path [B, levels + 1] and its edges.

        Args:
            accepted: [B, N] nodes that are accepted if they are tried.
            levels: how far to go; a path that ends earlier stays at its last node.
        """
        chosen = accepted & ~(self.earlier & accepted[:, None]).any(dim=2)
        at = torch.zeros_like(self.parents[:, 0])
        path = [at]
        for _ in range(levels):
            child = (chosen * (self.parents == at[:, None]) * self._numbers).sum(dim=1)
            at = torch.where(child > 0, child, at)
            path.append(at)
        nodes = torch.stack(path, dim=1)
        return nodes, (nodes[:, 1:] != nodes[:, :-1]).sum(dim=1)

    def verdict(
        self, path: Tensor, num_accepted: Tensor, next_token: Tensor, chance: Tensor
    ) -> TreeVerdict:
        """Put together; ``chance`` [B, N] is each node's to be accepted if it is tried."""
        misses = torch.ones_like(chance[:, :1]).repeat(1, chance.shape[1] + 1)
        misses = misses.scatter_reduce(1, self.parents, 1 - chance * self.real, "prod")
        num_evaluated = num_accepted + self.children(path[:, -1]).any(dim=1)
        overlap = 1 - misses.gather(1, path[:, :-1])
        return TreeVerdict(num_accepted, num_evaluated, next_token, path, overlap)


class _Chosen:
    """One-hot children: a rejected x takes p(x) away, so what was tried before is a sum of p.

    Attributes:
        accepted: [B, N] nodes that are accepted if they are tried.
        chance: [B, N] how likely that was.
    """

    def __init__(self, p: Tensor, tokens: Tensor, family: _Family, uniforms: Tensor) -> None:
        self._p, self._tokens, self._family = p, tokens, family
        rows = torch.arange(p.shape[0], device=p.device)[:, None]
        p_x = p[rows, family.parents, tokens]  # [B, N]
        gone = (family.earlier * p_x[:, None].double()).sum(dim=2)
        left = (1 - gone).clamp(min=0)
        self.accepted = family.real & (uniforms * left < p_x)
        self.chance = (p_x / left).nan_to_num(nan=0).clamp(max=1)

    def rest(self, end: Tensor) -> Tensor:
        """[B, V] what remains of p at nodes [B] after all their children, not normalised."""
        rows = torch.arange(len(end), device=end.device)
        p_end = self._p[rows, end]
        tried = self._family.children(end).to(p_end.dtype)
        return p_end.masked_fill(torch.zeros_like(p_end).scatter_add(1, self._tokens, tried) > 0, 0)


class _Drawn:
    """Children drawn without replacement: p and q of each depend on its earlier siblings.

    Attributes: as those of :class:`_Chosen`.
    """

    def __init__(
        self, p: Tensor, tokens: Tensor, family: _Family, uniforms: Tensor, q: Tensor, siblings: int
    ) -> None:
        self._p, self._family = p, family
        self._q = q = _without_siblings(q, tokens, family)  # [B, N, V]
        rows = torch.arange(p.shape[0], device=p.device)[:, None]
        numbers = torch.arange(tokens.shape[1], device=p.device)
        previous = (family.earlier * numbers).amax(dim=2)  # [B, N]
        left = p[rows, family.parents]  # [B, N, V]
        for rank in range(1, siblings):
            rest = _normalised((left - q).clamp(min=0), otherwise=left)[rows, previous]
            left = torch.where((family.rank == rank)[..., None], rest, left)
        self._left = left
        p_x, q_x = (d.gather(2, tokens[..., None]).squeeze(2) for d in (left, q))
        self.accepted = family.real & (uniforms * q_x < p_x) & (q_x > 0)
        self.chance = (p_x / q_x).nan_to_num(nan=0, posinf=0).clamp(max=1)

    def rest(self, end: Tensor) -> Tensor:
        """[B, V] what remains of p at nodes [B] after all their children, not normalised."""
        rows = torch.arange(len(end), device=end.device)
        child = self._family.last_child(end)
        last = (child - 1).clamp(min=0)
        rest = (self._left[rows, last] - self._q[rows, last]).clamp(min=0)
        return torch.where((child > 0)[:, None], rest, self._p[rows, end])


def _without_siblings(q: Tensor, tokens: Tensor, family: _Family) -> Tensor:
    """[B, N, V] what each token was drawn from: q without its earlier siblings, renormalised."""
    places = tokens[:, None].expand(-1, tokens.shape[1], -1)
    gone = torch.zeros_like(q).scatter_add(2, places, family.earlier.to(q.dtype)) > 0
    reduced = q.masked_fill(gone, 0)
    return torch.where((family.rank > 0)[..., None], _normalised(reduced, otherwise=reduced), q)


def _normalised(mass: Tensor, otherwise: Tensor) -> Tensor:
    """[..., V] divided by its sum, or ``otherwise`` where the sum is 0."""
    total = mass.sum(dim=-1, keepdim=True)
    return torch.where(total > 0, mass / total, otherwise)
