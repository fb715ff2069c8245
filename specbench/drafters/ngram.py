"""Prompt lookup: copy what followed the same words earlier (``ngram,min=1,max=3,match=recent``).

The longest suffix of the committed text, ``max`` down to ``min`` tokens, is looked up in the text
before it, and what followed there is the draft. ``match=recent`` takes the latest occurrence and,
where it lies closer than the draft is long, goes on copying from its own draft, so that a repeating
passage is continued; ``match=first`` takes the earliest and stops at the end of the text, as
vLLM and Hugging Face do. The text is all that the target has read and written, so what an
encoder read too. (Saxena 2023, prompt lookup decoding.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specbench.drafters.base import Draft, Drafter, Guess, Host, Session, Text
from specbench.drafters.spec import DrafterSpec
from specbench.errors import SpecbenchError
from specbench.measure.transfer import to_device
from specbench.sampling.warp import SamplingParams


@dataclass
class Index:
    """Where each n-gram of a growing text ended, so that a lookup costs no search.

    Attributes:
        sizes: n-gram lengths, longest first.
        keep_first: remember the earliest occurrence, else the latest.
    """

    sizes: range
    keep_first: bool
    follows: dict[tuple[int, ...], int] = field(default_factory=dict)
    indexed: int = 0

    def extend(self, tokens: list[int]) -> None:
        """Index every n-gram that some token follows."""
        for end in range(self.indexed + 1, len(tokens)):
            for size in self.sizes:
                if size <= end:
                    gram = tuple(tokens[end - size : end])
                    if not (self.keep_first and gram in self.follows):
                        self.follows[gram] = end
        self.indexed = max(self.indexed, len(tokens) - 1)

    def lookup(self, tokens: list[int]) -> int | None:
        """Where the text after the longest known suffix starts, or None."""
        for size in self.sizes:
            if size <= len(tokens):
                found = self.follows.get(tuple(tokens[-size:]))
                if found is not None:
                    return found
        return None


class NgramDrafter(Drafter):
    """Drafts by lookup in the row's own text, behind its source if it has one."""

    drafts_for_encoders = True

    OPTIONS = ("min", "max", "match")

    def __init__(self, min_size: int = 1, max_size: int = 3, match: str = "recent") -> None:
        self.sizes = range(max_size, min_size - 1, -1)
        self.match = match

    @classmethod
    def check(cls, spec: DrafterSpec) -> None:
        super().check(spec)
        spec.forbid_argument()
        low, high = spec.integer("min", 1), spec.integer("max", 3)
        spec.choice("match", ("recent", "first"))
        if low > high:
            raise SpecbenchError(f"drafter {spec.text!r}: min={low} is above max={high}")

    @classmethod
    def build(cls, spec: DrafterSpec, host: Host) -> NgramDrafter:
        return cls(
            spec.integer("min", 1),
            spec.integer("max", 3),
            spec.choice("match", ("recent", "first")),
        )

    def draft_widths(self, gamma: int) -> Sequence[int]:
        return range(gamma + 1)

    def start(self, session: Session) -> None:
        super().start(session)
        self.indexes = [self._new_index() for _ in self.rows.slots]

    def begin(self, slot: int, hidden: dict[int, Tensor]) -> None:
        self.indexes[slot] = self._new_index()
        self.indexes[slot].extend(self.rows[slot].text)

    def propose(self, gamma: int) -> Draft:
        drafts = [self._draft(slot, gamma) for slot in range(len(self.rows))]
        width = max(len(draft) for draft in drafts)
        padded = [draft + [0] * (width - len(draft)) for draft in drafts]
        tokens = to_device(padded, self.rows.device)
        return Draft(tokens.view(len(drafts), width), [len(draft) for draft in drafts])

    def guesses(self, text: Text, gamma: int, sampling: SamplingParams) -> Iterator[Guess]:
        index = self._new_index()
        drafts: list[list[int]] = []
        for committed in range(text.first, text.first + text.num_drafts):
            drafts.append(self._continue(index, text.tokens[:committed], gamma))
        padded = torch.tensor([draft + [-1] * (gamma - len(draft)) for draft in drafts])
        yield from (Guess(tokens=column) for column in padded.unbind(dim=1))

    def _new_index(self) -> Index:
        return Index(self.sizes, keep_first=self.match == "first")

    def _draft(self, slot: int, gamma: int) -> list[int]:
        row = self.rows[slot]
        return self._continue(self.indexes[slot], row.text, gamma) if row.active else []

    def _continue(self, index: Index, tokens: list[int], gamma: int) -> list[int]:
        """Up to gamma tokens that followed the end of a text before."""
        index.extend(tokens)
        start = index.lookup(tokens)
        if start is None:
            return []
        copied = tokens[start : start + gamma]
        if self.match == "first":
            return copied
        period = len(tokens) - start
        while len(copied) < gamma:
            copied.append(copied[len(copied) - period])
        return copied


DRAFTER = NgramDrafter
