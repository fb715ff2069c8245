"""A smaller language model with the same tokenizer (``model:NAME``, a hub name, folder or GGUF).

``model`` alone is the draft model that comes with specbench for its embedded default target,
``model:shape:NAME`` a published architecture with random weights. With ``quantization=METHOD`` its
weights are quantised while they are loaded.

It keeps a cache of its own. After a round in which all gamma tokens were accepted it has not read
the last of them yet, so the next draft reads two tokens first; else the draft would be conditioned
on a hole. ``dtype=`` and ``device=`` give it others than the target's. With ``tree=N`` it drafts a
tree of N nodes, and reads all accepted tokens once more; with ``gamma=auto`` a chain that ends
where the next token would not pay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from specbench.drafters._chain import draft_chain
from specbench.drafters._guess import guess, read_text
from specbench.drafters._shipped import check_shipped
from specbench.drafters._stepwise import StepwiseDrafter
from specbench.drafters._tree import Place, draft_tree
from specbench.drafters.base import Draft, Guess, Host, Session, Text
from specbench.drafters.spec import QUANTIZATION, DrafterSpec
from specbench.errors import SpecbenchError
from specbench.measure.device import DEVICES, DTYPES
from specbench.measure.transfer import to_device
from specbench.models.cache import RowCache
from specbench.models.language_model import LanguageModel
from specbench.models.prompts import drafter_notices
from specbench.models.vocabulary import require_same_layout, require_same_vocabulary
from specbench.sampling.warp import SamplingParams
from specbench.weights.finding import resolve
from specbench.weights.methods import check_method, require_package
from specbench.weights.shapes import is_shape
from specbench.weights.shipped import drafter_name, weights_of

PLACEMENT = ("dtype", "device", QUANTIZATION)
"""Options of how the model is loaded."""


class ModelDrafter(StepwiseDrafter):
    """Drafts with a :class:`LanguageModel`; samples from its own warped distribution, or chooses
    the nodes of a tree."""

    OPTIONS = (*PLACEMENT, *StepwiseDrafter.OPTIONS)
    only_prefix = True
    drafts_for_encoders = True
    cache: RowCache

    def __init__(self, model: LanguageModel, target: LanguageModel, spec: DrafterSpec) -> None:
        require_same_layout(target, model)
        require_same_vocabulary(target, model)
        super().__init__(spec, model.weight_bytes / target.weight_bytes)
        self.model = model
        self.weights = weights_of(spec, model.provenance)
        self._last_id = model.vocab_size - 1
        self.vocab_size = target.vocab_size
        self.weight_bytes = model.weight_bytes
        self.modules = (model.model,)

    @classmethod
    def check(cls, spec: DrafterSpec) -> None:
        super().check(spec)
        check_shipped(spec, "NAME")
        _check_placement(spec)
        if spec.has_random_weights:
            _check_shape(spec)

    @classmethod
    def build(cls, spec: DrafterSpec, host: Host) -> ModelDrafter:
        name = drafter_name(spec, host.target)
        model = host.load(name, **placement(spec))
        made = cls(model, host.target, spec)
        made.notices = drafter_notices(host.target, model, host.template_settings)
        return made

    def start(self, session: Session) -> None:
        super().start(session)
        if session.capacity > self.model.context_limit:
            raise SpecbenchError(
                f"the longest prompt with output and draft takes {session.capacity} tokens, beyond "
                f"the context of drafter {self.model.name}, {self.model.context_limit}",
                "Shorten the prompts, lower --max-new-tokens or --gamma, or use another drafter",
            )
        room = self.size.most_read(session.gamma) if self.size else 0
        slots = session.capacity + room
        kind = self.model.cache_kind
        self.cache = session.caches.take(self.model, len(self.rows), slots, kind)
        self._cached = [0] * len(self.rows)  # leading committed tokens whose K/V is right
        self._drafted = 0

    def begin(self, slot: int, hidden: dict[int, Tensor]) -> None:
        prompt = [min(token, self._last_id) for token in self.rows[slot].prompt]
        length = len(self.model.layout(prompt).context)
        cache = self._prompt_cache(length)
        self.model.prefill(prompt, cache)
        self.cache.restore(slot, cache.snapshot(0, length))
        self._cached[slot] = length

    def rehearse(self, prompt_lengths: Sequence[int]) -> None:
        shortest, gamma = min(prompt_lengths), self.session.gamma
        for length in prompt_lengths:
            self.model.prefill([0] * length, self._prompt_cache(length))
        most_unread = gamma + 1 if self.size else 2
        for width in range(1, most_unread + 1):
            self.model.rehearse(self.cache, width, shortest, last_only=True)
        if self.size is not None:
            for level in range(1, gamma):
                nodes = 1 + level * self.size.topk
                self.model.rehearse(self.cache, self.size.topk, shortest, num_nodes=nodes)

    def propose(self, gamma: int) -> Draft:
        self._lengths_at_draft = lengths = self.rows.lengths
        if self.size is not None:
            return draft_tree(self._tree_step, gamma, self.session, self.vocab_size, self.size)

        def step(previous: Tensor | None, index: int) -> Tensor:
            if previous is None:
                return self._read_root()
            starts = [n + index - 1 for n in lengths]
            return self._forward(previous, starts, last_only=True)[:, -1]

        draft = draft_chain(step, gamma, self.session, self.vocab_size, stop=self.stop)
        self._drafted = draft.tokens.shape[1]
        return draft

    def commit(self, num_accepted: Sequence[int], hidden: dict[int, Tensor] | None = None) -> None:
        super().commit(num_accepted, hidden)
        for slot, accepted in enumerate(num_accepted):
            read = min(accepted, self._drafted - 1)  # the last drafted token was never read
            if self.size is not None:
                read = 0  # what was read of a tree does not lie in the text's order
            self._cached[slot] = self._lengths_at_draft[slot] + read

    def guesses(self, text: Text, gamma: int, sampling: SamplingParams) -> Iterator[Guess]:
        yield guess(read_text(self.model, text, gamma), sampling, self.vocab_size)

    def _read_root(self) -> Tensor:
        """Read what is committed and not read yet; returns the logits [B, V] after the last token.

        All rows read as many tokens as the one that lacks most; one that has fewer reads padding
        behind its last token, which its draft overwrites.
        """
        lengths = self._lengths_at_draft
        active = [slot for slot, row in enumerate(self.rows.slots) if row.active]
        unread = max(lengths[slot] - self._cached[slot] for slot in active)
        shortest = min(lengths[slot] for slot in active)
        # The target's (padded) head may have ids that the drafter's embedding lacks: it reads its
        # last one instead. Whatever q is conditioned on, the accept rule stays exact.
        tokens = self.rows.last_tokens(unread).clamp(max=self._last_id)
        starts = [max(0, n - unread) for n in lengths]
        whole = shortest >= unread
        logits = self._forward(tokens, starts, last_only=whole)
        if whole:
            return logits[:, -1]
        last = to_device([min(n, unread) - 1 for n in lengths], logits.device)
        return logits[torch.arange(len(lengths), device=logits.device), last]

    def _prompt_cache(self, length: int) -> RowCache:
        limit, kind = self.model.context_limit, self.model.cache_kind
        return self.session.caches.for_prompt(self.model, length, limit, kind)

    def _tree_step(self, tokens: Tensor | None, place: Place | None) -> Tensor:
        """Read nodes [B, S] of the own tree; returns the logits [B, S, V] after each."""
        if tokens is None or place is None:
            return self._read_root()[:, None]
        num_read = place.tree.depths.shape[1] - tokens.shape[1]
        starts = [n - 1 + num_read for n in self._lengths_at_draft]
        return self._forward(tokens, starts, tree=place.tree.to(self.model.device))

    def _forward(self, tokens: Tensor, starts: Sequence[int], **form: Any) -> Tensor:
        """Logits on the target's device, whatever device the model is on."""
        tokens = tokens.to(self.model.device)
        logits = self.model.forward(tokens, self.cache, starts, **form).logits
        return logits.to(self.rows.device)


def placement(spec: DrafterSpec) -> dict[str, str]:
    """How a SPEC's model is loaded where that is not as the target is."""
    return {key: spec.options[key] for key in PLACEMENT if key in spec.options}


def _check_shape(spec: DrafterSpec) -> None:
    """Raises SpecbenchError if a model with random weights has no shape that there is."""
    if not is_shape(spec.argument):
        raise SpecbenchError(
            f"drafter {spec.text!r} names no shape",
            "Write model:shape:NAME with one that specbench models lists",
        )
    resolve(spec.argument)


def _check_placement(spec: DrafterSpec) -> None:
    """Raises SpecbenchError if a dtype, device or way to quantise is none, or is not installed."""
    if (method := spec.options.get(QUANTIZATION)) is not None:
        require_package(check_method(method, f"drafter {spec.text!r}: {QUANTIZATION}"))
    spec.choice("dtype", DTYPES)
    device = spec.options.get("device", "auto")
    if not re.fullmatch(DEVICES, device):
        raise SpecbenchError(
            f"drafter {spec.text!r}: device={device} is no device", "Give cpu, cuda or cuda:N"
        )


DRAFTER = ModelDrafter
