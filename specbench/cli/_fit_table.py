"""The tables of ``specbench fit``: per task, what was fitted, then theory beside measurement.

Predictions of gammas left out are in :mod:`specbench.cli._prediction_table`.

Trees and adaptive drafts, which no single alpha describes, have a third one: depth by depth.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from specbench.analysis.fit import DIVERGED
from specbench.analysis.names import gamma_label, printable, short_names
from specbench.cli._cost_table import COST_NOTES, print_costs
from specbench.cli._output import (
    FORM_MARKS,
    SYNTHETIC_NOTE,
    beside_label,
    form_notes,
    number,
    percent,
    print_table,
    with_interval,
)
from specbench.cli._prediction_table import GAP_NOTES, HELD_OUT_NOTES, print_predictions

if TYPE_CHECKING:
    from specbench.analysis.fit import GammaFit, GroupFit, RunFit

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
_LABEL_WIDTH = 13
_DEPTHS_PER_LINE = 8


def print_fit(run: RunFit) -> None:
    """Print all tasks of a fitted run, in the order in which they were measured."""
    names = short_names(group.key.drafter for group in run.groups)
    for task in dict.fromkeys(group.key.setting.task for group in run.groups):
        groups = [group for group in run.groups if group.key.setting.task == task]
        fitted: list[list[str]] = []
        compared: list[list[str]] = []
        by_depth: list[list[str]] = []
        for group in groups:
            label = names[group.key.drafter]
            fitted += beside_label(label, [_fitted(group)], _LABEL_WIDTH)
            compared += beside_label(label, _compared(group), _LABEL_WIDTH)
            if group.draft_form != "chain":
                by_depth += beside_label(label, _by_depth(group), _LABEL_WIDTH)
        print_table(f"{task}: fitted, over all γ", _FITTED, fitted)
        _print_acceptance(task, groups, names)
        print_costs(task, groups, names)
        print_table(f"{task}: speedup, predicted and measured", _COMPARED, compared)
        print_predictions(task, groups, names)
        if by_depth:
            print_table(f"{task}: acceptance by depth", _BY_DEPTH, by_depth, last_is_text=True)
    print("T temperature · B batch size · c, v, o in units of the baseline's step time,")
    print("c per drafted token (of a tree: per level)")
    for line in form_notes({group.draft_form for group in run.groups}, "tokens"):
        print(line)
    print("error = predicted / measured - 1 · ~ interval or noise floor holds 1")
    if any(group.costs is not None for group in run.groups):
        print(*COST_NOTES, sep="\n")
    if any(group.prediction is not None for group in run.groups):
        print(*HELD_OUT_NOTES, sep="\n")
    if any(point.gap is not None for group in run.groups for point in group.points):
        print(*GAP_NOTES, sep="\n")
    if any(point.lossless == DIVERGED for group in run.groups for point in group.points):
        print("* output DIVERGED from plain decoding: the speedup means nothing")
    if any(group.synthetic for group in run.groups):
        print(SYNTHETIC_NOTE)


def _print_acceptance(task: str, groups: Sequence[GroupFit], names: Mapping[str, str]) -> None:
    """Per drafter whether one alpha describes it, equal verdicts of several settings once."""
    verdicts: dict[tuple[str, str], list[str]] = {}
    for group in groups:
        if group.acceptance is not None:
            found, setting = group.acceptance, group.key.setting
            text = " ".join((found.sentence, found.spread_sentence)).strip()
            where = f"T = {setting.temperature:g}, B = {setting.batch_size}"
            verdicts.setdefault((names[group.key.drafter], text), []).append(where)
    if verdicts:
        print(printable(f"{task}: is acceptance i.i.d., the same α at every position?"))
        for (name, text), settings in verdicts.items():
            said = f"{name}, {'; '.join(settings)}: {text}"
            print(textwrap.fill(printable(said), 80, initial_indent="  ", subsequent_indent="    "))
        print()


def _fitted(group: GroupFit) -> list[str]:
    setting = group.key.setting
    costs = [point.v for point in group.points if point.v is not None]
    low, high = (number(min(costs)), number(max(costs))) if costs else ("-", "-")
    return [
        f"{setting.temperature:g}",
        str(setting.batch_size),
        _alpha(group),
        with_interval(group.c, group.c_ci, 3),
        low if low == high else f"{low}–{high}",
        number(group.overhead),
        "-" if group.noise_floor is None else f"±{group.noise_floor:.1%}",
    ]


def _alpha(group: GroupFit) -> str:
    mark = FORM_MARKS[group.draft_form] if group.alpha is not None else ""
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
            "" if rows else str(setting.batch_size),
            gamma_label(group.draft_form, point.gamma, point.draft_length_mean),
            number(point.expected_tokens),
        ]
        for line in lines:
            rows.append([*head, line])
            head = [""] * len(head)
    return rows


def _compared(group: GroupFit) -> list[list[str]]:
    setting = group.key.setting
    rows: list[list[str]] = []
    for point in group.points:
        first = not rows
        rows.append(
            [
                f"{setting.temperature:g}" if first else "",
                str(setting.batch_size) if first else "",
                gamma_label(group.draft_form, point.gamma),
                number(point.tau),
                number(point.closed_form),
                percent(point.error_closed_form),
                number(point.extended),
                percent(point.error_extended),
                _mark(point) + with_interval(point.speedup, point.speedup_ci),
            ]
        )
    return rows


def _mark(point: GammaFit) -> str:
    if point.lossless == DIVERGED:
        return "* "
    return "~ " if point.speedup is not None and not _shown(point) else ""


def _shown(point: GammaFit) -> bool:
    """Whether a speedup, or a slowdown, is told apart from none."""
    assert point.speedup is not None
    if point.noise_floor is not None and abs(point.speedup - 1.0) <= point.noise_floor:
        return False
    ends: Sequence[float] | None = point.speedup_ci
    return ends is not None and not ends[0] <= 1.0 <= ends[1]
