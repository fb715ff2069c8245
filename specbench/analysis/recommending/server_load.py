"""What a server meets: one task and temperature, and batch sizes that change with its load.

Settings that differ in batch size only belong together, and one drafter is loaded for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from specbench.analysis.pooling import GroupKey, Setting
from specbench.analysis.recommending.candidates import Candidate, Field
from specbench.analysis.recommending.choice import Choice, choose


class Load(NamedTuple):
    """A setting without its batch size."""

    task: str
    temperature: float
    target: str
    backend: str
    top_k: int
    top_p: float
    context_length: int | None

    @classmethod
    def of(cls, setting: Setting) -> Load:
        """The load that a setting is one batch size of."""
        return cls(*(getattr(setting, name) for name in cls._fields))

    def __str__(self) -> str:
        setting = Setting(batch_size=1, **self._asdict())
        return str(setting).replace(", batch 1", "")


@dataclass(frozen=True)
class Served:
    """One drafter under one load.

    Attributes:
        load: what is served.
        drafter: its SPEC.
        options: batch size -> its candidates there, ascending; at least one of each.
        choices: batch size -> what the rule chooses of them; gamma 0 where nothing is shown to pay.
    """

    load: Load
    drafter: str
    options: dict[int, tuple[Candidate, ...]]
    choices: dict[int, Choice]

    def key(self, batch_size: int) -> GroupKey:
        """Of the group at one batch size."""
        return self.options[batch_size][0].group.key

    @property
    def synthetic(self) -> bool:
        """Whether the drafter only calibrates."""
        return next(iter(self.options.values()))[0].group.synthetic

    @property
    def foreign(self) -> bool:
        """Whether it was imported or a server's, so that its SPEC may name no weights of ours."""
        return next(iter(self.options.values()))[0].group.imported_from is not None


def served(field: Field) -> tuple[Served, ...]:
    """Every drafter under every load of a run, in the order in which they were measured."""
    found: dict[tuple[Load, str], dict[int, list[Candidate]]] = {}
    for candidate in field.candidates:
        setting, drafter = candidate.group.key
        if setting.request_rate:
            continue  # how many are in flight at a rate is not set
        sizes = found.setdefault((Load.of(setting), drafter), {})
        sizes.setdefault(setting.batch_size, []).append(candidate)
    return tuple(_served(load, drafter, sizes) for (load, drafter), sizes in found.items())


def _served(load: Load, drafter: str, sizes: dict[int, list[Candidate]]) -> Served:
    options: dict[int, tuple[Candidate, ...]] = {size: tuple(sizes[size]) for size in sorted(sizes)}
    return Served(load, drafter, options, {size: choose(own) for size, own in options.items()})


def best_served(drafters: Sequence[Served]) -> Served | None:
    """The drafter to load under one load: with the highest mean log speedup over batch sizes.

    Sizes count alike; where a drafter is not shown to pay, or was not measured, it gives 1. None
    where none pays anywhere.
    """
    paying = [one for one in drafters if any(choice.gamma for choice in one.choices.values())]
    return max(paying, key=_worth, default=None)


def _worth(one: Served) -> tuple[float, int]:
    product, tokens = 1.0, 0
    for choice in one.choices.values():
        product, tokens = product * choice.speedup, tokens + choice.gamma
    return product, -tokens
