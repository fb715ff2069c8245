"""Sums over the rows of each conversation, the independent unit of what is not timed in batches.

>>> rounds = {"request": [0, 1, 1], "num_accepted": [2, 1, 3]}
>>> requests = {"conversation": ["b", "a"]}
>>> by_conversation([(rounds, requests)], column("num_accepted"), ones)
{'a': array([4., 2.]), 'b': array([2., 1.])}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbench.records.steps import Columns, Numbers, integers, numbers, values
from specbench.theory.clusters import cluster_sums

FEW_PROMPTS = 6
"""Fewer conversations than this are said beside their intervals."""

_FEW = "few prompts"

Tables = tuple[Columns, Columns]
"""The rounds and the requests of one cell."""

Column = Callable[[Columns], ArrayLike]
"""From a table of rounds to one number per row."""


def few_prompts(conversations: int) -> list[str]:
    """The warning of a cell whose intervals rest on few conversations, if they do."""
    told = f"{_FEW}: intervals rest on {conversations}"
    return [told] if conversations < FEW_PROMPTS else []


def rests_on_few(warnings: Iterable[str]) -> bool:
    """Whether warnings of a cell hold that of :func:`few_prompts`."""
    return any(warning.startswith(_FEW) for warning in warnings)


def column(name: str) -> Column:
    """A column as it stands."""
    return lambda rounds: numbers(rounds, name)


def ones(rounds: Columns) -> Numbers:
    """One per row, which counts rounds."""
    return np.ones(integers(rounds, "request").size)


def by_conversation(tables: Iterable[Tables], *columns: Column) -> dict[str, Numbers]:
    """Conversation -> sums [columns] over its rounds in some tables.

    Those without rounds are missing.
    """
    sums: dict[str, Numbers] = {}
    for rounds, requests in tables:
        amounts = (of(rounds) for of in columns)
        add(sums, conversations_of(requests), *amounts, owners=integers(rounds, "request"))
    return sums


def add(
    sums: dict[str, Numbers],
    names: ArrayLike,
    *amounts: ArrayLike,
    owners: NDArray[np.int64] | None = None,
) -> None:
    """Add amounts to the sums of their names.

    Args:
        sums: name -> [amounts], changed in place.
        names, amounts, owners: as :func:`specbench.theory.clusters.cluster_sums` takes them.
    """
    found, columns = cluster_sums(names, *amounts, owners=owners)
    for name, row in zip(found.tolist(), np.column_stack(columns), strict=True):
        sums[name] = sums[name] + row if name in sums else row


def conversations_of(requests: Columns) -> NDArray[np.str_]:
    """The conversation of each request."""
    return np.asarray(values(requests, "conversation"), dtype=np.str_)


def rows_of(rounds: Columns, requests: Columns) -> tuple[NDArray[np.str_], NDArray[np.int64]]:
    """The conversations, sorted, and which of them each row of a table belongs to: [rows]."""
    names, of_request = np.unique(conversations_of(requests), return_inverse=True)
    return names, of_request[integers(rounds, "request")]


def paired(own: Mapping[str, Numbers], other: Mapping[str, Numbers]) -> Numbers:
    """Two sums of either side, of the names that both have, in their order: [shared, 4]."""
    shared = sorted(own.keys() & other.keys())
    return np.array([(*own[name], *other[name]) for name in shared]).reshape(-1, 4)
