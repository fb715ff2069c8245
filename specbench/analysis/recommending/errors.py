"""What moves the fitted log speedups of a run away from the truth, all of them together.

- Clusters: conversations, the same ones for all candidates of a task, and above batch size 1 time
  blocks. How much conversations of one task differ is led towards what they do in the run's other
  tasks (:mod:`specbench.theory.moderated`): by few it is hardly told, and of many tasks the one
  whose few happen to agree would seem sure.
- Cells that were measured one after the other: every gamma, and the baselines.
- The acceptance model: what it does not know of the tokens at each gamma.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.fitted import GammaFit, GroupFit
from specbench.analysis.pooling import Setting
from specbench.analysis.recommending.clusters import conversations
from specbench.analysis.recommending.speed import GroupSpeed
from specbench.records.spec_text import is_synthetic
from specbench.theory.clusters import Numbers
from specbench.theory.moderated import moderated
from specbench.theory.scatter import Scatter
from specbench.theory.simultaneous import Deviations, Errors, Influence

_AS_KNOWN = 1e6  # degrees of freedom; as of the variance between studies, DerSimonian & Laird 1986


class Row(NamedTuple):
    """One gamma of a group, to become a candidate.

    Attributes:
        column: its place among the gammas of the speed.
        log: fitted log speedup.
        witnesses: the measured gammas that it rests on: itself, or its two neighbours.
    """

    group: GroupFit
    speed: GroupSpeed
    column: int
    log: float
    witnesses: tuple[GammaFit, ...]

    @property
    def gamma(self) -> int:
        """Tokens, levels of a tree, or the longest adaptive draft."""
        return self.speed.gammas[self.column]


class _Rows(NamedTuple):
    """Those of one group.

    Attributes:
        enough: whether it has clusters enough to be resampled.
        places: [m] among all rows.
        columns: [m] among the gammas of the speed.
    """

    speed: GroupSpeed
    enough: bool
    places: NDArray[np.int64]
    columns: NDArray[np.int64]


def errors_of(rows: Sequence[Row], cells: Mapping[Setting, Scatter]) -> Errors:
    """What moves the log speedups of some rows.

    Args:
        cells: how much cells of a setting differ; a setting is missing where nothing tells it.
    """
    keys = [row.group.key for row in rows]
    groups = []
    for key in dict.fromkeys(keys):
        places = np.array([place for place, own in enumerate(keys) if own == key], dtype=np.int64)
        group, speed = rows[places[0]].group, rows[places[0]].speed
        enough = group.evidence is not None and group.evidence.enough
        columns = np.array([rows[place].column for place in places], dtype=np.int64)
        groups.append(_Rows(speed, enough, places, columns))
    return Errors(len(rows), [*_clusters(groups), *_cells(groups, cells), *_models(groups)])


def _clusters(groups: Sequence[_Rows]) -> list[Influence]:
    """One part for each set of clusters."""
    sets: dict[Hashable, list[tuple[NDArray[np.int64], Numbers]]] = {}
    for rows in groups:
        for key, values in rows.speed.influences().items():
            own = values[:, rows.columns]
            known = own if rows.enough else np.full_like(own, np.nan)
            sets.setdefault(key, []).append((rows.places, known))
    found = {
        key: Influence(
            np.concatenate([places for places, _ in part]),
            np.concatenate([values for _, values in part], axis=1),
        )
        for key, part in sets.items()
    }
    tasks = dict.fromkeys(conversations(rows.speed.key.setting.task) for rows in groups)
    spreads = [_spread(found[key], _telling(groups)) for key in tasks]
    for key, alone, led in zip(tasks, spreads, moderated(spreads), strict=True):
        if alone is not None and led is not None and alone.variance > 0.0:
            factor = math.sqrt(led.variance / alone.variance)
            found[key] = found[key]._replace(
                values=factor * found[key].values, lent=led.freedom - alone.freedom
            )
    return list(found.values())


def _telling(groups: Sequence[_Rows]) -> NDArray[np.int64]:
    """Rows that tell how much conversations differ: not a synthetic drafter's, whose coin is the
    same for all of them, unless there are no others."""
    real = [rows for rows in groups if not is_synthetic(rows.speed.key.drafter)]
    return np.concatenate([rows.places for rows in real or groups])


def _spread(part: Influence, telling: NDArray[np.int64]) -> Scatter | None:
    """The mean variance of the log speedups of a task; None where a single conversation tells."""
    variance = part.variance()[np.isin(part.columns, telling)]
    known = variance[np.isfinite(variance)]
    return Scatter(float(known.mean()), part.freedom) if known.size else None


def _cells(groups: Sequence[_Rows], cells: Mapping[Setting, Scatter]) -> Iterator[Deviations]:
    """One part for each setting: its baselines, and the gammas of all its drafters."""
    for setting, scatter in cells.items():
        here = [rows for rows in groups if rows.speed.key.setting == setting]
        pulls: dict[Hashable, dict[int, float]] = {}
        for rows in here:
            for place, column in zip(rows.places.tolist(), rows.columns.tolist(), strict=True):
                for cell, pull in rows.speed.pulls(rows.speed.gammas[column]).items():
                    pulls.setdefault(cell, {})[place] = pull
        if here:
            places = np.concatenate([rows.places for rows in here])
            moved = [[own.get(place, 0.0) for place in places.tolist()] for own in pulls.values()]
            yield Deviations(places, np.array(moved), scatter.variance, scatter.freedom)


def _models(groups: Sequence[_Rows]) -> Iterator[Deviations]:
    """One part for each acceptance model that is off."""
    for rows in groups:
        misfit = rows.speed.tokens.misfit
        if misfit is not None and misfit.variance > 0.0:
            pulls = misfit.pulls([rows.speed.gammas[column] for column in rows.columns.tolist()])
            yield Deviations(rows.places, pulls, misfit.variance, _AS_KNOWN)
