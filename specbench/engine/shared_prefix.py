"""A prefix that prompts share (examples, a system message), read once for all of them.

As servers with a prefix cache do: what is read of each prompt is only what follows. Time to first
token falls; decoding is as it was, since the same keys and values lie in the cache.

>>> common_prefix([[1, 2, 3, 4], [1, 2, 3], [1, 2, 5]])
[1, 2]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.measure.clock import Clock
from specbench.measure.transfer import to_device
from specbench.models.cache import Snapshot
from specbench.models.language_model import LanguageModel, Prefill


def common_prefix(prompts: Sequence[Sequence[int]]) -> list[int]:
    """The tokens that all prompts begin with; every prompt keeps a last one of its own.

    >>> common_prefix([[1, 2], [1, 2]])
    [1]
    """
    shortest = min(map(len, prompts), default=1)
    columns = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*prompts, strict=False))
    return [column[0] for column in columns][: shortest - 1]


@dataclass(frozen=True)
class SharedPrefix:
    """What a prefix left behind.

    Attributes:
        token_ids: the prefix.
        snapshot: its K/V.
        hidden: its states [P, H], as of a :class:`Prefill`.
        seconds: what reading it took, once.
    """

    token_ids: Sequence[int]
    snapshot: Snapshot
    hidden: dict[int, Tensor]
    seconds: float

    @classmethod
    @torch.inference_mode()
    def read(
        cls,
        target: LanguageModel,
        token_ids: Sequence[int],
        clock: Clock,
        hidden_layers: Sequence[int] = (),
    ) -> SharedPrefix:
        """Read a prefix of at least one token."""
        cache = target.new_cache(1, len(token_ids))
        begin = clock.mark()
        output = target.read_prompt(token_ids, cache, hidden_layers)
        end = clock.mark()
        hidden = {layer: states[0] for layer, states in output.hidden.items()}
        snapshot = cache.snapshot(0, len(token_ids))
        return cls(token_ids, snapshot, hidden, clock.seconds(begin, end))

    @torch.inference_mode()
    def prefill(self, target: LanguageModel, token_ids: Sequence[int], clock: Clock) -> Prefill:
        """Read what a prompt has behind the prefix; its seconds are those of that alone."""
        known = len(self.token_ids)
        cache = target.new_cache(1, len(token_ids))
        begin = clock.mark()
        cache.restore(0, self.snapshot)
        rest = to_device([list(token_ids[known:])], target.device)
        output = target.forward(
            rest, cache, [known], last_only=True, hidden_layers=tuple(self.hidden)
        )
        end = clock.mark()
        return Prefill(
            layout=target.layout(token_ids),
            snapshot=cache.snapshot(0, len(token_ids)),
            logits=output.logits[0, -1],
            seconds=clock.seconds(begin, end),
            hidden={
                layer: torch.cat([self.hidden[layer], states[0]])
                for layer, states in output.hidden.items()
            },
        )
