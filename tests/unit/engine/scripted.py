"""A target and a drafter without weights, whose every token and every second is known.

The target's next token is ``successor(token)``; each of its forwards takes 1 s plus 0.125 s per
token. The drafter drafts right tokens up to a planned count, then wrong ones; each token takes
0.25 s, its reading of a prompt 0.5 s and its commit 0.0625 s. All are exact in binary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specbench.drafters.base import Draft, Drafter, Host
from specbench.drafters.spec import DrafterSpec
from specbench.models.cache import RowCache
from specbench.models.language_model import Layout, Output
from tests.clocks import FakeClock

VOCAB = 32

FORWARD_S, PER_TOKEN_S = 1.0, 0.125
DRAFT_S, BEGIN_S, COMMIT_S = 0.25, 0.5, 0.0625


def successor(token: int) -> int:
    return (3 * token + 1) % VOCAB


def continuation(token: int, length: int) -> list[int]:
    """What the target says after a token."""
    found = []
    for _ in range(length):
        token = successor(token)
        found.append(token)
    return found


class ScriptedTarget:
    """Stands in for LanguageModel."""

    vocab_size = VOCAB
    device = torch.device("cpu")
    dtype = torch.float32
    stop_tokens: frozenset[int] = frozenset()
    context_limit = 1000
    cache_kind = RowCache

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def new_cache(self, batch_size: int, capacity: int) -> RowCache:
        return RowCache(batch_size, capacity)

    def layout(self, prompt: Sequence[int]) -> Layout:
        return Layout(prompt)

    def forward(
        self, tokens: torch.Tensor, cache: RowCache, starts: Sequence[int], **_: object
    ) -> Output:
        cache.expect(starts, tokens.shape[1], tokens.device)
        self.clock.advance(FORWARD_S + PER_TOKEN_S * tokens.shape[1])
        following = (3 * tokens + 1) % VOCAB
        return Output(torch.nn.functional.one_hot(following, VOCAB).float() * 50, {})

    def read_prompt(self, token_ids: Sequence[int], cache: RowCache, layers: object) -> Output:
        return self.forward(torch.tensor([list(token_ids)]), cache, [0])


class ScriptedDrafter(Drafter):
    """Drafts ``lengths[prompt_id]`` tokens, of which ``right[prompt_id]`` are the target's own."""

    def __init__(self, clock: FakeClock, right: dict[str, int], lengths: dict[str, int]) -> None:
        self.clock, self.right, self.planned = clock, right, lengths
        self.commits: list[list[int]] = []

    @classmethod
    def build(cls, spec: DrafterSpec, host: Host) -> ScriptedDrafter:
        raise NotImplementedError

    def begin(self, slot: int, hidden: dict[int, torch.Tensor]) -> None:
        self.clock.advance(BEGIN_S)

    def propose(self, gamma: int) -> Draft:
        drafts = [self._draft(slot, gamma) for slot in range(len(self.rows))]
        width = max(map(len, drafts))
        self.clock.advance(DRAFT_S * width)
        padded = [draft + [0] * (width - len(draft)) for draft in drafts]
        tokens = torch.tensor(padded, dtype=torch.long).view(len(drafts), width)
        return Draft(tokens, [len(draft) for draft in drafts])

    def commit(self, num_accepted, hidden=None) -> None:
        self.commits.append(list(num_accepted))
        self.clock.advance(COMMIT_S)

    def _draft(self, slot: int, gamma: int) -> list[int]:
        row = self.rows[slot]
        if not row.active:
            return []
        own = continuation(row.tokens[-1], min(gamma, self.planned[row.prompt_id]))
        right = self.right[row.prompt_id]
        return own[:right] + [(token + 1) % VOCAB for token in own[right:]]
