"""The speculative round: draft, verify in one target forward, accept, roll back.

    propose   N <= gamma tokens per row from the drafter
    verify    one target forward over the last committed token and the N drafted ones
    accept    the longest prefix that the rule lets stand, plus the target's own next token
    roll back nothing to do: both caches simply continue at the new, shorter length

A draft may be a tree of alternatives; then N is its nodes below the last committed token, and the
prefix is a path (:mod:`specbench.engine._tree_round`).

Leviathan, Kalman and Matias 2023, algorithm 1, for a batch of rows that accept differently.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.drafters.base import Draft, Drafter, Session
from specbench.engine._tree_round import settle_tree
from specbench.engine.round import Outcome, Round
from specbench.measure.clock import Clock
from specbench.measure.transfer import to_device
from specbench.models.language_model import LanguageModel, Output
from specbench.models.tree import Tree
from specbench.sampling.verify import Verdict, verify_greedy, verify_sampled
from specbench.sampling.warp import warp


class Speculative:
    """Commits one to gamma + 1 tokens per row and round."""

    def __init__(
        self, target: LanguageModel, drafter: Drafter, session: Session, clock: Clock
    ) -> None:
        self.target = target
        self.drafter = drafter
        self.session = session
        self.clock = clock

    def rehearse(self, prompt_lengths: Sequence[int]) -> None:
        """Let the steps be captured that a round may take, whatever is drafted and accepted."""
        for width in self.drafter.draft_widths(self.session.gamma):
            self.target.rehearse(
                self.session.target_cache,
                width + 1,
                min(prompt_lengths),
                hidden_layers=self.drafter.needs_hidden_layers,
                num_nodes=width + 1 if self.drafter.drafts_trees(self.session.gamma) else 0,
            )
        self.drafter.rehearse(prompt_lengths)

    def round(self) -> Round:
        rows = self.session.rows
        lengths = rows.lengths
        begin = self.clock.mark()

        draft = self.drafter.propose(self.session.gamma)  # tokens [B, N]
        drafted = self.clock.mark()

        inputs = torch.cat([rows.last_tokens(), draft.tokens], dim=1)  # [B, N + 1]
        tree = None if draft.parents is None else Tree.from_parents(draft.parents)
        output = self.target.forward(
            inputs,
            self.session.target_cache,
            [n - 1 for n in lengths],
            hidden_layers=self.drafter.needs_hidden_layers,
            tree=tree,
        )
        verified = self.clock.mark()

        if tree is None:
            outcome = self._settle(draft, output, lengths)
        else:
            outcome = settle_tree(draft, tree, output, lengths, self.session)
        chosen = self.clock.mark()
        self.drafter.commit(outcome.num_accepted, outcome.hidden)
        return Round(
            committed=outcome.committed,
            num_drafted=draft.lengths,
            draft_levels=draft.lengths if draft.levels is None else draft.levels,
            num_evaluated=outcome.num_evaluated,
            num_accepted=outcome.num_accepted,
            num_verified=inputs.shape[1],
            marks=(begin, drafted, verified, chosen),
            overlap=outcome.overlap,
            p=outcome.p,
            q=draft.probs,
            path=outcome.path,
            replayed=draft.replay is not None,
        )

    def _settle(self, draft: Draft, output: Output, lengths: list[int]) -> Outcome:
        """Apply the rule to a chain, whose K/V and states already lie where they belong."""
        verdict, p = self._judge(draft, output.logits, lengths)
        num_accepted, committed = _read(draft, verdict)
        num_evaluated = [
            min(accepted + 1, length)
            for accepted, length in zip(num_accepted, draft.lengths, strict=True)
        ]
        return Outcome(committed, num_accepted, num_evaluated, output.hidden, verdict.overlap, p)

    def _judge(
        self, draft: Draft, logits: Tensor, lengths: list[int]
    ) -> tuple[Verdict, Tensor | None]:
        """Apply the rule; also returns p [B, N + 1, V] where it was computed."""
        sampling, uniforms = self.session.sampling, self.session.rows.uniforms
        num_drafted = to_device(draft.lengths, logits.device)
        if sampling.greedy:
            choices = logits.argmax(dim=-1)
            if draft.replay is not None:
                choices = torch.where(draft.replay >= 0, draft.replay, choices)
            return verify_greedy(choices, draft.tokens, num_drafted), None
        p = warp(logits, sampling)
        width = draft.tokens.shape[1]
        verdict = verify_sampled(
            p,
            draft.tokens,
            num_drafted,
            draft.probs,
            uniforms.at("accept", lengths, width),
            uniforms.at("residual", lengths, width + 1),
        )
        return verdict, p


def _read(draft: Draft, verdict: Verdict) -> tuple[list[int], list[list[int]]]:
    """Bring accept counts and tokens to the host in one transfer: the round's only sync."""
    columns = [verdict.num_accepted[:, None], verdict.next_token[:, None], draft.tokens]
    num_accepted, committed = [], []
    for accepted, next_token, *tokens in torch.cat(columns, dim=1).tolist():
        num_accepted.append(accepted)
        committed.append([*tokens[:accepted], next_token])
    return num_accepted, committed
