"""Trees that grow where the drafter is confident, shared by every drafter that can step.

The expansion of EAGLE-2 (Li et al. 2024, arXiv 2406.16858): the best ``topk`` tokens stand below
the root; on each further level the ``topk`` most probable nodes get their own best ``topk`` tokens,
a node's probability being the product along its path; of all these the best ``tree`` - 1 are kept,
which always includes their ancestors. Children are chosen, not drawn: the rule takes one-hots.

The drafter's own tree, which it has to read, is another than the proposed one: it holds only the
nodes that were expanded, ``topk`` per level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.drafters.base import Draft, Session
from specbench.drafters.spec import DrafterSpec
from specbench.errors import SpecbenchError
from specbench.models.tree import Tree

TREE_OPTIONS = ("tree", "topk")
CHAIN = "chain"
DEFAULT_TOPK = 10
MOST_NODES = 1024
"""Far beyond what pays anywhere; a slip of the finger must not fill the memory."""


@dataclass(frozen=True)
class TreeSize:
    """How large a tree may become.

    Attributes:
        nodes: at most so many are verified, the root included.
        topk: children per expanded node, and expanded nodes per level.
    """

    nodes: int
    topk: int

    @classmethod
    def of(cls, spec: DrafterSpec) -> TreeSize | None:
        """From ``tree=N,topk=K``; None for a chain, the default.

        Raises:
            SpecbenchError: not a size, or topk without a tree.
        """
        if spec.options.get("tree", CHAIN) == CHAIN:
            if "topk" in spec.options:
                raise SpecbenchError(
                    f"drafter {spec.text!r}: topk= needs a tree", "Write for example tree=16,topk=4"
                )
            return None
        nodes = spec.integer("tree", 16, minimum=2)
        refuse_huge(spec, nodes)
        return cls(nodes, min(spec.integer("topk", DEFAULT_TOPK), nodes - 1))

    def most_drafted(self, gamma: int) -> int:
        """Drafted nodes of a tree with gamma levels: the budget, or all there are if it is more."""
        return min(self.nodes - 1, self.topk + (gamma - 1) * self.topk**2)

    def most_read(self, gamma: int) -> int:
        """Nodes that the drafter itself reads behind the root."""
        return self.topk * (gamma - 1)

    def too_small(self, gamma: int) -> str | None:
        """Why there is no tree of gamma levels, or None."""
        if self.nodes > gamma:
            return None
        return f"tree={self.nodes} has no room for {gamma} levels below the root"


def refuse_huge(spec: DrafterSpec, nodes: int) -> None:
    """Raises SpecbenchError for a tree of more than MOST_NODES nodes."""
    if nodes > MOST_NODES:
        raise SpecbenchError(
            f"drafter {spec.text!r}: a tree of {nodes} nodes is beyond {MOST_NODES}",
            "Write for example tree=60",
        )


@dataclass(frozen=True)
class Place:
    """Where new nodes stand in the drafter's own tree, whose node 0 is the root.

    Attributes:
        tree: all nodes read so far, the new ones last.
        parents: [B, S] number of each new node's parent.
    """

    tree: Tree
    parents: Tensor


Step = Callable[[Tensor | None, Place | None], Tensor]
"""(tokens of new nodes [B, S], their place) to the logits [B, S, V_drafter] after each.

The first call is (None, None): read what is missing up to the root, for logits [B, 1, V_drafter].
"""


def draft_tree(
    step: Step,
    gamma: int,
    session: Session,
    vocab_size: int,
    size: TreeSize,
    ids: Tensor | None = None,
) -> Draft:
    """Draft a tree of up to ``gamma`` levels per row.

    Args:
        step: the drafter's forward.
        gamma: levels below the root, which is also the number of steps.
        session: the cell's rows and sampling parameters.
        vocab_size: the target's V; ids that only the drafter's (padded) head has are not proposed.
        size: of the tree.
        ids: [V_drafter] the target's id of each of the drafter's, or None: they are the same.
    """
    candidates = _Candidates(len(session.rows), session.rows.device)
    tree = Tree.root(len(session.rows), session.rows.device)
    logits = step(None, None)
    for level in range(1, gamma + 1):
        scores, tokens = _best(logits[..., :vocab_size], size.topk, session.sampling.temperature)
        candidates.add(scores, tokens if ids is None else ids[tokens])
        if level < gamma:
            tokens, parents = candidates.expand(size.topk)
            tree = tree.extended(parents)
            logits = step(tokens, Place(tree, parents))
    tokens, parents = candidates.keep(size.nodes - 1)
    active = [row.active for row in session.rows.slots]
    return Draft(
        tokens,
        [tokens.shape[1] * on for on in active],
        parents=parents,
        levels=[gamma * on for on in active],
        siblings=min(size.topk, tokens.shape[1]),
    )


def _best(logits: Tensor, topk: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probability and id [B, S, k] of the most probable tokens, from logits [B, S, V].

    Temperature scales them as it does the target's; its cuts only reorder what they remove.
    """
    scaled = logits.float() / (temperature or 1.0)
    best, tokens = scaled.topk(min(topk, logits.shape[-1]), dim=-1)
    return (best - scaled.logsumexp(dim=-1, keepdim=True)).clamp(max=0), tokens


class _Candidates:
    """All nodes that the growing tree could keep, level by level.

    A candidate is known by its number in order of appearance, from 1 on, the root being 0. Those of
    the last level descend from the nodes that were expanded last.
    """

    def __init__(self, batch_size: int, device: torch.device) -> None:
        start = torch.zeros(batch_size, 1, dtype=torch.long, device=device)
        self._scores: list[Tensor] = []  # per level [B, C] log-probability of the path
        self._tokens: list[Tensor] = []  # per level [B, C]
        self._parents: list[Tensor] = []  # per level [B, C] candidate numbers
        self._expanded = start  # [B, S] candidate numbers of the nodes expanded last
        self._expanded_scores = start.float()
        self._first_expanded = 0  # number of the first of them in the drafter's own tree
        self._count = 0

    def add(self, scores: Tensor, tokens: Tensor) -> None:
        """The children [B, S, k] of the S nodes expanded last."""
        parents = self._expanded[..., None].expand_as(tokens)
        self._scores.append((self._expanded_scores[..., None] + scores).flatten(1))
        self._tokens.append(tokens.flatten(1))
        self._parents.append(parents.flatten(1))
        self._children = tokens.shape[2]
        self._count += self._tokens[-1].shape[1]

    def expand(self, topk: int) -> tuple[Tensor, Tensor]:
        """Choose the best of the last level: tokens and parents' numbers in the drafter's tree."""
        order = self._scores[-1].sort(dim=1, descending=True, stable=True).indices[:, :topk]
        parents = self._first_expanded + order // self._children
        self._first_expanded += self._expanded.shape[1]
        self._expanded = self._count - self._tokens[-1].shape[1] + 1 + order
        self._expanded_scores = self._scores[-1].gather(1, order)
        return self._tokens[-1].gather(1, order), parents

    def keep(self, num_nodes: int) -> tuple[Tensor, Tensor]:
        """Choose the best of all: tokens and parents [B, N] as in :class:`Draft`.

        A parent is at least as probable as its child and has the smaller number, so the stable
        order puts it first and it is kept too.
        """
        scores = torch.cat(self._scores, dim=1)
        best = scores.sort(dim=1, descending=True, stable=True).indices[:, :num_nodes]
        kept = best.sort(dim=1).values  # [B, N] in order of numbers: parents first
        numbers = torch.zeros_like(scores[:, :1]).long().repeat(1, scores.shape[1] + 1)
        new = torch.arange(1, kept.shape[1] + 1, device=kept.device).expand_as(kept)
        numbers = numbers.scatter(1, kept + 1, new)
        parents = torch.cat(self._parents, dim=1).gather(1, kept)
        return torch.cat(self._tokens, dim=1).gather(1, kept), numbers.gather(1, parents)
