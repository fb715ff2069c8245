"""What a tree adds to a round: which path is accepted, and moving it to where a chain would be.

Siblings stand at one position of the text but in different slots of the cache. So after the verdict
the accepted path's K/V is copied to the slots that the next round expects, and the hidden states of
the path are gathered for the drafter: from there on the round is like any other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.drafters.base import Draft, Session
from specbench.engine.round import Outcome
from specbench.measure.transfer import to_device
from specbench.models.language_model import Output
from specbench.models.tree import Tree
from specbench.sampling.tree import TreeVerdict, verify_tree_greedy, verify_tree_sampled
from specbench.sampling.warp import warp


def settle_tree(
    draft: Draft, tree: Tree, output: Output, lengths: list[int], session: Session
) -> Outcome:
    """Apply the rule to a verified tree and keep its accepted path.

    Args:
        draft: with ``parents`` and ``levels``.
        tree: its nodes, the root first.
        output: the target's, for all nodes.
        lengths: [B] committed tokens before the round.
        session: in its target cache the path's K/V is moved.
    """
    verdict = _judge(draft, tree, output.logits, lengths, session)
    num_accepted, num_evaluated, paths, committed = _read(draft, verdict)
    if any(path != list(range(1, len(path) + 1)) for path in paths):
        session.target_cache.keep_path([n - 1 for n in lengths], verdict.path)
    hidden = {layer: _along(verdict.path, states) for layer, states in output.hidden.items()}
    return Outcome(committed, num_accepted, num_evaluated, hidden, verdict.overlap, path=paths)


def _judge(
    draft: Draft, tree: Tree, logits: Tensor, lengths: list[int], session: Session
) -> TreeVerdict:
    assert draft.parents is not None
    assert draft.levels is not None
    sampling, uniforms = session.sampling, session.rows.uniforms
    num_drafted = to_device(draft.lengths, logits.device)
    levels = max(draft.levels)
    if sampling.greedy:
        choices = logits.argmax(dim=-1)
        return verify_tree_greedy(choices, draft.tokens, num_drafted, draft.parents, levels)
    accept = [
        uniforms.at("accept", lengths, levels, sibling=sibling) for sibling in range(draft.siblings)
    ]
    return verify_tree_sampled(
        warp(logits, sampling),
        draft.tokens,
        num_drafted,
        draft.parents,
        tree.depths,
        draft.probs,
        torch.stack(accept, dim=2),
        uniforms.at("residual", lengths, levels + 1),
    )


def _read(
    draft: Draft, verdict: TreeVerdict
) -> tuple[list[int], list[int], list[list[int]], list[list[int]]]:
    """Counts, paths and tokens on the host, in one transfer: the round's only sync."""
    nodes = verdict.path[:, 1:]
    tokens = draft.tokens.gather(1, (nodes - 1).clamp(min=0))
    counts = [verdict.num_accepted, verdict.num_evaluated, verdict.next_token]
    columns = torch.cat([torch.stack(counts, dim=1), nodes, tokens], dim=1).tolist()
    num_accepted, num_evaluated, paths, committed = [], [], [], []
    for accepted, evaluated, next_token, *rest in columns:
        path, tail = rest[: nodes.shape[1]], rest[nodes.shape[1] :]
        num_accepted.append(accepted)
        num_evaluated.append(evaluated)
        paths.append(path[:accepted])
        committed.append([*tail[:accepted], next_token])
    return num_accepted, num_evaluated, paths, committed


def _along(path: Tensor, states: Tensor) -> Tensor:
    """States [B, N + 1, H] of all nodes to those of the path, [B, L + 1, H]."""
    return states.gather(1, path[..., None].expand(-1, -1, states.shape[2]))
