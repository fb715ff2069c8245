"""Seconds to the first token with and without a drafter, by conversation.

A drafter reads the prompt too, which is paid once per answer. All gammas of a group are taken
together, since the prompt is read before anything is drafted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.pooling import Raw
from specbench.records.conversations import add, conversations_of
from specbench.records.steps import Columns, numbers
from specbench.theory.clusters import Numbers, ratio


@dataclass(frozen=True, eq=False)
class Waits:
    """Of the conversations that were timed both ways.

    Attributes:
        names: [conversations] sorted, at least one.
        own, plain: [conversations, 2] seconds to the first token, and requests.
    """

    names: NDArray[np.str_]
    own: Numbers
    plain: Numbers

    def extra_s(self, weights: Numbers) -> Numbers:
        """Seconds that the drafter adds to a first token: weights [..., conversations] -> [...]."""
        own, plain = (ratio(*np.moveaxis(weights @ part, -1, 0)) for part in (self.own, self.plain))
        return np.asarray(own - plain)


def waits_of(raw: Sequence[Raw], baselines: Sequence[Raw]) -> Waits | None:
    """The waits of a group.

    Args:
        raw: rounds and requests of its cells.
        baselines: of each baseline.

    Returns:
        None where no conversation was timed both ways.
    """
    own, plain = (
        waits_by_conversation(requests for _, requests in tables) for tables in (raw, baselines)
    )
    names = sorted(own.keys() & plain.keys())
    if not names:
        return None
    return Waits(
        np.array(names),
        np.array([own[name] for name in names]),
        np.array([plain[name] for name in names]),
    )


def waits_by_conversation(tables: Iterable[Columns]) -> dict[str, Numbers]:
    """Conversation -> seconds to the first token, and requests, of which those without a time are
    left out."""
    sums: dict[str, Numbers] = {}
    for requests in tables:
        waits = numbers(requests, "ttft_s")
        known = ~np.isnan(waits)
        add(sums, conversations_of(requests)[known], waits[known], np.ones(int(known.sum())))
    return sums
