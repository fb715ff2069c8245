"""Drafting with a head of one decoder layer that reads the target's states: both EAGLE kinds.

Slot t of the head's own cache belongs to the pair (token t + 1, state t). So after a round the head
has not read the pairs of the tokens that were committed in it, whose states come from the verify
forward; what lies in their slots is from its own guesses. The next draft's first step reads these
pairs at once, which overwrites the guesses: as many as the row that accepted most, from each row's
own start, and of every row's output only the last that counts goes on. What a shorter row reads
beyond lies behind its last slot, unseen until it is overwritten.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from specbench.drafters._chain import draft_chain
from specbench.drafters._guess import guess
from specbench.drafters._pairs import read_pairs
from specbench.drafters._stepwise import StepwiseDrafter
from specbench.drafters._tree import Place, draft_tree
from specbench.drafters.base import Draft, Guess, Session, Text
from specbench.drafters.spec import DrafterSpec
from specbench.heads.checkpoint import LoadedHead
from specbench.measure.transfer import to_device
from specbench.models.cache import RowCache
from specbench.models.extents import sizes
from specbench.models.language_model import LanguageModel
from specbench.models.tree import Tree
from specbench.sampling.warp import SamplingParams
from specbench.weights.shipped import weights_of


class StateDrafter(StepwiseDrafter):
    """Drafts by feeding a head its own outputs: a chain, sampled from it, or a tree.

    Args:
        loaded: the head and what it reads.
        target: whose tokens and states these are.
        ids: [V_draft] the target's id of each of the head's own, or None: they are the same.
        spec: says which tree, if any, or when a chain ends.
        weight_bytes: that a draft step reads.
    """

    cache: RowCache
    _outputs: Tensor  # of the last step, or in a tree of all its nodes

    def __init__(
        self,
        loaded: LoadedHead,
        target: LanguageModel,
        ids: Tensor | None,
        spec: DrafterSpec,
        weight_bytes: int,
    ) -> None:
        super().__init__(spec, weight_bytes / target.weight_bytes)
        self.weights = weights_of(spec, loaded.checkpoint.provenance)
        self.weight_bytes = weight_bytes
        self.head = loaded.head
        self.embedding = loaded.embedding
        self.modules = (loaded.head, loaded.embedding)
        self._attend = functools.partial(read_pairs, self.head, self.embedding)
        self._name = spec.text
        self._state_size, self._dtype = target.config.hidden_size, target.dtype
        self.needs_hidden_layers = tuple(sorted(set(loaded.layers)))
        self.device = target.device
        self.vocab_size = target.vocab_size
        self.ids = ids
        self._notes = loaded.notes

    @abstractmethod
    def _features(self, hidden: dict[int, Tensor]) -> Tensor:
        """The target's states per layer [..., H] to what is kept of them, [..., F]."""

    @abstractmethod
    def _enter(self, features: Tensor) -> Tensor:
        """Features [B, S, F] to the states [B, S, H] that the head reads first."""

    @abstractmethod
    def _logits(self, outputs: Tensor) -> Tensor:
        """The head's outputs [B, S, H] to logits [B, S, V_draft]."""

    def start(self, session: Session) -> None:
        super().start(session)
        room = self.size.most_read(session.gamma) if self.size else 0
        self.cache = session.caches.take(self.head, len(self.rows), session.capacity + room)
        self._unread: Tensor | None = None  # [B, gamma + 1, F] features of pairs not read yet
        self._num_unread = [1] * len(self.rows)

    def begin(self, slot: int, hidden: dict[int, Tensor]) -> None:
        """Reads the prompt's pairs; the last one is left to the draft, as after a round."""
        features = self._features(hidden)[None]  # [1, P, F]
        self._keep(features[:, -1:], slice(slot, slot + 1))
        self._num_unread[slot] = 1
        length = features.shape[1] - 1
        if length > 0:
            tokens = to_device([self.rows[slot].tokens[1 : length + 1]], self.device)
            cache = RowCache(1, length)
            self._read(tokens, self._enter(features[:, :-1]), [0], cache)
            self.cache.restore(slot, cache.snapshot(0, length))

    def rehearse(self, prompt_lengths: Sequence[int]) -> None:
        shortest, gamma = min(prompt_lengths), self.session.gamma
        for width in range(1, gamma + 2):
            self._rehearse_step(width, shortest, first=True)
        if self.size is None and gamma > 1:
            self._rehearse_step(1, shortest)
        if self.size is not None:
            for level in range(1, gamma):
                self._rehearse_step(self.size.topk, shortest, num_nodes=1 + level * self.size.topk)

    def propose(self, gamma: int) -> Draft:
        self._lengths = self.rows.lengths
        if self.size is None:
            return draft_chain(
                self._step, gamma, self.session, self.vocab_size, self.ids, self.stop
            )
        return draft_tree(
            self._tree_step, gamma, self.session, self.vocab_size, self.size, self.ids
        )

    def commit(self, num_accepted: Sequence[int], hidden: dict[int, Tensor] | None = None) -> None:
        assert hidden is not None
        super().commit(num_accepted, hidden)
        width = max(num_accepted) + 1  # no state of a rejected token is kept
        committed = {layer: states[:, :width] for layer, states in hidden.items()}
        self._keep(self._features(committed), slice(None))
        self._num_unread = [accepted + 1 for accepted in num_accepted]

    def notes(self) -> list[str]:
        return [*self._notes, *super().notes()]

    def guesses(self, text: Text, gamma: int, sampling: SamplingParams) -> Iterator[Guess]:
        """One row per draft: each has the text's pairs, then its own outputs for states."""
        count, num_known = text.num_drafts, text.first + text.num_drafts - 2
        tokens = to_device([text.tokens], self.device)
        known = RowCache(1, num_known)
        features = self._features(text.hidden)[None, :num_known]
        read = self._read(tokens[:, 1 : num_known + 1], self._enter(features), [0], known)
        outputs = read[0, num_known - count :, None]  # [S, 1, H] of the last pair of each draft
        yield self._guess(outputs, sampling)
        cache, snapshot = RowCache(count, num_known + gamma - 1), known.snapshot(0, num_known)
        for row in range(count):
            cache.restore(row, snapshot)
        for step in range(1, gamma):
            begin = text.first + step - 1  # in draft 0, of the token that was drafted last
            previous = tokens[0, begin : begin + count, None]
            starts = range(begin - 1, begin - 1 + count)
            outputs = self._read(previous, outputs, list(starts), cache)
            yield self._guess(outputs, sampling)

    def _guess(self, outputs: Tensor, sampling: SamplingParams) -> Guess:
        return guess(self._logits(outputs)[:, 0], sampling, self.vocab_size, self.ids)

    def _step(self, previous: Tensor | None, index: int) -> Tensor:
        """Read the tokens [B, 1] drafted last; returns the logits [B, V_draft] of the next."""
        if previous is None:
            return self._read_unread()[:, 0]
        starts = [length - 2 + index for length in self._lengths]
        return self._draft_step(previous, self._outputs, starts)[:, 0]

    def _tree_step(self, tokens: Tensor | None, place: Place | None) -> Tensor:
        """Read nodes [B, S] of the own tree; returns the logits [B, S, V_draft] after each.

        The root's pair is the last one that is not a guess. ``_outputs`` holds those of all nodes.
        """
        if tokens is None or place is None:
            return self._read_unread()
        before = self._outputs
        num_read, width = before.shape[1:]
        states = before.gather(1, place.parents[..., None].expand(-1, -1, width))
        starts = [length - 2 + num_read for length in self._lengths]
        logits = self._draft_step(tokens, states, starts, tree=place.tree)
        self._outputs = torch.cat([before, self._outputs], dim=1)
        return logits

    def _keep(self, features: Tensor, slots: slice) -> None:
        """Store features [B', S, F] of pairs that the next draft will read."""
        if self._unread is None:
            shape = (len(self.rows), self.session.gamma + 1, features.shape[-1])
            self._unread = features.new_zeros(shape)
        self._unread[slots, : features.shape[1]] = features

    def _read_unread(self) -> Tensor:
        """Read the pairs committed since the last draft; returns logits [B, 1, V_draft].

        An empty slot counts as one pair, whatever a row that was there left behind.
        """
        assert self._unread is not None
        slots = self.rows.slots
        counts = [
            count if row.active else 1 for count, row in zip(self._num_unread, slots, strict=True)
        ]
        width = max(counts)
        tokens = [
            row.tokens[-count:] + [0] * (width - count)
            for count, row in zip(counts, slots, strict=True)
        ]
        starts = [length - 1 - count for length, count in zip(self._lengths, counts, strict=True)]
        last = to_device([[count - 1] for count in counts], self.device)
        features = self._unread[:, :width]
        return self._draft_step(to_device(tokens, self.device), features, starts, last)

    def _draft_step(
        self,
        tokens: Tensor,
        states: Tensor,
        starts: Sequence[int],
        last: Tensor | None = None,
        tree: Tree | None = None,
    ) -> Tensor:
        """Read pairs of tokens [B, S] and states [B, S, H] in one captured step; keep the outputs.

        Args:
            last: [B, 1] in the first step of a draft: which pair of each row goes on alone, the
                states being features [B, S, F].
            tree: the pairs are of its last S nodes; else they follow one another.

        Returns:
            logits [B, S, V_draft], or those of the ``last`` pairs [B, 1, V_draft].
        """
        first, nodes = last is not None, [] if tree is None else [tree.depths, tree.ancestors]
        form = (first, 0 if tree is None else tree.depths.shape[1])
        given = [last] if last is not None else nodes

        def step(
            start: Tensor, extent: int, tokens: Tensor, states: Tensor, *given: Tensor
        ) -> list[Tensor]:
            entered = self._enter(states) if first else states
            tree = Tree(*given) if nodes else None
            outputs = self._attend(self.cache, start, extent, tokens, entered, tree)
            if first and outputs.shape[1] > 1:
                outputs = outputs.gather(1, given[0][..., None].expand(-1, -1, outputs.shape[2]))
            return [outputs, self._logits(outputs)]

        found = self.cache.run(self._name, form, step, starts, tokens, states, *given)
        self._outputs, logits = found
        return logits

    def _read(
        self, tokens: Tensor, states: Tensor, starts: Sequence[int], cache: RowCache
    ) -> Tensor:
        """Read pairs of tokens [B, S] and states [B, S, H] into slots starts[b] and following."""

        def read(*given: Any) -> list[Tensor]:
            return [self._attend(cache, *given)]

        (outputs,) = cache.run(self._name, "read", read, starts, tokens, states)
        return outputs

    def _rehearse_step(
        self, width: int, shortest: int, *, first: bool = False, num_nodes: int = 0
    ) -> None:
        """One kind of step with every extent that it may have.

        Args:
            width: pairs per row.
            shortest: tokens that some row holds at least.
            first: of a draft.
            num_nodes: of the tree, or 0 for a chain.
        """
        num_rows = len(self.rows)
        zeros = torch.zeros(num_rows, width, dtype=torch.long, device=self.device)
        state = torch.zeros(
            num_rows, width, self._state_size, dtype=self._dtype, device=self.device
        )
        features = self._features(dict.fromkeys(self.needs_hidden_layers, state))
        states = features if first else self._enter(features)
        tree = Tree.star(num_rows, num_nodes, self.device) if num_nodes else None
        for extent in sizes(max(shortest, width, num_nodes), self.cache.num_slots):
            starts = [extent - width] * num_rows
            self._draft_step(zeros, states, starts, zeros[:, :1] if first else None, tree)
