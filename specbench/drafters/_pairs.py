"""The forward of a head that reads pairs: where they stand, and what each of them sees."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from specbench.models.cache import RowCache
from specbench.models.tree import Tree


def read_pairs(
    head: Callable[..., Tensor],
    embedding: nn.Module,
    cache: RowCache,
    start: Tensor,
    extent: int,
    tokens: Tensor,
    states: Tensor,
    tree: Tree | None = None,
) -> Tensor:
    """Outputs [B, S, H] of a head over its cache, which knows where the pairs go.

    Args:
        head: embeddings, states, positions, cache and mask to outputs.
        embedding: of tokens.
        cache: the head's.
        start: [B] the slot of each row's first pair.
        extent: slots that attention covers.
        tokens: [B, S], the pairs' first halves.
        states: [B, S, H], their second halves.
        tree: the pairs are of its last S nodes; else they follow one another.
    """
    width, device = tokens.shape[1], tokens.device
    mask: Tensor | None = None
    if tree is None:
        positions = start[:, None] + torch.arange(width, device=device)  # [B, S]
        if not cache.all_seen:
            slots = torch.arange(extent, device=device)
            mask = slots <= positions[:, None, :, None]  # [B, 1, S, extent]
    else:
        roots = start - (tree.depths.shape[1] - width)
        positions = roots[:, None] + tree.depths[:, -width:]
        mask = tree.visible(roots, extent, width)[:, None]
    return head(embedding(tokens), states, positions, cache, mask)
