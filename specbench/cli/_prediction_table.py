"""The tables of ``specbench fit`` on predictions: each gamma from the others, then in what the
closed form and the measured speedup differ, then how far off both models are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from specbench.analysis.prediction.held_out import WIDE
from specbench.cli._output import (
    beside_label,
    number,
    percent,
    print_table,
    with_interval,
    wrapped,
)

if TYPE_CHECKING:
    from specbench.analysis.fitted import GroupFit
    from specbench.analysis.prediction.held_out import Errors, HeldOut, Prediction

_PREDICTED = (
    *("drafter", "T", "B", "γ", "speedup"),
    *("closed", "error", "held out (95%)", "error", "in"),
)
_GAP = ("drafter", "T", "B", "γ", "gap", "α", "short", "draft", "v", "o", "cut", "rest")
_ERRORS = ("drafter", "T", "B", "closed", "extended", "out: closed", "extended", "in", "wide")
_LABEL_WIDTH = 13

HELD_OUT_NOTES = (
    "held out (out) = extended model fitted to the other γ, with the interval in",
    "which it expects a measurement · closed: of the others' α and c · in: measured",
    f"in it · wide: ends more than {WIDE:g}-fold apart, which say nothing and count neither",
    "way, so that in is of the others · ^ extrapolated",
)
GAP_NOTES = (
    "gap = log(measured / closed form), the sum of α (not i.i.d.), short (drafts",
    "shorter than γ), draft (d0, c), v, o, cut (tokens behind an output's end), rest",
)


def print_predictions(task: str, groups: Sequence[GroupFit], names: Mapping[str, str]) -> None:
    """Print what models say of one task's groups, and how far off they are."""
    held_out: list[list[str]] = []
    gaps: list[list[str]] = []
    errors: list[list[str]] = []
    for group in groups:
        label = names[group.key.drafter]
        for table, rows in (
            (held_out, _predicted(group)),
            (gaps, _gap(group)),
            (errors, _errors(group)),
        ):
            table += beside_label(label, rows, _LABEL_WIDTH) if rows else []
    if held_out:
        print_table(f"{task}: each γ predicted from the others", _PREDICTED, held_out)
        _print_replayed(groups, names)
    if gaps:
        print_table(f"{task}: from closed form to measured, log scale", _GAP, gaps)
    if errors:
        print_table(f"{task}: how far off speedups are, median (worst) over γ", _ERRORS, errors)


def _print_replayed(groups: Sequence[GroupFit], names: Mapping[str, str]) -> None:
    """Whose tokens come from a trace of the text, if any do."""
    traced = [
        f"{names[group.key.drafter]}, T = {group.key.setting.temperature:g}"
        for group in groups
        if group.prediction is not None and group.prediction.replayed
    ]
    if traced:
        said = f"tokens of rounds replayed on a trace: {'; '.join(dict.fromkeys(traced))}"
        print(wrapped(said, "", "  "), end="\n\n")


def _predicted(group: GroupFit) -> list[list[str]]:
    cells = group.prediction.cells if group.prediction is not None else ()
    return [
        [
            *_place(group, index),
            str(cell.gamma),
            number(cell.measured),
            number(cell.closed_form),
            percent(cell.error_closed_form),
            f"{cell.speedup:.2f} wide" if cell.wide else with_interval(cell.speedup, cell.ci),
            percent(cell.error),
            _inside(cell) + ("^" if cell.extrapolated else " "),
        ]
        for index, cell in enumerate(cells)
    ]


def _inside(cell: HeldOut) -> str:
    return "-" if cell.inside is None or cell.wide else "yes" if cell.inside else "no"


def _gap(group: GroupFit) -> list[list[str]]:
    known = [(point.gamma, point.gap) for point in group.points if point.gap is not None]
    return [
        [*_place(group, index), str(gamma), *map(percent, (gap.total, *gap.terms.values()))]
        for index, (gamma, gap) in enumerate(known)
    ]


def _place(group: GroupFit, index: int) -> list[str]:
    setting = group.key.setting
    return ["", ""] if index else [f"{setting.temperature:g}", setting.load]


def _errors(group: GroupFit) -> list[list[str]]:
    """One row; none where nothing was predicted."""
    own, left_out = (group.errors_closed_form, group.errors_extended), group.prediction
    if own == (None, None):
        return []
    others = (left_out.errors_closed_form, left_out.errors) if left_out else (None, None)
    return [[*_place(group, 0), *map(_scored, (*own, *others)), *_hits(left_out)]]


def _scored(errors: Errors | None) -> str:
    return "-" if errors is None else f"{errors.median:.0%} ({errors.worst:.0%})"


def _hits(prediction: Prediction | None) -> tuple[str, str]:
    """Hits of the intervals that say something, and how many say nothing."""
    if prediction is None or prediction.hits == (0, 0, 0):
        return "-", "-"
    inside, told, wide = prediction.hits
    return f"{inside} of {told}" if told else "-", str(wide or "-")
