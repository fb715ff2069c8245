"""The table of ``specbench optimal-gamma`` on synthetic drafters: the best gamma at their alpha.

Nothing of it is a recommendation: the alpha was set. It says what a drafter of that cost would gain
on this machine if it were accepted so often.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from specbench.cli._output import beside_label, number, print_table, with_interval

if TYPE_CHECKING:
    from specbench.analysis.recommending import Answer, DrafterAnswer
    from specbench.analysis.recommending.choice import Choice

_COLUMNS = ("drafter", "task", "T", "B", "c", "γ", "expected (95%)")
_LABEL_WIDTH = 26


def print_given_alphas(answer: Answer, names: Mapping[str, str]) -> None:
    """Print one row per synthetic drafter and setting; nothing where there are none."""
    rows: list[list[str]] = []
    for group in answer.groups:
        if group.at_given_alpha is not None:
            label = names[group.fit.key.drafter]
            rows += beside_label(label, [_row(group, group.at_given_alpha)], _LABEL_WIDTH)
    if rows:
        print_table("If α were as it was set: the best γ", _COLUMNS, rows, texts=2)


def _row(group: DrafterAnswer, choice: Choice) -> list[str]:
    setting, candidate = group.fit.key.setting, choice.candidate
    return [
        setting.task,
        f"{setting.temperature:g}",
        setting.load,
        number(group.fit.c, 3),
        str(choice.gamma),
        with_interval(choice.speedup, candidate.ci if candidate else None),
    ]
