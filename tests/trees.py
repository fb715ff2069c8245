"""Random trees over a tiny vocabulary, whose every output has a known probability.

A :class:`World` is a target and a drafter as tables: p and q after every prefix. Rows draw trees of
their own forms from it, so that one call of the rule sees thousands of trees.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.models.tree import Tree
from specbench.sampling.tree import TreeVerdict, verify_tree_sampled
from specbench.sampling.warp import sample
from tests.lossless import joint_p_value

VOCAB = 5
LENGTH = 3
"""Tokens of an output that are compared."""


class World:
    """p and q after each prefix of up to ``LENGTH`` tokens, drawn from a seed; some p are 0.

    Prefixes are numbers: that of (3, 1) is 1 + number of (3,) * VOCAB + 1, the empty one's 0.
    """

    def __init__(self, seed: int) -> None:
        self.random = torch.Generator().manual_seed(seed)
        count = sum(VOCAB**length for length in range(LENGTH + 2))
        self.p = self._table(count, zeros=0.25)
        self.q = self._table(count, zeros=0.0)

    def _table(self, count: int, zeros: float) -> Tensor:
        mass = torch.rand(count, VOCAB, generator=self.random) ** 2 + 0.01
        mass[torch.rand(count, VOCAB, generator=self.random) < zeros] = 0
        mass[:, 0] += 0.05  # something is always left
        return mass / mass.sum(dim=1, keepdim=True)

    def uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, dtype=torch.float64, generator=self.random)

    def joint(self) -> dict[tuple[int, ...], float]:
        """Probability of every output."""
        found = {}
        for output in itertools.product(range(VOCAB), repeat=LENGTH):
            prefix, mass = 0, 1.0
            for token in output:
                mass *= self.p[prefix, token].item()
                prefix = child(prefix, token)
            found[output] = mass
        return found


def child(prefix, token):
    """The number of a prefix with one more token; for numbers and tensors."""
    return prefix * VOCAB + token + 1


def random_parents(world: World, rows: int, nodes: int, levels: int, siblings: int) -> Tensor:
    """[rows, nodes] parents of random trees within the limits."""
    parents = torch.zeros(rows, nodes, dtype=torch.long)
    depths = torch.zeros(rows, nodes + 1, dtype=torch.long)
    children = torch.zeros(rows, nodes + 1, dtype=torch.long)
    every = torch.arange(rows)
    for index in range(nodes):
        free = (depths[:, : index + 1] < levels) & (children[:, : index + 1] < siblings)
        chosen = sample(free.float(), world.uniform(rows))
        parents[:, index] = chosen
        depths[:, index + 1] = depths[every, chosen] + 1
        children[every, chosen] += 1
    return parents


@dataclass
class Drafted:
    """Trees and what the rule needs to know of them."""

    tokens: Tensor
    parents: Tensor
    lengths: Tensor
    prefixes: Tensor  # [B, N + 1] of the nodes
    q: Tensor  # [B, N, V] of each token's parent


def draw_tokens(world: World, parents: Tensor, lengths: Tensor, *, drawn: bool) -> Drafted:
    """Fill trees: children drawn from q without replacement, or the most probable ones of q."""
    rows, nodes = parents.shape
    every = torch.arange(rows)
    prefixes = torch.zeros(rows, nodes + 1, dtype=torch.long)
    tokens = torch.zeros(rows, nodes, dtype=torch.long)
    used = torch.zeros(rows, nodes + 1, VOCAB, dtype=torch.bool)
    for index in range(nodes):
        parent = parents[:, index]
        left = world.q[prefixes[every, parent]].masked_fill(used[every, parent], 0)
        token = sample(left, world.uniform(rows)) if drawn else left.argmax(dim=1)
        tokens[:, index] = token
        used[every, parent, token] = True
        prefixes[:, index + 1] = child(prefixes[every, parent], token)
    q = world.q[prefixes.gather(1, parents)]
    return Drafted(tokens, parents, lengths, prefixes, q)


def verify(world: World, draft: Drafted, q: Tensor | None) -> TreeVerdict:
    """The rule, on the world's p."""
    rows, nodes = draft.tokens.shape
    tree = Tree.from_parents(draft.parents)
    levels = int(tree.depths.max())
    return verify_tree_sampled(
        world.p[draft.prefixes],
        draft.tokens,
        draft.lengths,
        draft.parents,
        tree.depths,
        q,
        world.uniform(rows, levels, nodes),
        world.uniform(rows, levels + 1),
    )


def outputs(world: World, draft: Drafted, verdict: TreeVerdict) -> list[list[int]]:
    """What each row commits, continued from p to ``LENGTH`` tokens."""
    committed = torch.full((len(draft.tokens), verdict.path.shape[1]), -1)
    for level in range(1, verdict.path.shape[1]):
        taken = verdict.num_accepted >= level
        node = verdict.path[:, level]
        token = draft.tokens.gather(1, (node - 1).clamp(min=0)[:, None]).squeeze(1)
        committed[taken, level - 1] = token[taken]
    every = torch.arange(len(committed))
    committed[every, verdict.num_accepted] = verdict.next_token
    prefix = torch.zeros(len(committed), dtype=torch.long)
    columns = []
    for position in range(LENGTH):
        known = (
            committed[:, position] if position < committed.shape[1] else -torch.ones_like(prefix)
        )
        fresh = sample(world.p[prefix], world.uniform(len(prefix)))
        token = torch.where(known >= 0, known, fresh)
        columns.append(token)
        prefix = child(prefix, token)
    return torch.stack(columns, dim=1).tolist()


def tree_p_value(
    seed: int, *, drawn: bool, rows: int = 100_000, q: str | None = "right", nodes: int = 6
) -> float:
    """Chi-square p-value of many random trees' outputs.

    Args:
        seed: of the world.
        drawn: children are drawn without replacement, else chosen.
        rows: how many trees.
        q: "right", or "softmax": chosen children are given the q that chose them.
        nodes: drafted per tree, some of them padding.
    """
    world = World(seed)
    parents = random_parents(world, rows, nodes, levels=LENGTH - 1, siblings=3)
    lengths = (world.uniform(rows) * (nodes + 1)).long()
    draft = draw_tokens(world, parents, lengths, drawn=drawn)
    verdict = verify(world, draft, draft.q if drawn or q == "softmax" else None)
    return joint_p_value(outputs(world, draft, verdict), world.joint())
