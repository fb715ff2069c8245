"""Seconds to the first token with and without a drafter, by conversation.

A drafter reads the prompt too, which is paid once per answer. All gammas of a group are taken
together, since the prompt is read before anything is drafted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.pooling import Raw
from specbench.records.steps import numbers, values
from specbench.theory.clusters import Numbers, cluster_sums


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
        with np.errstate(divide="ignore", invalid="ignore"):
            own, plain = (
                np.divide(*np.moveaxis(weights @ part, -1, 0)) for part in (self.own, self.plain)
            )
        return np.asarray(own - plain)


def waits_of(raw: Sequence[Raw], baselines: Sequence[Raw]) -> Waits | None:
    """The waits of a group.

    Args:
        raw: rounds and requests of its cells.
        baselines: of each baseline.

    Returns:
        None where no conversation was timed both ways.
    """
    own, plain = (_by_conversation(tables) for tables in (raw, baselines))
    names = sorted(own.keys() & plain.keys())
    if not names:
        return None
    return Waits(
        np.array(names),
        np.array([own[name] for name in names]),
        np.array([plain[name] for name in names]),
    )


def _by_conversation(tables: Sequence[Raw]) -> dict[str, Numbers]:
    """Conversation -> seconds and requests; requests without a time are left out."""
    sums: dict[str, Numbers] = {}
    for _, requests in tables:
        waits = numbers(requests, "ttft_s")
        known = ~np.isnan(waits)
        conversations = np.asarray(values(requests, "conversation"), dtype=np.str_)[known]
        names, columns = cluster_sums(conversations, waits[known], np.ones(int(known.sum())))
        for name, pair in zip(names.tolist(), np.column_stack(columns), strict=True):
            sums[name] = sums.get(name, np.zeros(2)) + pair
    return sums
