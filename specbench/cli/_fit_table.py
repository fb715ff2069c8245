"""What ``specbench fit`` prints: per task what was fitted, and theory beside measurement.

By default a line per drafter and setting, at its fastest measured γ, then what holds of many in
some sentences. With detail a line per γ, and three more tables: what a round costs, predictions of
gammas left out (:mod:`specbench.cli._prediction_table`), and for trees and adaptive drafts, which
no single alpha describes, acceptance depth by depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from specbench.analysis.prediction.held_out import accuracy
from specbench.analysis.shown.folding import fold_acceptance, fold_gaps
from specbench.analysis.shown.formats import noise
from specbench.analysis.shown.marks import speedup_mark
from specbench.analysis.shown.names import gamma_label, short_names, some
from specbench.cli._cost_table import COST_NOTES, print_costs
from specbench.cli._output import (
    SYNTHETIC_NOTE,
    alpha_mark,
    beside_label,
    by_task,
    form_notes,
    number,
    percent,
    print_context_note,
    print_table,
    with_interval,
    wrapped,
)
from specbench.cli._prediction_table import GAP_NOTES, HELD_OUT_NOTES, print_predictions
from specbench.records.schema import DIVERGED

if TYPE_CHECKING:
    from specbench.analysis.fitted import GammaFit, GroupFit, RunFit
    from specbench.analysis.shown.folding import Folded

_FITTED = ("drafter", "T", "B", "α (95%)", "c (95%)", "v", "o", "noise")
_COMPARED = (
    "drafter",
    "T",
    "B",
    "γ",
    "τ",
    "closed",
    "error",
    "extended",
    "error",
    "measured (95%)",
)
_BY_DEPTH = ("drafter", "T", "B", "γ", "tokens", " α at depth 1, 2, ...")
_NOTES = (
    "T temperature · B batch size · c, v, o in units of T1, the baseline's step time:",
    "c per drafted token (of a tree: per level), v of a target forward over a whole",
    "draft, from the least to the most over γ, o of the rest of a round, its mean ·",
    "noise: by how much the two baselines of a block differ",
    "error = predicted / measured - 1 · ~ interval or noise floor holds 1",
)
_LABEL_WIDTH = 13
_DEPTHS_PER_LINE = 8
_APART = 3  # verdicts of so many groups that are alike are told apart, those of more together
_NAMED = 2  # of those that are told together, the others counted

Names = Mapping[str, str]


def print_fit(run: RunFit, detail: bool = False) -> None:
    """Print all tasks of a fitted run, in the order in which they were measured.

    Args:
        detail: print every γ, and the tables of costs, predictions and depths.
    """
    names = short_names(group.key.drafter for group in run.groups)
    for title, groups in by_task(run.groups, lambda group: group.key.setting).items():
        _print_task(title, groups, names, detail)
    acceptance, gaps = (fold(run.groups, _APART) for fold in (fold_acceptance, fold_gaps))
    _print_verdicts("Is acceptance i.i.d., the same α at every position?", acceptance, names)
    _print_verdicts("Averaged over γ the closed form is", gaps, names)
    if predicted := [group.prediction for group in run.groups if group.prediction]:
        print(wrapped(accuracy(predicted), indent="", hanging="  "))
        print()
    _print_notes(run, detail)


def _print_task(task: str, groups: Sequence[GroupFit], names: Names, detail: bool) -> None:
    fitted: list[list[str]] = []
    compared: list[list[str]] = []
    by_depth: list[list[str]] = []
    for group in groups:
        label = names[group.key.drafter]
        fitted += beside_label(label, [_fitted(group)], _LABEL_WIDTH)
        points = group.points if detail else [_fastest(group.points)]
        compared += beside_label(label, _compared(group, points), _LABEL_WIDTH)
        if group.draft_form != "chain" and any(p.alpha_by_position for p in group.points):
            by_depth += beside_label(label, _by_depth(group), _LABEL_WIDTH)
    print_table(f"{task}: fitted, over all γ", _FITTED, fitted)
    if not detail:
        print_table(f"{task}: speedup at the fastest γ measured", _COMPARED, compared)
        return
    print_costs(task, groups, names)
    print_table(f"{task}: speedup, predicted and measured", _COMPARED, compared)
    print_predictions(task, groups, names)
    if by_depth:
        print_table(f"{task}: acceptance by depth", _BY_DEPTH, by_depth, last_is_text=True)


def _print_verdicts(title: str, verdicts: Sequence[Folded], names: Names) -> None:
    """Each verdict with whose it is; the names of many are counted."""
    count = sum(len(verdict.groups) for verdict in verdicts)
    if not count:
        return
    print(title)
    for verdict in verdicts:
        keys = [group.key for group in verdict.groups]
        whose = some((f"{names[key.drafter]} ({key.setting})" for key in keys), _NAMED)
        if len(keys) > 1:
            whose = f"all {count}" if len(keys) == count else f"{len(keys)} of {count}, {whose}"
        print(wrapped(f"{whose}: {verdict.text}"))
    print()


def _print_notes(run: RunFit, detail: bool) -> None:
    print(*_NOTES, sep="\n")
    print_context_note(group.key.setting.context_length for group in run.groups)
    marked = {group.draft_form for group in run.groups if group.alpha is not None}
    for line in form_notes(marked, "tokens"):
        print(line)
    if detail and any(group.costs is not None for group in run.groups):
        print(*COST_NOTES, sep="\n")
    if detail and any(group.prediction is not None for group in run.groups):
        print(*HELD_OUT_NOTES, sep="\n")
    if detail and any(point.gap is not None for group in run.groups for point in group.points):
        print(*GAP_NOTES, sep="\n")
    if any(point.lossless == DIVERGED for group in run.groups for point in group.points):
        print("* output DIVERGED from plain decoding: the speedup means nothing")
    if any(group.synthetic for group in run.groups):
        print(SYNTHETIC_NOTE)
    if not detail:
        print("every γ, costs of a round, predictions, gaps term by term, limits: --detail")


def _fastest(points: Sequence[GammaFit]) -> GammaFit:
    return max(points, key=lambda point: (point.speedup or 0.0, -point.gamma))


def _fitted(group: GroupFit) -> list[str]:
    setting = group.key.setting
    costs = [point.v for point in group.points if point.v is not None]
    low, high = (number(min(costs)), number(max(costs))) if costs else ("-", "-")
    return [
        f"{setting.temperature:g}",
        setting.load,
        _alpha(group),
        with_interval(group.c, group.c_ci, 3),
        low if low == high else f"{low}–{high}",
        number(group.overhead),
        noise(group.noise_floor),
    ]


def _alpha(group: GroupFit) -> str:
    mark = alpha_mark(group.draft_form, group.synthetic) if group.alpha is not None else ""
    return mark + with_interval(group.alpha, group.alpha_ci)


def _by_depth(group: GroupFit) -> list[list[str]]:
    """Rows of one group: per gamma the tokens expected of a round, and alpha at each depth."""
    setting = group.key.setting
    rows: list[list[str]] = []
    for point in group.points:
        alphas = [number(alpha).removeprefix("0") for alpha in point.alpha_by_position or ()]
        lines = [
            " ".join(f"{alpha:>4}" for alpha in alphas[start : start + _DEPTHS_PER_LINE])
            for start in range(0, max(len(alphas), 1), _DEPTHS_PER_LINE)
        ]
        head = [
            "" if rows else f"{setting.temperature:g}",
            "" if rows else setting.load,
            gamma_label(group.draft_form, point.gamma, point.draft_length_mean),
            number(point.expected_tokens),
        ]
        for line in lines:
            rows.append([*head, line])
            head = [""] * len(head)
    return rows


def _compared(group: GroupFit, points: Sequence[GammaFit]) -> list[list[str]]:
    setting = group.key.setting
    rows: list[list[str]] = []
    for point in points:
        first = not rows
        rows.append(
            [
                f"{setting.temperature:g}" if first else "",
                setting.load if first else "",
                gamma_label(group.draft_form, point.gamma),
                number(point.tau),
                number(point.closed_form),
                percent(point.error_closed_form),
                number(point.extended),
                percent(point.error_extended),
                speedup_mark(point) + with_interval(point.speedup, point.speedup_ci),
            ]
        )
    return rows
