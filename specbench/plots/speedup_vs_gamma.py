"""Speedup against gamma: measurement, extended model and closed form for each drafter.

One panel per task, temperature and batch size. The closed form knows alpha and c only; the
extended model also knows what a round really costs on this machine (v and the overhead) and how
many tokens were really drafted. What is left between the extended model and the points is
acceptance that is not the same at every position, tokens cut at the end of an output, or noise.

Trees and adaptive drafts have no model over gamma: a dotted line joins their measured points.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from specbench.plots import _keys, _rows, base
from specbench.plots._settings import panels_by_setting, side_by_side
from specbench.theory import closed_form

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_CLOSED, _JOINED = (0, (4, 2)), (0, (1, 1.5))
_DODGE = 0.12  # points of different drafters at one gamma stand side by side, in powers of two,
_ROOM = 0.7  # and take at most this share of the way to the next gamma


def draw(points: pd.DataFrame) -> Figure:
    """Draw theory and measurement over gamma.

    Args:
        points: a frame as :func:`specbench.analysis.shown.frame.points_frame` gives it.

    Raises:
        SpecbenchError: no row has a measured speedup.
    """
    points = _rows.with_series(_rows.measured(points, "speedup-vs-gamma", alpha=False))
    looks = base.named_looks(_rows.unique(points["series"]))
    gammas = sorted(int(gamma) for gamma in points["gamma"].unique())
    ways = [math.log2(later / gamma) for gamma, later in pairwise(gammas)]
    shifts = side_by_side(list(looks), _DODGE, _ROOM * min([*ways, 1.0]))
    figure, panels = panels_by_setting(points)
    values = points[["speedup", "closed_form", "extended"]]
    top = base.top_of(values, points["speedup_high"], room=1.08)
    for axis, group in panels:
        _lines(axis, group, looks)
        _points(axis, group, looks, shifts, top)
        base.no_gain_line(axis, base.largest(group["noise_floor"]))
    first, _ = panels[0]
    _axis_of_gammas(first, gammas)
    first.set_ylim(0.0, top)
    _keys.put_title(figure, points, "Speedup against gamma: theory and measurement")
    figure.supxlabel(f"gamma (γ): {_meaning_of_gamma(points)}", fontsize=10)
    figure.supylabel("speedup over the baseline (×)", fontsize=10)
    _keys.legend(figure, _legend(points, looks, top))
    return figure


def _lines(axis: Axes, group: pd.DataFrame, looks: dict[str, base.Series]) -> None:
    """The two models of every chain."""
    for series, rows in group[group["draft_form"] == "chain"].groupby("series", sort=False):
        look, rows = looks[str(series)], rows.sort_values("gamma")
        alpha, c = float(rows["fit_alpha"].iloc[0]), float(rows["fit_c"].iloc[0])
        if math.isnan(c) or math.isnan(alpha):  # of a server, whose rounds nobody timed
            continue
        gammas = list(range(int(rows["gamma"].min()), int(rows["gamma"].max()) + 1))
        axis.plot(
            gammas,
            [closed_form.speedup(alpha, gamma, c) for gamma in gammas],
            color=look.colour,
            linestyle=_CLOSED,
            linewidth=1.1,
            marker=look.marker,
            markevery=[gammas.index(int(gamma)) for gamma in rows["gamma"]],
            markersize=4,
            markerfacecolor="white",
            zorder=2,
        )
        axis.plot(
            rows["gamma"],
            rows["extended"],
            color=look.colour,
            linewidth=1.4,
            marker="_",  # a single gamma gives no line to see
            markersize=9,
            zorder=2.5,
        )


def _points(
    axis: Axes,
    group: pd.DataFrame,
    looks: dict[str, base.Series],
    shifts: dict[str, float],
    top: float,
) -> None:
    """What was measured; where no model runs through the points they are joined."""
    for series, rows in group.groupby("series", sort=False):
        look, rows = looks[str(series)], rows.sort_values("gamma")
        at = rows["gamma"] * 2.0 ** shifts[str(series)]
        base.mark_cut(axis, at, rows["speedup_high"], top, look.colour)
        axis.errorbar(
            at,
            rows["speedup"],
            yerr=base.error_bars(rows["speedup_low"], rows["speedup"], rows["speedup_high"]),
            linestyle="none" if (rows["draft_form"] == "chain").all() else _JOINED,
            linewidth=1.1,
            marker=look.marker,
            markersize=6,
            color=look.colour,
            markeredgecolor=base.INK,
            markeredgewidth=0.5,
            elinewidth=1.1,
            capsize=2,
            zorder=3,
        )


def _meaning_of_gamma(points: pd.DataFrame) -> str:
    meanings = {
        "chain": "tokens proposed per round",
        "tree": "levels of a tree",
        "adaptive": "most tokens of a gamma=auto draft",
    }
    forms = set(points["draft_form"])
    return ", ".join(text for form, text in meanings.items() if form in forms)


def _axis_of_gammas(axis: Axes, gammas: list[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xlim(gammas[0] / 1.32, gammas[-1] * 1.32)
    axis.xaxis.set_major_locator(FixedLocator(gammas))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))


def _legend(points: pd.DataFrame, looks: dict[str, base.Series], top: float) -> list[Line2D]:
    handles = [_keys.heading("Drafter")]
    for series, look in looks.items():
        handles.append(_keys.mark(look.marker, "full", base.wrapped(series, 26), look.colour))
    handles += [_keys.heading("Speedup"), _keys.mark("o", "full", "measured")]
    is_chain = points["draft_form"] == "chain"
    if (is_chain & points[["fit_alpha", "fit_c"]].notna().all(axis=1)).any():
        closed = Line2D([], [], color=base.INK, linestyle=_CLOSED, marker="o", label="closed form")
        closed.set(markersize=4, markerfacecolor="white")
        handles += [
            Line2D([], [], color=base.INK, linewidth=1.4, marker="_", label="extended model"),
            closed,
        ]
    if (points[~is_chain].groupby("series")["gamma"].nunique() > 1).any():
        label = "joined: trees, gamma=auto\n(no model over γ)"
        handles.append(Line2D([], [], color=base.INK, linestyle=_JOINED, label=label))
    handles += _keys.reference_handles(points)
    cut = bool((points["speedup_high"] > top).any())
    return handles + _keys.interval_handles(points, ["speedup"], cut)
