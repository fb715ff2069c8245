"""What a server counted about speculation: over a window, or request by request.

>>> of_requests([{"num_spec_steps": 3, "num_draft_tokens": 6, "num_accepted_draft_tokens": 3,
...               "acceptance_histogram": [1, 1, 1]}]).accepted_at
[2, 1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

_DRAFTS = ("num_spec_steps", "spec_verify_ct")
_DRAFTED = ("num_draft_tokens", "spec_draft_token_num")
_ACCEPTED = ("num_accepted_draft_tokens", "spec_accept_token_num")
_HISTOGRAM = ("acceptance_histogram", "spec_accept_histogram")
"""The same figure of a request as vLLM and as SGLang call it."""


@dataclass(frozen=True)
class Counts:
    """None for what is not counted.

    Attributes:
        drafts: rounds that had a draft.
        drafted, accepted: tokens, without the correction or bonus token.
        accepted_at: [gamma] drafts that accepted at least 1, 2, ... tokens.
        figures: the server's own figures that are no counts, under its own names.
    """

    drafts: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    accepted_at: list[int] | None = None
    figures: dict[str, float] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def or_else(self, other: Counts) -> Counts:
        """These counts, and another's where there are none."""
        mine, theirs = self.document(), other.document()
        return Counts(
            **{name: theirs[name] if value is None else value for name, value in mine.items()}
        )


def of_requests(figures: Sequence[Mapping[str, Any] | None]) -> Counts:
    """Sums over requests of what the server told with each answer; None unless it did for all."""
    histograms = [_first(told, _HISTOGRAM) for told in figures]
    accepted_at: list[int] | None = None
    if histograms and all(isinstance(histogram, list) for histogram in histograms):
        most = max(len(histogram) for histogram in histograms)
        accepted_at = [
            sum(sum(histogram[place:]) for histogram in histograms) for place in range(1, most)
        ]
    drafts, drafted, accepted = (
        _sum([_first(told, names) for told in figures]) for names in (_DRAFTS, _DRAFTED, _ACCEPTED)
    )
    return Counts(drafts, drafted, accepted, accepted_at or None)


def _first(told: Mapping[str, Any] | None, names: Sequence[str]) -> Any:
    return next((told[name] for name in names if name in told), None) if told else None


def _sum(counts: Sequence[Any]) -> int | None:
    return sum(counts) if counts and all(isinstance(count, int) for count in counts) else None
