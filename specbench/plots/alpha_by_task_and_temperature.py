"""Alpha by task and temperature: how the text and its sampling decide what is accepted.

One panel per drafter and batch size. Each point is a group's alpha, accepted / evaluated over all
its gammas, with its 95% interval by conversation; tasks stand side by side, temperatures within a
task from left to right. Chains only: a tree's alpha is that of a whole level, an adaptive draft's
that of easier tokens, and the title counts both. Nor synthetic drafters, whose alpha was set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator

from specbench.analysis.shown.names import cut_in_middle
from specbench.errors import SpecbenchError
from specbench.plots import _keys, _rows, base
from specbench.plots._settings import by_series

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_NAME = "alpha-by-task-and-temperature"
_WIDTH = 0.6  # of a task's place, for its temperatures
_GROUP = [
    *("run", "target", "backend", "top_k", "top_p", "context_length", "request_rate"),
    *("task", "temperature", "batch_size"),
]


def draw(points: pd.DataFrame) -> Figure:
    """Draw alpha over tasks.

    Args:
        points: a frame as :func:`specbench.analysis.shown.frame.points_frame` gives it.

    Raises:
        SpecbenchError: no row has an alpha that was measured, or none of them is a chain.
    """
    known = points.dropna(subset=["fit_alpha"]) if len(points) else points
    if not len(known):
        raise SpecbenchError(
            f"nothing to draw in {_NAME}: no token was evaluated, so there is no alpha",
            "`specbench fit RUN` lists what failed",
        )
    known, not_measured = _rows.measured_alphas(known, _NAME)
    kept, left_out = _rows.chains(known, _NAME)
    groups = _rows.with_series(kept.drop_duplicates([*_GROUP, "drafter"]))
    tasks = _rows.unique(groups["task"])
    temperatures = sorted(groups["temperature"].unique())
    looks = base.ordered_looks(temperatures)
    panels, columns = by_series(groups, ["batch_size", "context_length"])
    figure, axes = base.panels(len(panels), columns, 2.9)
    for axis, panel in zip(axes, panels, strict=True):
        _points(axis, panel, tasks, looks)
        axis.set_title(_title(groups, panel), fontsize=9.5)
    first = axes[0]
    first.set_xlim(-0.6, len(tasks) - 0.4)
    first.set_ylim(-0.03, 1.03)
    first.xaxis.set_major_locator(FixedLocator(range(len(tasks))))
    first.xaxis.set_major_formatter(
        FixedFormatter([base.wrapped(cut_in_middle(task, 28), 14) for task in tasks])
    )
    for axis in axes:
        axis.tick_params(axis="x", labelsize=8, rotation=25)
        for label in axis.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    notes = "; ".join(note for note in (left_out, not_measured) if note)
    _keys.put_title(figure, groups, "Alpha by task and temperature", notes)
    figure.supylabel("alpha (α): chance that an\nevaluated token is accepted", fontsize=10)
    figure.supxlabel("task", fontsize=10)
    handles = [_keys.heading("Temperature")]
    handles += [
        _keys.mark(look.marker, "full", f"T = {value:g}", look.colour)
        for value, look in looks.items()
    ]
    _keys.legend(figure, [*handles, _keys.error_bar_handle()])
    return figure


def _points(
    axis: Axes, panel: pd.DataFrame, tasks: list[str], looks: dict[int, base.Series]
) -> None:
    step = _WIDTH / max(len(looks), 1)
    for place, (temperature, look) in enumerate(looks.items()):
        rows = panel[panel["temperature"] == temperature]
        if not len(rows):
            continue
        shift = (place - (len(looks) - 1) / 2) * step
        axis.errorbar(
            [tasks.index(task) + shift for task in rows["task"]],
            rows["fit_alpha"],
            yerr=base.error_bars(rows["fit_alpha_low"], rows["fit_alpha"], rows["fit_alpha_high"]),
            linestyle="none",
            marker=look.marker,
            markersize=6,
            color=look.colour,
            markeredgecolor=base.INK,
            markeredgewidth=0.5,
            elinewidth=1.1,
            capsize=2,
        )


def _title(groups: pd.DataFrame, panel: pd.DataFrame) -> str:
    first = panel.iloc[0]
    several = groups["batch_size"].nunique() > 1
    setting = [f"batch {int(first['batch_size'])}"] if several else []
    setting += [first["context"]] if first["context"] else []
    return "\n".join([base.wrapped(str(first["series"]), 36), " · ".join(setting)]).rstrip()
