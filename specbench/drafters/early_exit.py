"""The target's own first K layers, then its final norm and head (``early-exit:K``).

Costs no memory: weights and cache are the target's. K/V that the first layers write while drafting
is overwritten by the verify forward with the same values. Untrained for early exits, most targets
accept little of it; it is the honest lower bound of self-speculation. ``early-exit:K,gamma=auto``
ends a draft where the next token would not pay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from torch import Tensor

from specbench.drafters._adaptive import AUTO_OPTIONS
from specbench.drafters._chain import draft_chain
from specbench.drafters._guess import guess, read_text
from specbench.drafters._stepwise import StepwiseDrafter
from specbench.drafters.base import Draft, Guess, Host, Text
from specbench.drafters.spec import DrafterSpec
from specbench.errors import SpecbenchError
from specbench.models.early import first_layers
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams


class EarlyExitDrafter(StepwiseDrafter):
    """Drafts with the target cut off after K layers."""

    OPTIONS = AUTO_OPTIONS
    only_prefix = True

    def __init__(self, model: LanguageModel, target: LanguageModel, spec: DrafterSpec) -> None:
        super().__init__(spec, model.weight_bytes / target.weight_bytes)
        self.model = model
        self.weight_bytes = model.weight_bytes
        self.shared_layers = model.config.num_hidden_layers

    @classmethod
    def check(cls, spec: DrafterSpec) -> None:
        super().check(spec)
        argument = spec.need_argument("K")
        if not re.fullmatch(r"\d{1,9}", argument) or int(argument) < 1:
            raise SpecbenchError(
                f"drafter {spec.text!r}: {argument!r} is not a number of layers",
                "Write early-exit:K with K at least 1 and below the target's layers",
            )

    @classmethod
    def build(cls, spec: DrafterSpec, host: Host) -> EarlyExitDrafter:
        return cls(first_layers(host.target, int(spec.need_argument("K"))), host.target, spec)

    def begin(self, slot: int, hidden: dict[int, Tensor]) -> None:
        """Nothing to read: the target's prefill filled the shared cache."""

    def rehearse(self, prompt_lengths: Sequence[int]) -> None:
        self.model.rehearse(self.session.target_cache, 1, min(prompt_lengths))

    def propose(self, gamma: int) -> Draft:
        last = self.rows.last_tokens()
        lengths = self.rows.lengths

        def step(previous: Tensor | None, index: int) -> Tensor:
            tokens = last if previous is None else previous
            starts = [n - 1 + index for n in lengths]
            return self.model.forward(tokens, self.session.target_cache, starts).logits[:, -1]

        return draft_chain(step, gamma, self.session, self.model.vocab_size, stop=self.stop)

    def guesses(self, text: Text, gamma: int, sampling: SamplingParams) -> Iterator[Guess]:
        yield guess(read_text(self.model, text, gamma), sampling, self.model.vocab_size)


DRAFTER = EarlyExitDrafter
