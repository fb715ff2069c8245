"""A run as claims read it: what was fitted of each drafter, and sums by conversation behind it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from specbench.analysis.fitted import GammaFit, GroupFit, RunFit
from specbench.analysis.machine.measured import cost_of
from specbench.analysis.pooling import Group, Raw, RawTables, Setting, groups
from specbench.analysis.shown.names import gamma_label, short_names
from specbench.records.conversations import Column, by_conversation
from specbench.records.reading import Run
from specbench.records.spec_text import kind_of, split_spec
from specbench.theory.clusters import Numbers


@dataclass(frozen=True)
class Drafted:
    """One drafter in one setting: its fit and the cells behind it.

    Attributes:
        name: the drafter as texts show it.
    """

    fit: GroupFit
    group: Group
    name: str

    @property
    def setting(self) -> Setting:
        """The setting."""
        return self.fit.key.setting

    @property
    def kind(self) -> str:
        """The drafter's kind, e.g. ngram or model."""
        return kind_of(self.fit.key.drafter)

    @property
    def has_rounds(self) -> bool:
        """Whether there are raw rounds; imported results have none."""
        return self.fit.imported_from is None

    @property
    def clusters(self) -> int | None:
        """Conversations that its intervals rest on; None where they are not known."""
        return self.fit.num_prompts or None

    @property
    def points(self) -> dict[int, GammaFit]:
        """gamma -> what was measured."""
        return {point.gamma: point for point in self.fit.points}

    def where(self, *leave_out: str, gamma: int | None = None) -> str:
        """The cells in words, without the fields that the comparison names itself."""
        setting = self.setting
        parts = {
            "task": setting.task,
            "temperature": f"T = {setting.temperature:g}",
            "batch_size": f"batch {setting.batch_size}",
        }
        if setting.context_length is not None:
            parts["context_length"] = f"context {setting.context_length}"
        told = [text for field, text in parts.items() if field not in leave_out]
        label = f" γ = {gamma_label(self.fit.draft_form, gamma)}" if gamma is not None else ""
        return f"{self.name}{label} ({', '.join(told)})"

    def cost(self, name: str) -> float | None:
        """A number of what a forward moves (see specbench.records.traffic.Cost), if recorded."""
        return cost_of([cell for cells in self.group.cells.values() for cell in cells], name)


class View:
    """A fitted run with its raw tables, each read when first asked for."""

    def __init__(self, run: Run, fitted: RunFit) -> None:
        usable = (cell for cell in run.cells if cell.cell_id not in fitted.unusable)
        by_key = {group.key: group for group in groups(usable)}
        names = short_names(fit.key.drafter for fit in fitted.groups)
        found = [Drafted(fit, by_key[fit.key], names[fit.key.drafter]) for fit in fitted.groups]
        self.manifest, self.cells, self._tables = run.manifest, run.cells, RawTables(run)
        self.everything = tuple(found)
        self.drafted = tuple(one for one in found if not one.fit.synthetic)
        """Without synthetic drafters, whose acceptance somebody chose."""
        self.chains = tuple(one for one in self.drafted if one.fit.draft_form == "chain")

    def raw(self, one: Drafted, gamma: int) -> Raw:
        """Rounds and requests of one gamma, repeats joined."""
        return self._tables.joined(one.group.cells[gamma])

    def baselines(self, one: Drafted) -> Raw | None:
        """Rounds and requests of its baselines, joined; None without any."""
        return self._tables.joined(one.group.baselines) if one.group.baselines else None

    def sums(
        self, one: Drafted, top: Column, bottom: Column, gammas: Iterable[int]
    ) -> dict[str, Numbers]:
        """conversation -> sums [2] of two columns over the rounds of some gammas; those whose
        second one is 0 are left out."""
        sums = by_conversation((self.raw(one, gamma) for gamma in gammas), top, bottom)
        return {name: pair for name, pair in sums.items() if pair[1]}


def extremes(found: Iterable[Drafted], field: str) -> Iterator[tuple[Drafted, Drafted]]:
    """Of those alike in all but one field of their setting, the smallest and the largest value."""
    for alike in _alike(found, field):
        ordered = sorted(alike, key=lambda one: _value(one, field))
        if len(ordered) > 1:
            yield ordered[0], ordered[-1]


def task_pairs(
    found: Iterable[Drafted], left: Sequence[str], right: Sequence[str]
) -> Iterator[tuple[Drafted, Drafted]]:
    """Those alike in all but the task: each of the left tasks with each of the right ones."""
    for alike in _alike(found, "task"):
        for one, other in combinations(alike, 2):
            if one.setting.task in left and other.setting.task in right:
                yield one, other
            elif other.setting.task in left and one.setting.task in right:
                yield other, one


def shared_gammas(left: Drafted, right: Drafted) -> list[int]:
    """Gammas that both were measured at."""
    return sorted(left.group.cells.keys() & right.group.cells.keys())


def without_tree(drafter: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A SPEC's kind and options without those that make its drafts trees."""
    head, options = split_spec(drafter)
    return head, tuple(option for option in options if option[0] not in ("tree", "topk"))


def _alike(found: Iterable[Drafted], field: str) -> Iterable[list[Drafted]]:
    alike: dict[tuple[Any, ...], list[Drafted]] = defaultdict(list)
    for one in found:
        others = {name: value for name, value in one.setting._asdict().items() if name != field}
        alike[(one.fit.key.drafter, *others.values())].append(one)
    return alike.values()


def _value(one: Drafted, field: str) -> Any:
    return getattr(one.setting, field)
