"""What a reader should know before believing the numbers: one sentence each, most serious first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from specbench.analysis.pooling import Setting
from specbench.analysis.rounds.between_cells import chains
from specbench.analysis.rounds.shared_misfit import shared_misfits
from specbench.analysis.shown.names import counted, load_label, some, with_gamma
from specbench.records.conversations import FEW_PROMPTS
from specbench.records.schema import DIVERGED, CellRecord
from specbench.records.speedup import is_above_tau

if TYPE_CHECKING:
    from specbench.analysis.fitted import GroupFit

_UNEVEN = 1.5  # c at the shortest draft over c at the longest, from which one c misleads,
_NOISY = 1.1  # and the shorter draft takes no longer than this times the longer one,
_WORTH_SAYING = 0.02  # if drafting takes at least this share of a baseline step


def run_notes(groups: Sequence[GroupFit], failed: Sequence[CellRecord]) -> tuple[str, ...]:
    """The notes on a fitted run; empty if there is nothing to warn about.

    Args:
        groups: the fitted groups.
        failed: cells that failed or ran out of memory.
    """
    notes = [*_diverged(groups), *_without_baseline(groups), *_failed(failed)]
    silent = [
        str(group.key) for group in groups if group.alpha is None and group.imported_from is None
    ]
    if silent:
        notes.append(f"no token was ever drafted, so there is no alpha: {some(silent)}")
    notes += _imported("imported from", [g for g in groups if g.imported_from and not g.served])
    notes += _imported("measured on a server,", [group for group in groups if group.served])
    own = [group for group in groups if group.imported_from is None]
    few = [group for group in own if group.num_prompts < FEW_PROMPTS]
    if few:
        tasks = some(dict.fromkeys(group.key.setting.task for group in few))
        fewest = min(group.num_prompts for group in few)
        notes.append(
            f"few prompts: intervals rest on {counted(fewest, 'conversation')} ({tasks}); "
            f"from {FEW_PROMPTS} on they mean something (--prompts)"
        )
    partial = [group for group in own if group.model is not None and group.noise_floor is None]
    if partial:
        where = some(dict.fromkeys(str(group.key.setting) for group in partial))
        notes.append(
            "only one baseline finished, so there is no noise floor and what is answered is "
            f"provisional: {where}"
        )
    notes += [*_uneven_costs(groups), *_off_lines_alike(own), *_above_tau(own)]
    if any("all slots full" in text for group in groups for text in group.warnings):
        notes.append("some cells never had all slots full: their speed is over all steps")
    return tuple(notes)


def _diverged(groups: Iterable[GroupFit]) -> list[str]:
    where = [
        f"{with_gamma(group.key.drafter, group.draft_form, point.gamma)} ({group.key.setting})"
        for group in groups
        for point in group.points
        if point.lossless == DIVERGED
    ]
    if not where:
        return []
    return [
        f"DIVERGED: output differs from plain decoding, a bug; its speedup means nothing: "
        f"{some(where)}"
    ]


def _without_baseline(groups: Iterable[GroupFit]) -> list[str]:
    alone = [
        group
        for group in groups
        if all(point.noise_floor is None and point.v is None for point in group.points)
        and all(point.speedup is None for point in group.points)
    ]
    read = [group for group in alone if group.imported_from is not None and not group.served]
    reasons = (
        ("no baseline finished, so there is no speedup, c or v", _besides(alone, read)),
        (
            "plain decoding of the same target, task, temperature, load and engine, or the time "
            "per output token of either, was not imported, so there is no speedup",
            read,
        ),
    )
    return [
        f"{reason}: {some(dict.fromkeys(str(group.key.setting) for group in found))}"
        for reason, found in reasons
        if found
    ]


def _besides(groups: Sequence[GroupFit], others: Sequence[GroupFit]) -> list[GroupFit]:
    return [group for group in groups if not any(group is other for other in others)]


def _imported(how: str, found: Sequence[GroupFit]) -> list[str]:
    """What groups without rounds lack, and what their numbers rest on: one sentence each, once."""
    if not found:
        return []
    tools = ", ".join(dict.fromkeys(group.imported_from or "" for group in found))
    notes = [f"{how} {tools}: no times of rounds, so no c, v, overhead or closed form"]
    without = [group for group in found if group.alpha is None]
    if without:
        notes.append(f"no alpha can be told from {tools}: {some(str(g.key) for g in without)}")
    return notes + [
        f"{tools}: {text}" for text in dict.fromkeys(text for g in found for text in g.warnings)
    ]


def _uneven_costs(groups: Iterable[GroupFit]) -> list[str]:
    """Drafters whose draft takes less than γ steps' time at γ tokens, like heads that run at once.

    A longer draft that took less time than a shorter one is noise and says nothing of the kind.
    """
    uneven = []
    for group in groups:
        known = [point for point in group.points if point.c and point.draft_length_mean]
        if len(known) < 2:
            continue
        first, last = known[0], known[-1]
        c, least = first.c or 0.0, last.c or 0.0
        short, long = (c * (first.draft_length_mean or 0), least * (last.draft_length_mean or 0))
        if c >= _UNEVEN * least and long >= _WORTH_SAYING and short <= _NOISY * long:
            gammas = f"{c:.3f} at γ = {first.gamma}, {least:.3f} at γ = {last.gamma}"
            uneven.append(f"{group.key}, {gammas}")
    if not uneven:
        return []
    return [
        "drafting γ tokens takes less than γ times as long as one, so no single c describes it and "
        "the closed form misleads; the extended model has each γ's own draft time: c of "
        f"{some(uneven)}"
    ]


def _off_lines_alike(groups: Iterable[GroupFit]) -> list[str]:
    """Loads at which some gamma is fast or slow whoever drafts, or whatever the task."""
    told: dict[str, list[str]] = {}
    for one in shared_misfits(chains(groups)):
        several = len({key.drafter for key in one.about}) > 1
        off = [
            f"{math.expm1(one.misfit[gamma]):+.0%} at γ = {gamma}" for gamma in sorted(one.misfit)
        ]
        load = load_label(one.load.batch_size, one.load.request_rate)
        who = "whoever drafts" if several else "whatever the task"
        told.setdefault(who, []).append(f"{', '.join(off)} ({load})")
    return [
        f"the time of a round is no straight line over γ, {who}: recommendations go by its bend, "
        f"and a γ left out is hard to predict; it lies off by {some(found)}"
        for who, found in told.items()
    ]


def _above_tau(groups: Iterable[GroupFit]) -> list[str]:
    """Speedups that no drafter can have."""
    found = [
        f"{with_gamma(group.key.drafter, group.draft_form, point.gamma)} ({group.key.setting}),"
        f" {point.speedup:.2f} with τ = {point.tau:.2f}"
        for group in groups
        for point in group.points
        if is_above_tau(point.speedup, point.tau)
    ]
    if not found:
        return []
    return [
        "a speedup above τ says that rounds were faster than plain steps, which is noise: measure "
        f"again with nothing else running: {some(found)}"
    ]


def _failed(failed: Sequence[CellRecord]) -> list[str]:
    if not failed:
        return []
    named = [
        f"{_cell_name(cell)} ({Setting.of(cell)}): {cell.error or cell.status.replace('_', ' ')}"
        for cell in failed
    ]
    return [f"{counted(len(failed), 'cell')} failed and left out: {some(named)}"]


def _cell_name(cell: CellRecord) -> str:
    if cell.baseline:
        return f"{cell.baseline} baseline"
    return with_gamma(cell.drafter, cell.draft_form, cell.gamma)
