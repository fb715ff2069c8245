"""One streamed answer as times and tokens.

A chunk is what arrives in one event. It may hold several tokens, those that one round of
speculation committed, so the time between chunks is the time of a step and not of a token. How many
tokens it holds is taken from what the server tells: token ids, else usage so far. Where it tells
neither it is unknown, and never guessed from text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from specbench.errors import SpecbenchError
from specbench.serving.client import Event

Figures = dict[str, Any]


@dataclass
class Answer:
    """What came back for one request; times in seconds of ``time.perf_counter``.

    Attributes:
        due_s: when it was to be sent; differs from ``sent_s`` if the load generator was late.
        chunk_s, chunk_tokens: per chunk that held tokens; None for a chunk whose number of tokens
            the server did not tell.
        token_ids: of the output, None where the server does not tell them.
        prompt_tokens, cached_tokens, num_tokens: as the server counts them.
        figures: what the server tells about speculation in this request, under its own names.
    """

    due_s: float
    sent_s: float
    chunk_s: list[float] = field(default_factory=list)
    chunk_tokens: list[int | None] = field(default_factory=list)
    token_ids: list[int] | None = field(default_factory=list)
    text: str = ""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    num_tokens: int | None = None
    figures: Figures = field(default_factory=dict)

    def add(self, arrived_s: float, event: Event) -> None:
        """Take in one event of the stream."""
        usage = event.get("usage") or {}
        choice: dict[str, Any] = next(iter(event.get("choices") or ()), {})
        text = _text_of(choice)
        count = self._count(choice, usage)
        if count or (count is None and text):
            self.chunk_s.append(arrived_s)
            self.chunk_tokens.append(count)
            ids = choice.get("token_ids")
            if ids is None or self.token_ids is None:
                self.token_ids = None
            else:
                self.token_ids += ids
        self.text += text
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self._take_usage(usage)
        self.figures |= _figures(event, choice)

    def checked(self) -> Answer:
        """The whole answer.

        Raises:
            SpecbenchError: the stream held no tokens, or nobody knows how many.
        """
        if not self.chunk_s:
            raise SpecbenchError("the answer holds no token")
        if self.num_tokens is None:
            raise SpecbenchError("the server does not tell how many tokens it sent (no usage)")
        told = sum(count for count in self.chunk_tokens if count is not None)
        if None in self.chunk_tokens or told != self.num_tokens:
            self.chunk_tokens = [None] * len(self.chunk_s)
        if self.token_ids is not None and len(self.token_ids) != self.num_tokens:
            self.token_ids = None
        return self

    def _count(self, choice: dict[str, Any], usage: dict[str, Any]) -> int | None:
        """Tokens in this event, None where the server does not tell."""
        ids = choice.get("token_ids")
        if ids is not None:
            return len(ids)
        so_far = usage.get("completion_tokens")
        if so_far is None or not choice:
            return None
        return int(so_far) - (self.num_tokens or 0)

    def _take_usage(self, usage: dict[str, Any]) -> None:
        self.num_tokens = usage.get("completion_tokens", self.num_tokens)
        self.prompt_tokens = usage.get("prompt_tokens", self.prompt_tokens)
        details = usage.get("prompt_tokens_details") or {}
        self.cached_tokens = details.get("cached_tokens", self.cached_tokens)


def _text_of(choice: dict[str, Any]) -> str:
    """The text of a completion, or of a chat with what it thinks aloud."""
    delta = choice.get("delta") or {}
    parts = (choice.get("text"), delta.get("reasoning_content"), delta.get("content"))
    return "".join(part for part in parts if part)


def _figures(event: Event, choice: dict[str, Any]) -> Figures:
    """vLLM's ``metrics.speculative_decoding``, or the ``spec_*`` of SGLang's ``meta_info``."""
    vllm = (event.get("metrics") or {}).get("speculative_decoding") or {}
    meta = choice.get("meta_info") or event.get("meta_info") or {}
    return {**vllm, **{name: value for name, value in meta.items() if name.startswith("spec_")}}
