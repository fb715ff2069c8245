"""Guesses on a text for drafters with a distribution: the choices that a draft would make.

What :func:`specbench.drafters._chain.draft_chain` does with logits in a loop is done here with
those of many positions at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.drafters._chain import widen
from specbench.drafters.base import Guess, Text
from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams, warp


def guess(
    logits: Tensor, sampling: SamplingParams, vocab_size: int, ids: Tensor | None = None
) -> Guess:
    """The first choice at temperature 0, else q.

    Args:
        logits: [S, V_drafter].
        sampling: the cell's.
        vocab_size: the target's V.
        ids: [V_drafter] the target's id of each of the drafter's, or None: they are the same.
    """
    logits = logits[:, :vocab_size]
    if not sampling.greedy:
        return Guess(probs=widen(warp(logits, sampling), vocab_size, ids))
    drawn = logits.argmax(dim=-1)
    return Guess(tokens=drawn if ids is None else ids[drawn])


def read_text(model: LanguageModel, text: Text, gamma: int) -> Tensor:
    """A model's logits [num_drafts + gamma - 1, V] at every position that a draft may reach.

    Ids that its embedding lacks are read as its last one, as in drafting.

    Raises:
        SpecbenchError: the text is beyond its context.
    """
    length = text.first + text.num_drafts + gamma - 2
    if length > model.context_limit:
        raise SpecbenchError(
            f"a text of {length} tokens is beyond the context of drafter {model.name}, "
            f"{model.context_limit}",
            "Shorten the prompts, lower --max-new-tokens or --gamma, or use another drafter",
        )
    tokens = torch.tensor([text.tokens[:length]], device=model.device)
    tokens, cache = tokens.clamp(max=model.vocab_size - 1), model.new_cache(1, length)
    before = text.first - 1
    model.forward(tokens[:, :before], cache, [0], last_only=True)  # logits of a prompt take room
    return model.forward(tokens[:, before:], cache, [before]).logits[0]
