"""From the fitted groups of a run to their speeds: which acceptance model, and which clock."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.evidence import Evidence
from specbench.analysis.fit import GroupFit
from specbench.analysis.recommending.clock import (
    Clock,
    LineClock,
    MeasuredClock,
    fits,
    line_clock,
    plain_scatter,
    pooled_scatter,
    sums_of,
)
from specbench.analysis.recommending.clusters import Names, clusters_of, conversations_by_task
from specbench.analysis.recommending.speed import GroupSpeed, plain_of, tokens_of
from specbench.analysis.recommending.step import step_in
from specbench.theory.round_lines import Scatter


def speeds_of(groups: Sequence[GroupFit]) -> tuple[list[GroupSpeed], Scatter | None]:
    """The speed of each group that has rounds, and how much cells of the run differ."""
    known = [(group, group.evidence) for group in groups if group.evidence is not None]
    in_task = conversations_by_task((group.key, evidence) for group, evidence in known)
    # The drafters of a setting share its baselines, which count once.
    settings = {group.key.setting: evidence.plain_cells for group, evidence in known}
    plain = plain_scatter(settings.values())
    found, straight, stepped = [], [], []
    for group, evidence in known:
        speed = _speed(group, evidence, in_task[group.key.setting.task], plain)
        found.append(speed)
        if isinstance(speed.clock, LineClock):
            straight.append(speed.clock.lines)
        elif isinstance(speed.clock, MeasuredClock) and speed.clock.step is not None:
            stepped.append(speed.clock.step)
    return found, pooled_scatter(plain, straight, stepped)


def _speed(
    group: GroupFit, evidence: Evidence, in_task: Names, plain: Scatter | None
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
        elif fits(straight.lines, plain):
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
