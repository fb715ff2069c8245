"""Measured speedups with intervals that hold what differs between cells.

The record of a cell knows its conversations (or time blocks) and its block's baselines, so its
interval holds the sampling error alone. Cells that are measured one after the other differ too, on
real machines by 1 or 2%. How much is told setting by setting, by the baselines and by how far the
gammas of chains lie off their line (or step: :mod:`specbench.theory.step`; or what all drafters
have in common beside it: :mod:`specbench.theory.shared_misfit`), and led towards what the settings
of the run have in common (:mod:`specbench.theory.moderated`). A measured speedup moves with the
deviation of its own cell, and with the mean of its baselines'.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from specbench.analysis.pooling import GroupKey, RawTables, Setting
from specbench.analysis.rounds.evidence import Evidence
from specbench.analysis.rounds.shared_misfit import about_shared, shared_misfits
from specbench.records.schema import CellRecord
from specbench.records.steps import counted_steps
from specbench.theory.clusters import Numbers
from specbench.theory.moderated import moderated
from specbench.theory.round_lines import between_cells
from specbench.theory.scatter import Scatter, pooled, scatter_of
from specbench.theory.step import step_in

if TYPE_CHECKING:
    from specbench.analysis.fitted import GammaFit, GroupFit


def with_cells(groups: Sequence[GroupFit]) -> tuple[GroupFit, ...]:
    """The groups, their measured speedups' intervals widened by what cells differ by."""
    told: dict[Setting, list[Scatter | None]] = {}
    shared = about_shared(shared_misfits(chains(groups)))
    for group in groups:
        if group.evidence is not None:
            here = told.setdefault(group.key.setting, [plain_scatter(group.evidence.plain_cells)])
            if group.draft_form == "chain":
                here.append(of_gammas(group.evidence, shared.get(group.key)))
    cells = led({setting: pooled(parts) for setting, parts in told.items()})
    return tuple(_widened(group, cells.get(group.key.setting)) for group in groups)


def chains(groups: Iterable[GroupFit]) -> Iterator[tuple[GroupKey, Evidence]]:
    """Those whose rounds were timed and draft chains."""
    for group in groups:
        if group.draft_form == "chain" and group.evidence is not None:
            yield group.key, group.evidence


def led(told: Mapping[Setting, Scatter | None]) -> dict[Setting, Scatter]:
    """What cells of each setting differ by, led towards what all have in common.

    A setting that nothing tells has that alone; empty where nothing tells any.
    """
    pairs = zip(told, moderated(list(told.values())), strict=True)
    return {setting: scatter for setting, scatter in pairs if scatter is not None}


def plain_scatter(plain_cells: Numbers) -> Scatter | None:
    """How much the baselines of a setting differ; None without two.

    Args:
        plain_cells: [baselines] mean seconds of a step of each.
    """
    return scatter_of(np.zeros(2), plain_cells)


def of_baselines(plain: Iterable[CellRecord], tables: RawTables) -> dict[Setting, Scatter]:
    """How much cells of each setting of a run differ, by its baselines alone."""
    seconds: dict[Setting, list[float]] = {}
    for cell in plain:
        if cell.imported_from is None:
            steps = counted_steps(tables.of(cell)[0], cell.batch_size)
            if steps.seconds.sum():
                seconds.setdefault(Setting.of(cell), []).append(float(steps.seconds.mean()))
    return led({setting: plain_scatter(np.array(times)) for setting, times in seconds.items()})


def of_gammas(evidence: Evidence, beside: Scatter | None) -> Scatter | None:
    """How much cells differ by the gammas of a chain, less what its rounds do by chance.

    Args:
        beside: what is left about a bend that is shared; None where none is shown.
    """
    lines = evidence.lines
    if lines is None:
        return None
    step = step_in(lines)
    if step is not None:
        return step.scatter
    if beside is not None:
        return beside.less(lines.by_chance() / (lines.length.size - 2))
    return between_cells(lines, None)


def _widened(group: GroupFit, cells: Scatter | None) -> GroupFit:
    if cells is None or group.evidence is None:
        return group
    baselines = group.evidence.plain_cells.size

    def held(point: GammaFit) -> GammaFit:
        if point.speedup is None or point.speedup_ci is None:
            return point
        deviations = 1.0 / point.num_cells + 1.0 / baselines
        ends = cells.widened(point.speedup, point.speedup_ci, group.num_prompts, deviations)
        return replace(point, speedup_ci=ends)

    points = tuple(held(point) for point in group.points)
    return replace(group, points=points, scatter=cells)
