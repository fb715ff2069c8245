"""Everything that a run lets one choose from: each drafter at each gamma in each setting.

A candidate's speedup is fitted (:mod:`specbench.analysis.recommending.speed`), with three measures
of how sure it is: an interval of its own, a lower bound that holds for all candidates of the run
together (:mod:`specbench.theory.simultaneous`), and resampled speedups, in which conversations are
drawn anew, the same ones for all candidates, and which are moved by as much as cells differ and
acceptance models are off (:mod:`specbench.analysis.recommending.errors`).

Imported cells have no rounds. Their measured speedups stand as they are, with the intervals of
their source if it gives any, widened for all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from specbench.analysis.fitted import GammaFit, GroupFit
from specbench.analysis.pooling import Setting
from specbench.analysis.recommending.clusters import RESAMPLES, draw
from specbench.analysis.recommending.errors import Row, errors_of
from specbench.analysis.recommending.speed import GroupSpeed
from specbench.records.schema import DIVERGED
from specbench.theory.clusters import Numbers
from specbench.theory.differences import simultaneous
from specbench.theory.scatter import Scatter
from specbench.theory.simultaneous import Deviations, Errors, interval, lower_bounds

SEED = 0
_NORMAL = 1.96  # half the width of a 95% interval in standard errors


@dataclass(frozen=True, eq=False)
class Candidate:
    """One drafter at one gamma in one setting.

    Attributes:
        group: its fit.
        gamma: tokens, levels of a tree, or the longest adaptive draft.
        speedup: fitted.
        ci: its own 95% interval; None where there is too little for one.
        bound: lower bound that holds together with those of all candidates of the run; of a gamma
            between two measured ones the smaller one of theirs.
        witnesses: the measured gammas that it rests on: itself, or its two neighbours.
        drawn: gives ``logs``, which few candidates are ever asked for.
    """

    group: GroupFit
    gamma: int
    speedup: float
    ci: tuple[float, float] | None
    bound: float | None
    witnesses: tuple[GammaFit, ...]
    drawn: Callable[[], Numbers]

    @cached_property
    def logs(self) -> Numbers:
        """[RESAMPLES] resampled log speedups; NaN where they can't be told."""
        return self.drawn()

    @property
    def setting(self) -> Setting:
        """Where it was measured."""
        return self.group.key.setting

    @property
    def noise_floor(self) -> float | None:
        """How much the baselines of its block differ."""
        floors = [point.noise_floor for point in self.witnesses if point.noise_floor is not None]
        return max(floors, default=None)


def diverged(one: Candidate | Row) -> bool:
    """Whether the output of a measurement that it rests on DIVERGED from plain decoding."""
    return any(point.lossless == DIVERGED for point in one.witnesses)


def comparable(one: Candidate | Row) -> bool:
    """Whether it could be used, if it pays: nobody would use a synthetic drafter or a wrong one."""
    return not one.group.synthetic and not diverged(one)


@dataclass(frozen=True, eq=False)
class Resamples:
    """One group's log speedups over the draws of its clusters."""

    speed: GroupSpeed
    draws: Mapping[Hashable, Numbers]

    @cached_property
    def logs(self) -> Numbers:
        """[RESAMPLES, gammas]."""
        return self.speed.logs(self.speed.clusters.weights(self.draws))

    def moved(self, column: int, by: Numbers) -> Numbers:
        """One gamma's, moved by [RESAMPLES]."""
        return np.asarray(self.logs[:, column] + by)


@dataclass(frozen=True, eq=False)
class Field:
    """All candidates of a run, which are looked at together.

    Attributes:
        candidates: in the order of the groups, gammas ascending.
        speeds: of the groups that have rounds.
        draws: set of clusters -> how often each was drawn, [RESAMPLES, clusters].
    """

    candidates: tuple[Candidate, ...]
    speeds: tuple[GroupSpeed, ...]
    draws: dict[Hashable, Numbers]

    @cached_property
    def by_setting(self) -> dict[Setting, tuple[Candidate, ...]]:
        """The candidates of each setting."""
        found: dict[Setting, list[Candidate]] = {}
        for candidate in self.candidates:
            found.setdefault(candidate.setting, []).append(candidate)
        return {setting: tuple(here) for setting, here in found.items()}

    def speed_of(self, group: GroupFit) -> GroupSpeed | None:
        """How a group's speedups come about; None of an imported one."""
        return next((speed for speed in self.speeds if speed.key == group.key), None)


def field_of(
    groups: Sequence[GroupFit],
    speeds: Sequence[GroupSpeed],
    cells: Mapping[Setting, Scatter],
    max_gamma: int | None,
) -> Field:
    """All candidates of a run.

    Args:
        groups: its fitted groups.
        speeds: of those that have rounds.
        cells: how much cells of a setting differ; empty where nothing tells it.
        max_gamma: the longest draft that is considered; None: no limit.
    """
    draws = draw({key: n.size for speed in speeds for key, n in speed.clusters.sets.items()}, SEED)
    by_key = {group.key: group for group in groups}
    rows = [row for speed in speeds for row in _rows(by_key[speed.key], speed, max_gamma)]
    own = {speed.key for speed in speeds}
    told = _imported([group for group in groups if group.key not in own], max_gamma)
    order = {group.key: place for place, group in enumerate(groups)}
    found = [*_fitted(rows, cells, draws), *told]
    found.sort(key=lambda one: (order[one.group.key], one.gamma))
    return Field(tuple(found), tuple(speeds), draws)


def _rows(group: GroupFit, speed: GroupSpeed, max_gamma: int | None) -> Iterator[Row]:
    """The gammas of a group; what can't be told is left out."""
    for column, log in enumerate(speed.logs(np.ones(speed.clusters.size)).tolist()):
        witnesses = _witnesses(group, speed.gammas[column])
        if not _beyond(speed.gammas[column], max_gamma) and math.isfinite(log) and witnesses:
            yield Row(group, speed, column, log, witnesses)


def _fitted(
    rows: Sequence[Row], cells: Mapping[Setting, Scatter], draws: dict[Hashable, Numbers]
) -> list[Candidate]:
    """The candidates of all groups with rounds."""
    estimates = np.array([row.log for row in rows])
    errors = errors_of(rows, cells)
    low, high = interval(estimates, errors)
    bounds = _bounds(rows, estimates, errors)
    moved = _moved(errors)
    resamples = {row.group.key: Resamples(row.speed, draws) for row in rows}
    return [
        Candidate(
            row.group,
            row.gamma,
            math.exp(row.log),
            (math.exp(low[place]), math.exp(high[place])) if np.isfinite(low[place]) else None,
            None if np.isnan(bounds[place]) else math.exp(bounds[place]),
            row.witnesses,
            partial(resamples[row.group.key].moved, row.column, moved[:, place]),
        )
        for place, row in enumerate(rows)
    ]


def _beyond(gamma: int, max_gamma: int | None) -> bool:
    return max_gamma is not None and gamma > max_gamma


def _witnesses(group: GroupFit, gamma: int) -> tuple[GammaFit, ...]:
    """The gamma's own measurement, or those of its two neighbours."""
    measured = {point.gamma: point for point in group.points if point.speedup is not None}
    near = (
        max((known for known in measured if known <= gamma), default=None),
        min((known for known in measured if known >= gamma), default=None),
    )
    return tuple(measured[known] for known in dict.fromkeys(near) if known is not None)


def _bounds(rows: Sequence[Row], estimates: Numbers, errors: Errors) -> Numbers:
    """Of all that could be used; of others NaN.

    Measured gammas are compared; one between two of them has the smaller bound of theirs, and adds
    nothing to what is compared: tokens rise ever slower with gamma, times do not, and so a speedup
    between two others is no smaller than both of them.
    """
    place_of = {(row.group.key, row.gamma): place for place, row in enumerate(rows)}
    near = [
        [place_of.get((row.group.key, point.gamma), place) for point in row.witnesses]
        for place, row in enumerate(rows)
    ]
    compared = np.zeros(len(rows), dtype=np.bool_)
    for row, places in zip(rows, near, strict=True):
        compared[places] |= comparable(row)
    bounds = np.full(len(rows), np.nan)
    bounds[compared] = lower_bounds(estimates[compared], errors.only(compared), seed=SEED)
    smaller = [bounds[places].min() for places in near]
    return np.asarray(np.minimum(smaller, estimates))


def _moved(errors: Errors) -> Numbers:
    """[RESAMPLES, candidates] by how much cells, and what models do not know, move the logs."""
    generator, moved = np.random.default_rng(SEED), np.zeros((RESAMPLES, errors.count))
    for part in errors.parts:
        if isinstance(part, Deviations):
            moved[:, part.columns] += part.moves(generator, RESAMPLES)
    return moved


def _imported(groups: Sequence[GroupFit], max_gamma: int | None) -> list[Candidate]:
    """The candidates of groups without rounds, each as measured."""
    points = [
        (group, point)
        for group in groups
        for point in group.points
        if point.speedup is not None and not _beyond(point.gamma, max_gamma)
    ]
    generator = np.random.default_rng(SEED)
    found = []
    for group, point in points:
        assert point.speedup is not None
        log, bound, spread = math.log(point.speedup), None, math.nan
        if point.speedup_ci is not None:
            low, high = (math.log(end) for end in point.speedup_ci)
            clusters = group.num_prompts or None
            bound = math.exp(simultaneous(log, (low, high), len(points), clusters)[0])
            spread = (high - low) / (2.0 * _NORMAL)
        drawn = partial(np.add, log, spread * generator.normal(size=RESAMPLES))
        found.append(
            Candidate(group, point.gamma, point.speedup, point.speedup_ci, bound, (point,), drawn)
        )
    return found
