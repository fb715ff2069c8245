"""Everything that a run lets one choose from: each drafter at each gamma in each setting.

A candidate's speedup is fitted (:mod:`specbench.analysis.recommending.speed`), with three measures
of how sure it is: an interval of its own, a lower bound that holds for all candidates of the run
together (:mod:`specbench.theory.simultaneous`), and resampled speedups, in which conversations are
drawn anew, the same ones for all candidates, and cells are moved by as much as cells differ.

Imported cells have no rounds. Their measured speedups stand as they are, with the intervals of
their source if it gives any, widened for all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from specbench.analysis.fit import GammaFit, GroupFit, Setting
from specbench.analysis.recommending.clusters import RESAMPLES, draw
from specbench.analysis.recommending.speed import GroupSpeed
from specbench.theory.clusters import Numbers
from specbench.theory.differences import simultaneous
from specbench.theory.round_lines import Scatter
from specbench.theory.simultaneous import Errors, Influence, interval, lower_bounds

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
            between two measured ones at most theirs, since round times may bend there.
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
    scatter: Scatter | None,
    max_gamma: int | None,
) -> Field:
    """All candidates of a run.

    Args:
        groups: its fitted groups.
        speeds: of those that have rounds.
        scatter: how much cells differ; None where nothing tells it.
        max_gamma: the longest draft that is considered; None: no limit.
    """
    draws = draw({key: n.size for speed in speeds for key, n in speed.clusters.sets.items()}, SEED)
    by_key = {group.key: group for group in groups}
    pairs = [(by_key[speed.key], speed) for speed in speeds]
    fitted = _fitted(pairs, scatter, draws, max_gamma)
    own = {speed.key for speed in speeds}
    told = _imported([group for group in groups if group.key not in own], max_gamma)
    order = {group.key: place for place, group in enumerate(groups)}
    found = sorted([*fitted, *told], key=lambda one: (order[one.group.key], one.gamma))
    return Field(tuple(found), tuple(speeds), draws)


def _fitted(
    pairs: Sequence[tuple[GroupFit, GroupSpeed]],
    scatter: Scatter | None,
    draws: dict[Hashable, Numbers],
    max_gamma: int | None,
) -> list[Candidate]:
    """The candidates of all groups with rounds; what can't be told is left out."""
    rows = [
        (group, speed, column, float(log), witnesses)
        for group, speed in pairs
        for column, log in enumerate(speed.logs(np.ones(speed.clusters.size)))
        if not _beyond(speed.gammas[column], max_gamma)
        and np.isfinite(log)
        and (witnesses := _witnesses(group, speed.gammas[column]))
    ]
    places: dict[Hashable, list[int]] = {}
    for place, (group, *_) in enumerate(rows):
        places.setdefault(group.key, []).append(place)
    estimates = np.array([log for *_, log, _ in rows])
    errors = _errors(pairs, [(speed, column) for _, speed, column, *_ in rows], places, scatter)
    low, high = interval(estimates, errors)
    bounds = _bounds(estimates, errors, [group.synthetic for group, *_ in rows])
    measured = {(g.key, speed.gammas[c]): place for place, (g, speed, c, *_) in enumerate(rows)}
    for place, (group, *_, witnesses) in enumerate(rows):
        near = [measured.get((group.key, point.gamma), place) for point in witnesses]
        bounds[place] = bounds[[place, *near]].min()
    moved = _moved_by_cells(errors)
    resamples = {speed.key: Resamples(speed, draws) for _, speed in pairs}
    return [
        Candidate(
            group,
            speed.gammas[column],
            math.exp(log),
            (math.exp(low[place]), math.exp(high[place])) if np.isfinite(low[place]) else None,
            None if np.isnan(bounds[place]) else math.exp(bounds[place]),
            witnesses,
            partial(resamples[group.key].moved, column, moved[:, place]),
        )
        for place, (group, speed, column, log, witnesses) in enumerate(rows)
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


def _errors(
    pairs: Sequence[tuple[GroupFit, GroupSpeed]],
    rows: Sequence[tuple[GroupSpeed, int]],
    places: dict[Hashable, list[int]],
    scatter: Scatter | None,
) -> Errors:
    """What moves the candidates: clusters, the same ones for all that share a set, and cells."""
    parts: dict[Hashable, list[tuple[list[int], Numbers]]] = {}
    for group, speed in pairs:
        here = places.get(speed.key, [])
        enough = group.evidence is not None and group.evidence.enough
        for key, values in speed.influences().items():
            own = values[:, [rows[place][1] for place in here]]
            parts.setdefault(key, []).append((here, own if enough else np.full_like(own, np.nan)))
    influences = [
        Influence(
            np.array([place for here, _ in part for place in here], dtype=np.int64),
            np.concatenate([values for _, values in part], axis=1),
        )
        for part in parts.values()
    ]
    cells: dict[Hashable, Numbers] = {}
    for place, (speed, column) in enumerate(rows):
        for cell, pull in speed.pulls(speed.gammas[column]).items():
            cells.setdefault(cell, np.zeros(len(rows)))[place] = pull
    pulls = np.array(list(cells.values())).reshape(len(cells), len(rows))
    return Errors(influences, pulls, *(scatter or ()))


def _bounds(estimates: Numbers, errors: Errors, synthetic: Sequence[bool]) -> Numbers:
    """Of all but synthetic drafters, which nobody would choose: NaN."""
    known = ~np.array(synthetic, dtype=np.bool_)
    bounds = np.full(estimates.size, np.nan)
    bounds[known] = lower_bounds(estimates[known], errors.only(known), seed=SEED)
    return bounds


def _moved_by_cells(errors: Errors) -> Numbers:
    """[RESAMPLES, candidates] by how much cells move the logs."""
    spread = math.sqrt(errors.cell_variance)
    deviations = np.random.default_rng(SEED).normal(0.0, spread, (RESAMPLES, len(errors.pulls)))
    return np.asarray(deviations @ errors.pulls)


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
