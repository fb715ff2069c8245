"""What goes into the engine and what comes out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """One prompt to continue.

    Attributes:
        prompt_id: unique in the workload; keys the random numbers.
        conversation: what intervals cluster by; the turns of one chat share it.
        token_ids: the rendered prompt.
        reference: a recorded greedy output of this prompt, for replaying drafters; or empty.
        labels: task, category, turn, source: carried into the record as they are.
        messages: the conversation that was rendered, for a server with a chat template.
    """

    prompt_id: str
    conversation: str
    token_ids: Sequence[int]
    reference: Sequence[int] = ()
    labels: dict[str, Any] = field(default_factory=dict)
    messages: Sequence[dict[str, str]] = ()


@dataclass(frozen=True)
class Limits:
    """When an output ends.

    Attributes:
        max_new_tokens: at most so many tokens per request.
        stop_tokens: ids that end an output (the id itself is kept); empty to ignore them.
    """

    max_new_tokens: int
    stop_tokens: frozenset[int] = frozenset()


@dataclass
class Generation:
    """A cell's raw samples as columns, one list per field (see ``records``).

    Attributes:
        rounds: empty where a server's are not known.
        server: what it told, and what its counters rose by; see ``records.served``.
    """

    rounds: dict[str, list[Any]]
    requests: dict[str, list[Any]]
    notes: list[str] = field(default_factory=list)
    server: dict[str, Any] = field(default_factory=dict)

    @property
    def outputs(self) -> list[list[int]]:
        """Output token ids per request, in the order the requests were given."""
        return self.requests["output_ids"]
