"""A smaller language model with the same tokenizer (``model:NAME``, a hub name, folder or GGUF).

It keeps a cache of its own. After a round in which all gamma tokens were accepted it has not read
the last of them yet, so the next draft reads two tokens first; else the draft would be conditioned
on a hole.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specbench.drafters._chain import draft_chain
from specbench.drafters.base import Draft, Drafter, Host, Session
from specbench.drafters.spec import DrafterSpec
from specbench.errors import SpecbenchError
from specbench.models.target import LanguageModel
from specbench.models.vocabulary import require_same_vocabulary


class ModelDrafter(Drafter):
    """Drafts with a :class:`LanguageModel`; samples from its own warped distribution."""

    samples = True

    def __init__(self, model: LanguageModel, target: LanguageModel) -> None:
        require_same_vocabulary(target, model)
        self.model = model
        self._last_id = model.vocab_size - 1
        self.vocab_size = target.vocab_size
        self.weight_bytes = model.weight_bytes

    @classmethod
    def check(cls, spec: DrafterSpec) -> None:
        super().check(spec)
        spec.need_argument("NAME")

    @classmethod
    def build(cls, spec: DrafterSpec, host: Host) -> ModelDrafter:
        return cls(host.load(spec.need_argument("NAME")), host.target)

    def start(self, session: Session) -> None:
        super().start(session)
        if session.capacity > self.model.context_limit:
            raise SpecbenchError(
                f"the longest prompt with output and draft takes {session.capacity} tokens, beyond "
                f"the context of drafter {self.model.name}, {self.model.context_limit}",
                "Shorten the prompts, lower --max-new-tokens or --gamma, or use another drafter",
            )
        self.cache = self.model.new_cache(len(self.rows), session.capacity)
        self._cached = [0] * len(self.rows)  # leading committed tokens whose K/V is right
        self._drafted = 0

    def begin(self, slot: int, hidden: dict[int, Tensor]) -> None:
        row = self.rows[slot]
        prompt = [min(token, self._last_id) for token in row.tokens[: row.prompt_length]]
        cache = self.model.new_cache(1, len(prompt))
        self.model.prefill(prompt, cache)
        self.cache.restore(slot, cache.snapshot(0, len(prompt)))
        self._cached[slot] = len(prompt)

    def propose(self, gamma: int) -> Draft:
        lengths = self.rows.lengths
        unread = max(
            length - cached
            for length, cached, row in zip(lengths, self._cached, self.rows.slots, strict=True)
            if row.active
        )
        # The target's (padded) head may have ids that the drafter's embedding lacks: it reads its
        # last one instead. Whatever q is conditioned on, the accept rule stays exact.
        first = self.rows.last_tokens(unread).clamp(max=self._last_id)

        def step(previous: Tensor | None, index: int) -> Tensor:
            tokens = first if previous is None else previous
            starts = [n - unread if index == 0 else n + index - 1 for n in lengths]
            return self.model.forward(tokens, self.cache, starts, last_only=True).logits[:, -1]

        self._drafted = gamma
        self._lengths_at_draft = lengths
        return draft_chain(step, gamma, self.session, self.vocab_size)

    def commit(self, num_accepted: Sequence[int], hidden: dict[int, Tensor] | None = None) -> None:
        for slot, accepted in enumerate(num_accepted):
            read = min(accepted, self._drafted - 1)  # the last drafted token was never read
            self._cached[slot] = self._lengths_at_draft[slot] + read


DRAFTER = ModelDrafter
