"""Prompts of a given number of tokens: earlier text of the same task stands before them.

What a forward costs depends on how much it attends to, what is accepted on real text. So a prompt
that is too short gets other prompts of its task before it, as one pastes documents before a
question; the beginning of that text is cut so that the whole has exactly the tokens asked for. The
prompt itself and the form of a chat stay whole, and a longer context only adds text before that of
a shorter one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from specbench.errors import SpecbenchError
from specbench.workloads.prompt import Prompt
from specbench.workloads.render import render


def render_padded(
    prompt: Prompt,
    turn: int,
    history: Sequence[str],
    tokenizer: Any,
    length: int,
    prompts: Sequence[Prompt],
    settings: Mapping[str, Any] | None = None,
) -> list[int]:
    """Token ids of one turn, exactly ``length`` of them.

    Args:
        prompt, turn, history, tokenizer, settings: as :func:`render` takes them.
        length: tokens.
        prompts: of the task; those that follow this one give the text, taken in turn, or its own
            where it is the only one.

    Raises:
        SpecbenchError: the prompt is longer than that as it is.
    """

    def rendered(prompt: Prompt) -> list[int]:
        return render(prompt, turn, history, tokenizer, settings=settings)

    own = rendered(prompt)
    if len(own) > length:
        raise SpecbenchError(
            f"prompt {prompt.id!r} of {prompt.task} has {len(own)} tokens, more than"
            f" --context-length {length}",
            "Give a greater length, or leave the task out",
        )
    padded, before = own, ""
    texts = itertools.cycle(_texts(prompt, prompts, tokenizer))
    while len(padded) < length:
        missing = length - len(padded)
        while missing > 0:
            text, tokens = next(texts)
            before, missing = f"{text}\n\n{before}", missing - tokens
        turns = (before + prompt.turns[0], *prompt.turns[1:])
        padded = rendered(replace(prompt, turns=turns))
    other = "1" if prompt.turns[0].startswith("0") else "0"
    head = _shared(own, rendered(replace(prompt, turns=(other, *prompt.turns[1:]))))
    return padded[:head] + padded[head + len(padded) - length :]


def _texts(prompt: Prompt, prompts: Sequence[Prompt], tokenizer: Any) -> list[tuple[str, int]]:
    """What may stand before a prompt, the nearest first, each with its number of tokens."""
    place = next(index for index, other in enumerate(prompts) if other.id == prompt.id)
    others = [*prompts[place + 1 :], *prompts[:place]] or [prompt]
    texts = ["\n\n".join(other.turns) for other in others]
    return [(text, max(1, len(tokenizer(text)["input_ids"]))) for text in texts]


def _shared(own: Sequence[int], other: Sequence[int]) -> int:
    """Tokens before the first turn's text, which is another there: a beginning of sequence, the
    form of a chat."""
    pairs = zip(own, other, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
