"""Trees of drafted tokens: who descends from whom, and what each node may attend to.

Node 0 of a row is the root, the last committed token; a node's parent has a smaller number. In a
cache node j lies in the slot j behind the root's, whatever its level, while its *position* is the
root's plus its depth: siblings compete for one place in the text. A node sees everything before the
root, its ancestors and itself.

>>> tree = Tree.from_parents(torch.tensor([[0, 0, 1]]))  # node 3 hangs below the first of two
>>> tree.depths.tolist()
[[0, 1, 1, 2]]
>>> tree.ancestors[0, 3].tolist()
[True, True, False, True]
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True)
class Tree:
    """M nodes per row, root included.

    Attributes:
        depths: [B, M] edges from the root.
        ancestors: [B, M, M] whether node m of the last axis is on the path from the root to the
            node, itself included.
    """

    depths: Tensor
    ancestors: Tensor

    def to(self, device: torch.device) -> Tree:
        """The same tree on a device."""
        return Tree(self.depths.to(device), self.ancestors.to(device))

    @classmethod
    def root(cls, batch_size: int, device: torch.device) -> Tree:
        """The root alone, in every row."""
        depths = torch.zeros(batch_size, 1, dtype=torch.long, device=device)
        return cls(depths, torch.ones(batch_size, 1, 1, dtype=torch.bool, device=device))

    @classmethod
    def from_parents(cls, parents: Tensor) -> Tree:
        """The tree in which node i + 1 hangs below node ``parents[b, i]``, one of 0..i.

        Args:
            parents: [B, N] node numbers.
        """
        num_nodes = parents.shape[1] + 1
        reach = torch.eye(num_nodes, device=parents.device).repeat(parents.shape[0], 1, 1)
        reach[:, 1:].scatter_(2, parents[..., None], 1.0)  # itself and its parent
        for _ in range(math.ceil(math.log2(num_nodes))):  # each squaring doubles the generations
            reach = ((reach @ reach) > 0).float()
        ancestors = reach > 0
        return cls(ancestors.sum(dim=2) - 1, ancestors)

    @classmethod
    def star(cls, batch_size: int, num_nodes: int, device: torch.device) -> Tree:
        """All nodes right below the root: a tree of a given size, whatever its form."""
        return cls.from_parents(
            torch.zeros(batch_size, num_nodes - 1, dtype=torch.long, device=device)
        )

    def extended(self, parents: Tensor) -> Tree:
        """This tree with S more nodes below nodes that it has.

        Args:
            parents: [B, S] node numbers among this tree's.
        """
        num_nodes, num_new = self.depths.shape[1], parents.shape[1]
        inherited = self.ancestors.gather(1, parents[..., None].expand(-1, -1, num_nodes))
        own = torch.eye(num_new, dtype=torch.bool, device=parents.device)
        new = torch.cat([inherited, own.expand(parents.shape[0], -1, -1)], dim=2)
        return Tree(
            torch.cat([self.depths, self.depths.gather(1, parents) + 1], dim=1),
            torch.cat([pad(self.ancestors, (0, num_new)), new], dim=1),
        )

    def visible(self, roots: Tensor, extent: int, last: int) -> Tensor:
        """What the last nodes see of a cache: [B, last, extent] booleans.

        Args:
            roots: [B] the slot of each row's root.
            extent: slots that attention covers.
            last: how many nodes, the tree's last ones.
        """
        num_nodes = self.depths.shape[1]
        nodes = torch.arange(extent, device=roots.device) - roots[:, None]  # [B, extent]
        inside = (nodes >= 0) & (nodes < num_nodes)
        at = nodes.clamp(0, num_nodes - 1)[:, None].expand(-1, last, -1)
        ancestor = self.ancestors[:, -last:].gather(2, at)  # [B, last, extent]
        return (nodes < 0)[:, None] | (inside[:, None] & ancestor)

    def positions(self, roots: Tensor, extent: int) -> Tensor:
        """[B, extent] the position of what lies in each slot; behind the nodes any number.

        Args:
            roots: [B] the slot, and so the position, of each row's root.
            extent: slots that attention covers.
        """
        slots = torch.arange(extent, device=roots.device)
        nodes = slots - roots[:, None]  # [B, extent]
        depths = self.depths.gather(1, nodes.clamp(0, self.depths.shape[1] - 1))
        return torch.where(nodes > 0, roots[:, None] + depths, slots)
