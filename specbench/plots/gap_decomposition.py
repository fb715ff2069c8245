"""From the closed form to the measured speedup: which term takes the difference, for each gamma.

One panel per drafter and setting. The line at 0 is the closed form. What lowers the speedup hangs
below it, what raises it stands above, and both together end at the measured speedup, the mark with
its interval. Terms are parts of log(measured / closed form), so that they add up: -0.10 is 10% less
for small terms. :mod:`specbench.analysis.rounds.gap` says what each of them replaces, and in which
order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from specbench.analysis.rounds.gap import TERMS
from specbench.errors import SpecbenchError
from specbench.plots import _keys, _rows, base
from specbench.plots._settings import by_setting, setting_title

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_HATCHES = ("", "///", "...", "xx", "\\\\\\", "++", "oo")
_LOOKS = dict(zip(TERMS, zip((*base.PALETTE[:6], "#DDDDDD"), _HATCHES, strict=True), strict=True))
_WIDTH = 0.62
_MANY = 3  # rows of panels, from which on they are lower


def draw(points: pd.DataFrame) -> Figure:
    """Draw the terms of every gamma's gap.

    Args:
        points: a frame as :func:`specbench.analysis.shown.frame.points_frame` gives it.

    Raises:
        SpecbenchError: no row has a measured alpha and speedup, or none a closed form.
    """
    name = "gap-decomposition"
    points, left_out = _rows.chains(_rows.measured(points, name), name)
    points = points.dropna(subset=[f"gap_{term}" for term in TERMS])
    if not len(points):
        raise SpecbenchError(
            f"nothing to draw in {name}: no cell has times of rounds to take apart",
            "Imported results have none; draw --figure speedup-vs-gamma",
        )
    points = _rows.with_series(points)
    series = _rows.unique(points["series"])
    groups = [
        group[group["series"] == one]
        for group in by_setting(points)[0]
        for one in series
        if (group["series"] == one).any()
    ]
    columns = len(series) if 2 <= len(series) <= 4 else 4
    few = len(groups) < _MANY * columns
    figure, axes = base.panels(len(groups), columns, 2.75 if few else 1.9)
    gammas = sorted(int(gamma) for gamma in points["gamma"].unique())
    for axis, group in zip(axes, groups, strict=True):
        _bars(axis, group, gammas)
        _measured(axis, group, gammas)
        axis.axhline(0.0, color=base.INK, linewidth=1.1, zorder=2.5)
        axis.set_title(setting_title(group, group["series"].iloc[0]), fontsize=9.5)
    axes[0].set_xlim(-0.6, len(gammas) - 0.4)
    axes[0].xaxis.set_major_locator(FixedLocator(range(len(gammas))))
    axes[0].xaxis.set_minor_locator(NullLocator())
    axes[0].xaxis.set_major_formatter(FixedFormatter([str(gamma) for gamma in gammas]))
    text = "From the closed form to the measured speedup"
    _keys.put_title(figure, points, text, left_out)
    figure.supxlabel("gamma (γ): tokens proposed per round", fontsize=10)
    figure.supylabel("log(speedup / closed form)", fontsize=10)
    _keys.legend(figure, _legend())
    return figure


def _bars(axis: Axes, group: pd.DataFrame, gammas: list[int]) -> None:
    """Falling terms stacked below the line, rising ones above it, in their order."""
    places = [gammas.index(int(gamma)) for gamma in group["gamma"]]
    below, above = np.zeros(len(group)), np.zeros(len(group))
    for term, (colour, hatch) in _LOOKS.items():
        values = group[f"gap_{term}"].to_numpy(float)
        axis.bar(
            places,
            values,
            width=_WIDTH,
            bottom=np.where(values < 0.0, below, above),
            color=colour,
            hatch=hatch,
            edgecolor=base.INK,
            linewidth=0.4,
            zorder=2,
        )
        below += np.minimum(values, 0.0)
        above += np.maximum(values, 0.0)


def _measured(axis: Axes, group: pd.DataFrame, gammas: list[int]) -> None:
    value, low, high = (
        np.log(group[column] / group["closed_form"])
        for column in ("speedup", "speedup_low", "speedup_high")
    )
    axis.errorbar(
        [gammas.index(int(gamma)) for gamma in group["gamma"]],
        value,
        yerr=base.error_bars(low, value, high),
        linestyle="none",
        marker="D",
        markersize=5,
        color=base.INK,
        markerfacecolor="white",
        markeredgewidth=1.1,
        elinewidth=1.1,
        capsize=2.5,
        zorder=3,
    )


def _legend() -> list[Any]:
    terms = [
        Patch(facecolor=colour, hatch=hatch, edgecolor=base.INK, linewidth=0.4, label=TERMS[term])
        for term, (colour, hatch) in _LOOKS.items()
    ]
    mark = _keys.mark("D", "full", "measured speedup")
    mark.set(markerfacecolor="white")
    return [
        _keys.heading("Term"),
        *terms,
        _keys.heading("Sum"),
        mark,
        _keys.error_bar_handle(),
        _keys.heading("Reference"),
        Line2D([], [], color=base.INK, label="closed form"),
    ]
