"""Which memory a cell gets: caches of its own, or ones that outlive it with what was captured.

A captured step is bound to the addresses of its cache. So where steps are captured, cells of equal
batch size take turns with one cache per model, as large as the largest of them needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable

from torch import nn

from specbench.models.cache import RowCache
from specbench.models.capture import Capturing, Steps
from specbench.models.extents import round_up

LONGEST_CAPTURED_PROMPT = 512
"""Beyond so many tokens a forward computes for longer than its launches take, and what rounding up
adds to it costs more than replaying saves; a judgement, not a measurement."""


class Caches:
    """The caches of an engine.

    Args:
        capturing: None gives every cell a new cache of the size it asks for, and captures nothing.
    """

    def __init__(self, capturing: Capturing | None = None) -> None:
        self.capturing = capturing
        self._cells: dict[tuple[Hashable, int], RowCache] = {}
        self._prompts: dict[Hashable, RowCache] = {}
        self._steps: dict[tuple[nn.Module, int], Steps] = {}

    def take(
        self,
        owner: Hashable,
        num_rows: int,
        num_slots: int,
        kind: Callable[..., RowCache] = RowCache,
    ) -> RowCache:
        """An empty cache for one cell.

        Args:
            owner: the model whose keys and values go in; has one cache per number of rows.
            num_rows: B.
            num_slots: tokens that a row must be able to hold.
            kind: the class of the owner's caches.
        """
        if self.capturing is None:
            return kind(num_rows, num_slots)
        cache = self._cells.get((owner, num_rows))
        if cache is None or cache.num_slots < num_slots:
            if cache is not None:
                cache.free()  # before the next one takes memory
            cache = kind(num_rows, round_up(num_slots), Steps(self.capturing))
            self._cells[owner, num_rows] = cache
        cache.clear()
        return cache

    def for_prompt(
        self,
        owner: Hashable,
        length: int,
        limit: int,
        kind: Callable[..., RowCache] = RowCache,
    ) -> RowCache:
        """A cache to read one prompt of ``length`` tokens into, for a copy to be taken from.

        Args:
            owner: the model that reads it.
            limit: positions that the model has.
            kind: the class of its caches.
        """
        if self.capturing is None or round_up(length) > min(LONGEST_CAPTURED_PROMPT, limit):
            return kind(1, length)
        if owner not in self._prompts:
            self._prompts[owner] = kind(1, LONGEST_CAPTURED_PROMPT, Steps(self.capturing))
        return self._prompts[owner]

    def steps(self, owner: nn.Module, num_rows: int) -> Steps:
        """The captured steps of a module that has no cache."""
        key = (owner, num_rows)
        if key not in self._steps:
            self._steps[key] = Steps(self.capturing)
        return self._steps[key]

    def drop_others(self, batch_sizes: Collection[int]) -> None:
        """Free the caches of cells of other batch sizes, with what was captured over them."""
        for owner, num_rows in list(self._cells):
            if num_rows not in batch_sizes:
                self._cells.pop((owner, num_rows)).free()
        self._steps = {key: steps for key, steps in self._steps.items() if key[1] in batch_sizes}
