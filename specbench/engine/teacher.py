"""What drafters would propose at every position of a text that is there already: no loop.

The target reads the text once, for all drafters; each drafter guesses all its tokens at once, given
that the tokens before are the text's (Leviathan, Kalman and Matias 2023 estimate alpha so). What
comes out is a trace, a line per position at which a draft may begin, which
:mod:`specbench.theory.replay` turns into rounds of any gamma. Of token j of a draft it has

    accept    1 or 0 where the draft is one token, whether it is the text's; where it is sampled,
              min(1, q(x) / p(x)) of the text's token x: the chance that x came from the draft
    overlap   sum of min(p, q), of a one-hot draft p(drafted token): the chance that whatever was
              drafted is accepted; above temperature 0 only
    max_p     the target's largest p, which no one-hot draft can beat; of those, above temperature 0

A loop drafts past the end of an output, and counts what it accepts there. So a text is lengthened
by what the target itself would have gone on with, past a stop token too.

Above temperature 0 the pass tells in passing how uncertain the target is of its own text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from specbench.drafters.base import Drafter, Guess, Session, Text
from specbench.engine.autoregressive import Autoregressive
from specbench.engine.loop import decode
from specbench.engine.prefill import prefill_all
from specbench.engine.request import Limits, Request
from specbench.measure.clock import Clock
from specbench.models.language_model import LanguageModel
from specbench.records.traces import TRACE, TracedText, columns_of
from specbench.records.uncertainty import POSITIONS
from specbench.sampling.moments import moments
from specbench.sampling.verify import overlap
from specbench.sampling.warp import SamplingParams, warp

MOST_DRAFTS = 64
"""Drafts that a head is traced on at a time: each has a copy of the text's K/V of the head."""


@dataclass(frozen=True)
class Lesson:
    """A text as the target reads it.

    Attributes:
        text: with room for drafts of gamma tokens.
        following: [num_drafts + gamma - 1] the text's token at each position of a trace.
        p: [num_drafts + gamma - 1, V] the target's distribution there; None at temperature 0.
    """

    text: Text
    following: Tensor
    p: Tensor | None


class Judged(NamedTuple):
    """What becomes of drafted tokens, a number for each; NaN where a draft had ended.

    See the top of this module; None is what a drafter has not, or not at temperature 0.
    """

    accept: Tensor
    overlap: Tensor | None
    max_p: Tensor | None

    def by_draft(self) -> dict[str, list[Any]]:
        """Of parts [num_drafts, gamma] a list per draft, as long as the draft; None for no part."""
        count = len(self.accept)
        return {
            name: [None] * count if part is None else [_drafted(row) for row in part.tolist()]
            for name, part in self._asdict().items()
        }


def trace_texts(
    target: LanguageModel,
    drafters: Mapping[str, tuple[Drafter, int]],
    requests: Sequence[Request],
    outputs: Sequence[Sequence[int]],
    session: Session,
    clock: Clock,
) -> TracedText:
    """Trace drafters on what plain decoding answered to each request.

    Args:
        drafters: by name, each with its longest draft.
        requests: the prompts.
        outputs: at least one token each.
        session: one empty slot of plain decoding as it made the outputs, with room for a draft
            behind the longest.
    """
    sampling = session.sampling
    layers = sorted({layer for kind, _ in drafters.values() for layer in kind.needs_hidden_layers})
    ahead = max(gamma for _, gamma in drafters.values()) - 1
    longer = lengthen(target, requests, outputs, ahead, session, clock)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in drafters}
    unsure: list[dict[str, Any]] = []
    for index, (request, output) in enumerate(zip(requests, outputs, strict=True)):
        num_drafts = len(output) - 1
        if num_drafts == 0:  # it ended with the token that came with the prompt
            continue
        lesson = read_lesson(target, request.token_ids, longer[index], num_drafts, layers, sampling)
        for name, (drafter, gamma) in drafters.items():
            judged = trace(drafter, lesson, gamma, sampling)
            rows[name] += _rows(index, request, judged.by_draft())
        if lesson.p is not None:
            found = moments(lesson.p[:num_drafts])._asdict()
            unsure += _rows(index, request, {part: of.tolist() for part, of in found.items()})
    return TracedText(
        {name: columns_of(lines, TRACE) for name, lines in rows.items()},
        None if sampling.greedy else columns_of(unsure, POSITIONS),
    )


def lengthen(
    target: LanguageModel,
    requests: Sequence[Request],
    outputs: Sequence[Sequence[int]],
    count: int,
    session: Session,
    clock: Clock,
) -> list[list[int]]:
    """Outputs with ``count`` tokens more, as plain decoding would have gone on.

    Args:
        session: of the cell that made the outputs, with room for them; its slots are empty.
    """
    whole = [list(output) for output in outputs]
    if count == 0:
        return whole
    begun = [
        replace(request, token_ids=[*request.token_ids, *output])
        for request, output in zip(requests, outputs, strict=True)
    ]
    decoder = Autoregressive(target, session, clock)
    more = decode(decoder, begun, prefill_all(target, begun, clock), Limits(count)).outputs
    return [output + added for output, added in zip(whole, more, strict=True)]


@torch.inference_mode()
def read_lesson(
    target: LanguageModel,
    prompt: Sequence[int],
    output: Sequence[int],
    num_drafts: int,
    layers: Sequence[int],
    sampling: SamplingParams,
) -> Lesson:
    """Let the target read a prompt and its lengthened output.

    Args:
        output: num_drafts + gamma tokens.
        num_drafts: positions at which a draft may begin: the tokens that decoding gave, without
            the first.
        layers: whose states drafters need.
    """
    first = len(prompt) + 1
    text, before = [*prompt, *output], len(prompt)
    cache = target.new_cache(1, len(text) - 1)
    ids = torch.tensor([text[:-1]], device=target.device)
    read = target.forward(ids[:, :before], cache, [0], last_only=True, hidden_layers=layers)
    rest = target.forward(ids[:, before:], cache, [before], hidden_layers=layers)
    hidden = {layer: torch.cat([read.hidden[layer][0], rest.hidden[layer][0]]) for layer in layers}
    return Lesson(
        Text(text, first, num_drafts, hidden),
        torch.tensor(text[first:], device=target.device),
        None if sampling.greedy else warp(rest.logits[0], sampling),
    )


@torch.inference_mode()
def trace(drafter: Drafter, lesson: Lesson, gamma: int, sampling: SamplingParams) -> Judged:
    """Every draft of a text against it, each part [num_drafts, gamma]."""
    text = lesson.text
    if drafter.only_prefix:
        (guess,) = drafter.guesses(text, gamma, sampling)
        judged = _judge(guess, lesson, 0, text.num_drafts + gamma - 1)
        return _each(lambda part: part.unfold(0, gamma, 1), judged)
    stretches = []
    for start, stretch in enumerate(text.stretches(MOST_DRAFTS)):
        steps = [
            _judge(guess, lesson, start * MOST_DRAFTS + step, stretch.num_drafts)
            for step, guess in enumerate(drafter.guesses(stretch, gamma, sampling))
        ]
        stretches.append(_each(lambda *parts: torch.stack(parts, dim=1), *steps))
    return _each(lambda *parts: torch.cat(parts), *stretches)


def _rows(request: int, asked: Request, parts: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Lines of a table, one per position of a request; see ``records.traces``."""
    return [
        {
            "prompt_id": asked.prompt_id,
            "request": request,
            "conversation": asked.conversation,
            "position": start + 1,
            **dict(zip(parts, values, strict=True)),
        }
        for start, values in enumerate(zip(*parts.values(), strict=True))
    ]


def _judge(guess: Guess, lesson: Lesson, begin: int, count: int) -> Judged:
    """A guess of the tokens at begin, begin + 1, ... of a trace, each part [count]."""
    following = lesson.following[begin : begin + count]
    p = None if lesson.p is None else lesson.p[begin : begin + count]
    if guess.probs is not None:
        assert p is not None
        p_text, q_text = (part.gather(1, following[:, None])[:, 0] for part in (p, guess.probs))
        accept = torch.where(q_text >= p_text, 1.0, q_text / p_text)
        return Judged(accept, overlap(p, guess.probs).clamp(max=1.0), None)
    assert guess.tokens is not None
    tokens = guess.tokens.to(following.device)
    judged = Judged((tokens == following).float(), None, None)
    if p is not None:
        p_drafted = p.gather(1, tokens.clamp(min=0)[:, None])[:, 0]
        judged = judged._replace(overlap=p_drafted.clamp(max=1.0), max_p=moments(p).max_p)
    return _each(lambda part: part.masked_fill(tokens < 0, torch.nan), judged)


def _each(function: Callable[..., Tensor], *judged: Judged) -> Judged:
    """A function of every part that there is, of one or several."""
    parts = zip(*judged, strict=True)
    return Judged(*(None if part[0] is None else function(*part) for part in parts))


def _drafted(values: list[float]) -> list[float]:
    """Without the NaN that stand behind the end of a draft."""
    return [value for value in values if value == value]
