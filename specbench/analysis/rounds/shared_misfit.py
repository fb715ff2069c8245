"""Where the drafters of a run lie off their lines alike, tested load by load.

What is compared was measured on one target and engine at one batch size and context length, with
the same gammas; tasks, temperatures and drafters differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specbench.analysis.pooling import GroupKey, Setting
from specbench.analysis.rounds.evidence import Evidence
from specbench.theory.clusters import Numbers
from specbench.theory.round_lines import RoundLines
from specbench.theory.scatter import Scatter
from specbench.theory.shared_misfit import bent, shared_by
from specbench.theory.smoothing import Smoothing

_LEVEL = 0.05


@dataclass(frozen=True)
class SharedMisfit:
    """What the drafters of one load have in common beside their lines.

    Attributes:
        load: a setting of theirs without what differs among them.
        misfit: measured gamma -> mean log of measured time over the line.
        about: how far the gammas of each lie off its line and that mean.
    """

    load: Setting
    misfit: Mapping[int, float]
    about: Mapping[GroupKey, Scatter]

    def left(self, lines: RoundLines) -> Numbers:
        """[gammas] how far one group's gammas lie off its line beyond that."""
        return np.asarray(lines.misfit - np.array(list(self.misfit.values())))

    def bend(self, key: GroupKey, lines: RoundLines) -> Smoothing:
        """A group's line with what is shared."""
        shared = np.array(list(self.misfit.values()))
        return bent(lines, shared, len(self.about), self.about[key])


def shared_misfits(groups: Iterable[tuple[GroupKey, Evidence]]) -> list[SharedMisfit]:
    """Loads at which lines are shown to be wrong, at 5% for the whole run.

    Args:
        groups: chains; those that drafted nothing at some gamma are not asked.
    """
    alike: dict[tuple[Setting, tuple[int, ...]], dict[GroupKey, RoundLines]] = {}
    for key, evidence in groups:
        lines = evidence.lines
        if lines is not None and lines.size.size == len(evidence.times):
            load = key.setting._replace(task="", temperature=0.0, top_k=0, top_p=1.0)
            alike.setdefault((load, tuple(evidence.times)), {})[key] = lines
    found = []
    for (load, gammas), here in alike.items():
        misfits = np.array([line.misfit for line in here.values()])
        bends = np.array([line.bend for line in here.values()])
        told = shared_by(misfits, bends, _LEVEL / len(alike))
        if told is not None:
            misfit = dict(zip(gammas, told.misfit.tolist(), strict=True))
            about = dict(zip(here, told.scatters, strict=True))
            found.append(SharedMisfit(load, misfit, about))
    return found


def about_shared(found: Sequence[SharedMisfit]) -> dict[GroupKey, Scatter]:
    """Of all loads."""
    return {key: scatter for one in found for key, scatter in one.about.items()}
