"""Medusa heads on the target's last state (``medusa:PATH,vocab=8192``, a folder or a hub name).

All tokens of a draft come from the one state of the last accepted token, each from a head of its
own and without knowing the others, in one product with the output layer; so gamma can't exceed the
number of heads, and a draft costs nearly the same whatever gamma is. ``tree=N`` or ``tree=FILE``
drafts a tree of fixed form from the best guesses of each head. (Cai et al. 2024, arXiv 2401.10774;
its "typical acceptance" is lossy and not used.) ``medusa:shape,heads=5`` has random weights.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from specbench.drafters._chain import draft_chain
from specbench.drafters._guess import guess
from specbench.drafters._output import Output, make_output, num_bytes
from specbench.drafters._shapes import draft_shape, no_shape, shape_of
from specbench.drafters._shipped import check_shipped
from specbench.drafters._tree import CHAIN
from specbench.drafters.base import Draft, Drafter, Guess, Host, Session, Text
from specbench.drafters.spec import DrafterSpec
from specbench.errors import SpecbenchError
from specbench.heads.checkpoint import LoadedHead, count_medusa_heads, load_medusa
from specbench.heads.medusa import MedusaHeads
from specbench.heads.random_heads import MEDUSA_HEADS, random_medusa
from specbench.measure.transfer import to_device
from specbench.models.capture import StepShape
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams
from specbench.weights.shipped import drafter_name, shipped, weights_of


class MedusaDrafter(Drafter):
    """Drafts with one head per position: a chain, each token sampled from its head's own warped
    distribution, or a tree.

    Args:
        loaded: the heads.
        output: one output layer for all of them, or one for each.
        target: whose states they read.
        spec: says which tree, if any.
    """

    OPTIONS = ("vocab", "tree", "heads")
    one_step = True

    def __init__(
        self,
        loaded: LoadedHead[MedusaHeads],
        output: Output,
        target: LanguageModel,
        spec: DrafterSpec,
    ) -> None:
        self.shape_at = functools.partial(shape_of, spec)  # by gamma
        self.samples = spec.options.get("tree", CHAIN) == CHAIN
        self.heads = loaded.head
        self.output = output
        self.vocab_size = target.vocab_size
        self.device = target.device
        own = sum(num_bytes(layer) for layer in self.heads.lm_heads)
        self.weight_bytes = num_bytes(self.heads) - own + output.weight_bytes
        self.modules = (self.heads, *output.layers)
        self.weights = weights_of(spec, loaded.checkpoint.provenance)
        self.needs_hidden_layers = loaded.layers
        (self._layer,) = loaded.layers
        self._notes = list(loaded.notes)
        self._name = spec.text
        self._state_size, self._dtype = target.config.hidden_size, target.dtype

    @classmethod
    def check(cls, spec: DrafterSpec) -> None:
        super().check(spec)
        check_shipped(spec)
        spec.integer("vocab", 8192)
        no_shape(spec, 1)  # reads a file
        if "heads" in spec.options and not spec.has_random_weights:
            raise SpecbenchError(
                f"drafter {spec.text!r}: heads= is for medusa:shape, a checkpoint has its own"
            )
        spec.integer("heads", MEDUSA_HEADS)

    @classmethod
    def impossible(
        cls, spec: DrafterSpec, *, gamma: int, temperature: float, batch_size: int
    ) -> str | None:
        if spec.has_random_weights:
            num_heads: int | None = spec.integer("heads", MEDUSA_HEADS)
        else:
            num_heads = count_medusa_heads(spec.argument or str(shipped(spec.kind)))
        if num_heads is not None and gamma > num_heads:
            return _too_long(gamma, num_heads)
        return no_shape(spec, gamma)

    @classmethod
    def build(cls, spec: DrafterSpec, host: Host) -> MedusaDrafter:
        if spec.has_random_weights:
            loaded = random_medusa(host.target, spec.integer("heads", MEDUSA_HEADS))
        else:
            loaded = load_medusa(drafter_name(spec, host.target), host.target)
        output = make_output(spec, loaded.checkpoint, host.target, loaded.head.lm_heads)
        return cls(loaded, output, host.target, spec)

    def most_drafted(self, gamma: int) -> int:
        shape = self.shape_at(gamma)
        return len(shape.paths) if shape else gamma

    def drafts_trees(self, gamma: int) -> bool:
        return self.shape_at(gamma) is not None

    def start(self, session: Session) -> None:
        super().start(session)
        if session.gamma > len(self.heads):
            raise SpecbenchError(
                _too_long(session.gamma, len(self.heads)),
                f"Lower --gamma to {len(self.heads)} or less",
            )
        self._state: Tensor | None = None  # [B, H] of the last token that has one

    def begin(self, slot: int, hidden: dict[int, Tensor]) -> None:
        last = hidden[self._layer][-1]
        if self._state is None:
            self._state = last.new_zeros(len(self.rows), len(last))
        self._state[slot] = last

    def propose(self, gamma: int) -> Draft:
        assert self._state is not None
        logits = self._guess(self._state, gamma)  # [gamma, B, V_draft]
        shape = self.shape_at(gamma)
        if shape is not None:
            levels = logits.transpose(0, 1)
            return draft_shape(levels, shape, self.session, self.vocab_size, self.output.ids)

        def step(previous: Tensor | None, index: int) -> Tensor:
            return logits[index]

        return draft_chain(step, gamma, self.session, self.vocab_size, self.output.ids)

    def rehearse(self, prompt_lengths: Sequence[int]) -> None:
        shape = (len(self.rows), self._state_size)
        self._guess(torch.zeros(shape, dtype=self._dtype, device=self.device), self.session.gamma)

    def commit(self, num_accepted: Sequence[int], hidden: dict[int, Tensor] | None = None) -> None:
        assert hidden is not None
        last = to_device(num_accepted, self.device)
        rows = torch.arange(len(last), device=self.device)
        self._state = hidden[self._layer][rows, last]

    def _guess(self, states: Tensor, gamma: int) -> Tensor:
        """Logits [gamma, B, V_draft] from states [B, H], in one captured step."""

        def step(states: Tensor) -> list[Tensor]:
            return [self.output.logits(self.heads(states, gamma))]

        steps = self.session.caches.steps(self.heads, len(states))
        (logits,) = steps.run(StepShape(self._name, gamma), step, states)
        return logits

    def guesses(self, text: Text, gamma: int, sampling: SamplingParams) -> Iterator[Guess]:
        last = text.first - 2  # of draft 0: the last token whose state is known
        states = text.hidden[self._layer][last : last + text.num_drafts]
        for logits in self.output.logits(self.heads(states, gamma)):
            yield guess(logits, sampling, self.vocab_size, self.output.ids)

    def notes(self) -> list[str]:
        return self._notes


def _too_long(gamma: int, num_heads: int) -> str:
    return f"gamma {gamma} is beyond the {num_heads} Medusa heads"


DRAFTER = MedusaDrafter
