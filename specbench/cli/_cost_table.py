"""The table of ``specbench fit`` on what a round costs: lines fitted over γ, beside plain means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from specbench.cli._output import beside_label, number, print_table, wrapped

if TYPE_CHECKING:
    from specbench.analysis.fitted import GroupFit
    from specbench.theory.cost_model import CostFit, Estimate

_COSTS = ("drafter", "T", "B", "", "d0", "c", "v0", "w", "o", "v <", "v >")
_LABEL_WIDTH = 13

COST_NOTES = (
    "a round of γ tokens takes d0 + c γ to draft, v0 + w γ to verify, o besides, in",
    "units of T1 · low, high: 95% interval · mean: measured, c per drafted token, o",
    "over all rounds, v over whole drafts · v <, v >: at the least and the most γ",
)


def print_costs(task: str, groups: Sequence[GroupFit], names: Mapping[str, str]) -> None:
    """Print the fitted costs of one task's groups; nothing where there are none.

    Of imported cells only the time of a whole round can be told.
    """
    rows: list[list[str]] = []
    for group in groups:
        if group.costs is not None and group.costs.d0 is not None:
            label = names[group.key.drafter]
            rows += beside_label(label, _costs(group, group.costs), _LABEL_WIDTH)
    if rows:
        print_table(f"{task}: what a round takes, by lines over γ", _COSTS, rows)
    for group in groups:
        if group.costs is not None and group.costs.d0 is None:
            whole = f"{_with_ends(group.costs.fixed)} + {_with_ends(group.costs.per_token)} γ"
            said = f"{task}: a round of {names[group.key.drafter]} takes {whole}, in units of T1"
            print(wrapped(said, indent=""))
            print()


def _costs(group: GroupFit, fit: CostFit) -> list[list[str]]:
    """Four lines: what was fitted, the ends of its interval, what was measured."""
    setting, points = group.key.setting, group.points
    fitted = [fit.d0, fit.c, fit.v0, fit.v_slope, fit.o]
    ends = [one.ci if one else None for one in fitted]
    verified = [number(fit.verify(points[place].gamma)) for place in (0, -1)]
    return [
        [
            f"{setting.temperature:g}",
            setting.load,
            "fitted",
            *(number(one.value if one else None, 3) for one in fitted),
            *verified,
        ],
        *(
            ["", "", name, *(number(end[side] if end else None, 3) for end in ends), "", ""]
            for side, name in enumerate(("low", "high"))
        ),
        [
            *("", "", "mean", "", number(group.c, 3), "", "", number(group.overhead, 3)),
            *(number(points[place].v) for place in (0, -1)),
        ],
    ]


def _with_ends(estimate: Estimate) -> str:
    if estimate.ci is None:
        return f"{estimate.value:.3f}"
    low, high = estimate.ci
    return f"{estimate.value:.3f} ({low:.3f} to {high:.3f})"
