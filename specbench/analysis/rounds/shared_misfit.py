"""Where the drafters of a run lie off their lines alike, tested load by load.

What is compared was measured on one target and engine at one batch size and context length, with
the same gammas; tasks, temperatures and drafters differ.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from specbench.analysis.pooling import GroupKey
from specbench.analysis.rounds.evidence import Evidence
from specbench.theory.round_lines import RoundLines
from specbench.theory.scatter import Scatter
from specbench.theory.shared_misfit import about_shared

_LEVEL = 0.05


def about_shared_misfits(groups: Iterable[tuple[GroupKey, Evidence]]) -> dict[GroupKey, Scatter]:
    """How far the gammas of chains lie off what their load's drafters have in common.

    Returns:
        For the groups where lines are shown to be wrong, at 5% for the whole run.
    """
    alike: dict[object, dict[GroupKey, RoundLines]] = {}
    for key, evidence in groups:
        lines = RoundLines.of(evidence.times, evidence.plain)
        if lines is not None and lines.size.size == len(evidence.times):  # all gammas drafted
            load = key.setting._replace(task="", temperature=0.0, top_k=0, top_p=1.0)
            alike.setdefault((load, tuple(evidence.times)), {})[key] = lines
    found: dict[GroupKey, Scatter] = {}
    for here in alike.values():
        misfits = np.array([lines.misfit for lines in here.values()])
        told = about_shared(misfits, _LEVEL / len(alike))
        if told is not None:
            found |= zip(here, told, strict=True)
    return found
