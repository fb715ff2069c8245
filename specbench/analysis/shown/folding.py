"""Verdicts that many groups share, told once for all of them, with whose they are.

>>> [(one.text, len(one.groups)) for one in fold_acceptance(fitted.groups)]    # doctest: +SKIP
[("Whether acceptance is i.i.d. can't be told: 3 conversations, it takes 6; ...", 32)]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from specbench.analysis.acceptance.verdict import acceptance_alike, acceptance_together
from specbench.analysis.fitted import GroupFit
from specbench.analysis.rounds.gap import MeanGap, mean_gap, told_together


class Folded(NamedTuple):
    """What holds of these groups, at least one."""

    text: str
    groups: tuple[GroupFit, ...]


_WAS_SET = "left out, for α was set and not measured"


def fold_acceptance(groups: Sequence[GroupFit], apart: int = 1) -> list[Folded]:
    """Verdicts on acceptance; synthetic drafters come last, for there is nothing to judge.

    Args:
        apart: so many groups of one verdict are told apart, each with its own numbers.
    """
    judged = [group for group in groups if group.acceptance is not None]
    verdicts = _folded(
        judged,
        lambda group: group.acceptance and acceptance_alike(group.acceptance),
        lambda alike: acceptance_together([g.acceptance for g in alike if g.acceptance]),
        apart,
    )
    synthetic = tuple(group for group in groups if group.synthetic)
    return [*verdicts, Folded(_WAS_SET, synthetic)] if synthetic else verdicts


def fold_gaps(groups: Sequence[GroupFit], apart: int = 1) -> list[Folded]:
    """How the closed form errs, averaged over gammas, and what most of that is.

    Args:
        apart: so many groups that err alike are told apart, each with its own error.
    """
    known = [group for group in groups if any(point.gap for point in group.points)]
    return _folded(
        known,
        lambda group: _mean_gap(group)[:2],
        lambda alike: told_together([_mean_gap(group) for group in alike]),
        apart,
    )


def _mean_gap(group: GroupFit) -> MeanGap:
    return mean_gap([point.gap for point in group.points if point.gap is not None])


def _folded(
    groups: Sequence[GroupFit],
    key: Callable[[GroupFit], Hashable],
    text: Callable[[Sequence[GroupFit]], str],
    apart: int,
) -> list[Folded]:
    alike: dict[Hashable, list[GroupFit]] = {}
    for group in groups:
        alike.setdefault(key(group), []).append(group)
    found = []
    for same in alike.values():
        parts = [[group] for group in same] if len(same) <= apart else [same]
        found += [Folded(text(part), tuple(part)) for part in parts]
    return found
