"""The independent clusters of a group, in the sets that are resampled apart.

Conversations of one task are one set in the whole run, so that all drafters, gammas, temperatures
and batch sizes lose or repeat the same ones. Above batch size 1 times have their own clusters:
every gamma and every baseline of a setting is a set of time blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.pooling import GroupKey
from specbench.analysis.rounds.evidence import Evidence
from specbench.theory.clusters import Numbers

Names = NDArray[np.str_]

RESAMPLES = 1000


@dataclass(frozen=True, eq=False)
class Clusters:
    """Sets of clusters, end to end.

    Attributes:
        sets: what tells a set from others in the run -> its names, all different.
    """

    sets: Mapping[Hashable, Names]

    @property
    def size(self) -> int:
        """Clusters in all sets together."""
        return sum(names.size for names in self.sets.values())

    def slices(self) -> dict[Hashable, slice]:
        """Where each set lies."""
        found, start = {}, 0
        for key, names in self.sets.items():
            found[key] = slice(start, start + names.size)
            start += names.size
        return found

    def aligned(self, key: Hashable, names: Names, sums: Numbers) -> Numbers:
        """Sums [names, ...] of some clusters of one set as rows of all: [size, ...]."""
        rows = np.zeros((self.size, *sums.shape[1:]))
        rows[self.slices()[key].start + np.searchsorted(self.sets[key], names)] = sums
        return rows

    def influence(self, key: Hashable, statistic: Callable[[Numbers], Numbers]) -> Numbers:
        """What each cluster of a set adds to a statistic, by jackknife: [names, m].

        Efron & Tibshirani 1993, An Introduction to the Bootstrap, ch. 11. NaN where the set has a
        single cluster.

        Args:
            statistic: weights of all clusters [n, size] -> [n, m].
        """
        place = self.slices()[key]
        count = place.stop - place.start
        without = np.ones((count, self.size))
        without[:, place] -= np.eye(count)
        left_out = statistic(without)
        if count == 1:
            return np.full_like(left_out, np.nan)
        return np.asarray((left_out.mean(axis=0) - left_out) * (count - 1) / count)

    def weights(self, draws: Mapping[Hashable, Numbers]) -> Numbers:
        """Draws of each set, [resamples, names] each, end to end: [resamples, size]."""
        return np.concatenate([draws[key] for key in self.sets], axis=-1)


def conversations(task: str) -> Hashable:
    """The set of a task's conversations."""
    return ("conversations", task)


def blocks(key: GroupKey, gamma: int) -> Hashable:
    """The set of the time blocks of one gamma."""
    return ("blocks", key, gamma)


def plain_blocks(key: GroupKey, baseline: str) -> Hashable:
    """The set of the time blocks of one baseline, which a setting's drafters share."""
    return ("plain", key.setting, baseline)


def baselines_of(evidence: Evidence) -> dict[str, Names]:
    """The time blocks of each baseline, by its label; above batch size 1."""
    names = evidence.plain.names
    labels = np.array([name.rpartition(",")[0] for name in names.tolist()])
    return {label: names[labels == label] for label in dict.fromkeys(labels.tolist())}


def clusters_of(key: GroupKey, evidence: Evidence, in_task: Names) -> Clusters:
    """The clusters that a group's speed depends on.

    Args:
        key: of the group.
        evidence: its sums.
        in_task: all conversations of its task in the run, sorted.
    """
    sets: dict[Hashable, Names] = {conversations(key.setting.task): in_task}
    if not evidence.paired:
        sets |= {blocks(key, gamma): part.names for gamma, part in evidence.times.items()}
        for label, names in baselines_of(evidence).items():
            sets[plain_blocks(key, label)] = names
    return Clusters(sets)


def conversations_by_task(groups: Iterable[tuple[GroupKey, Evidence]]) -> dict[str, Names]:
    """Task -> the sorted names of all its conversations."""
    found: dict[str, set[str]] = {}
    for key, evidence in groups:
        known = found.setdefault(key.setting.task, set())
        known |= {name for part in evidence.tokens.values() for name in part.names.tolist()}
        if evidence.paired:
            known |= set(evidence.plain.names.tolist())
    return {task: np.array(sorted(names)) for task, names in found.items()}


def draw(sets: Mapping[Hashable, int], seed: int) -> dict[Hashable, Numbers]:
    """How often each cluster of each set is drawn: [RESAMPLES, clusters] each.

    Args:
        sets: their numbers of clusters, in an order that is the same for the same run.
        seed: of the bootstrap.
    """
    generator = np.random.default_rng(seed)
    return {
        key: generator.multinomial(size, np.full(size, 1.0 / size), RESAMPLES).astype(np.float64)
        for key, size in sets.items()
    }
