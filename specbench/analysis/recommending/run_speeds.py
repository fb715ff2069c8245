"""From the fitted groups of a run to their speeds: which acceptance model, and which clock.

How much cells differ is told setting by setting, by baselines and by gammas beside their lines, and
led towards what the settings of the run have in common (:mod:`specbench.theory.moderated`): a
machine may have been busy during one block only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from specbench.analysis.fitted import GroupFit
from specbench.analysis.pooling import Setting
from specbench.analysis.recommending.clock import (
    Clock,
    MeasuredClock,
    fits,
    line_clock,
    sums_of,
)
from specbench.analysis.recommending.clusters import Names, clusters_of, conversations_by_task
from specbench.analysis.recommending.speed import GroupSpeed, plain_of, tokens_of
from specbench.analysis.rounds.between_cells import chains, led, plain_scatter
from specbench.analysis.rounds.evidence import Evidence
from specbench.analysis.rounds.shared_misfit import SharedMisfit, shared_misfits
from specbench.theory.clusters import Numbers
from specbench.theory.scatter import Scatter, pooled
from specbench.theory.step import step_in


def speeds_of(groups: Sequence[GroupFit]) -> tuple[list[GroupSpeed], dict[Setting, Scatter]]:
    """The speed of each group that has rounds, and how much cells of each setting differ.

    The latter is empty where nothing tells it.
    """
    known = [(group, group.evidence) for group in groups if group.evidence is not None]
    in_task = conversations_by_task((group.key, evidence) for group, evidence in known)
    # The drafters of a setting share its baselines, which count once.
    plain = {group.key.setting: plain_scatter(e.plain_cells) for group, e in known}
    of_plain, told, found = led(plain), {setting: [own] for setting, own in plain.items()}, []
    shared = {key: one for one in shared_misfits(chains(groups)) for key in one.about}
    for group, evidence in known:
        setting = group.key.setting
        straight_enough = partial(fits, plain=of_plain.get(setting), among=len(known))
        alike = shared.get(group.key)
        speed = _speed(group, evidence, in_task[setting.task], straight_enough, alike)
        told[setting].append(speed.clock.scatter)
        found.append(speed)
    return found, led({setting: pooled(parts) for setting, parts in told.items()})


def _speed(
    group: GroupFit,
    evidence: Evidence,
    in_task: Names,
    straight_enough: Callable[[Numbers], bool],
    alike: SharedMisfit | None,
) -> GroupSpeed:
    """A group's speed."""
    key, clusters = group.key, clusters_of(group.key, evidence, in_task)
    model = group.acceptance.model if group.acceptance is not None else None
    sums = sums_of(key, evidence, clusters)
    straight = line_clock(key, evidence, clusters, sums) if model is not None else None
    clock: Clock = MeasuredClock(sums)
    if straight is not None:
        drafted = straight.lines.size.size == len(sums)  # gammas that never drafted are on no line
        step = step_in(straight.lines) if drafted else None
        if step is not None:
            clock = MeasuredClock(sums, step)
        elif alike is not None and straight_enough(alike.left(straight.lines)):
            clock = MeasuredClock(sums, alike.bend(key, straight.lines))
        elif alike is not None:
            clock = MeasuredClock(sums, about=alike.about[key])
        elif straight_enough(straight.lines.misfit):
            clock = straight
    measured = sorted(evidence.times)
    gammas = range(measured[0], measured[-1] + 1) if model is not None else measured
    return GroupSpeed(
        key,
        tuple(gammas),
        clusters,
        tokens_of(key, evidence, clusters, model),
        clock,
        plain_of(key, evidence, clusters),
        evidence.plain_cells.size,
    )
