"""Speedup against alpha: the closed form's curve for each gamma, and the measured points.

One panel per drafter and batch size, because the curves depend on c and a panel has one c. Where a
point lies below its gamma's curve, the machine charges for something the closed form leaves out:
verification dearer than one step (v > 1), a fixed overhead per round, or drafts that were shorter
than gamma. Curves: Leviathan, Kalman, Matias 2023, theorem 3.8.

Synthetic drafters that differ in nothing but their alpha share a panel. There the extended model is
drawn too: what a round was measured to take at each gamma gives the speedup at any alpha.

Published measurements may lie over the panels, hollow and without intervals; each has its own c.

Trees and adaptive drafts are not here, and the title counts them: a tree's alpha is that of a whole
level, an adaptive draft's that of easier tokens, so neither belongs on an axis of chains.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from specbench.plots import _keys, _rows, base
from specbench.plots._settings import by_series
from specbench.theory import closed_form

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_ALPHAS = np.linspace(0.0, 1.0, 101)
_PUBLISHED_MARK = "h"  # which no task has
_SET_ALPHA = r"^synthetic:[^,]*"
_WIDE, _PALE = 4.0, 0.35  # of the extended model's lines


def draw(points: pd.DataFrame, published: pd.DataFrame | None = None) -> Figure:
    """Draw theory and measurement over alpha.

    Args:
        points: a frame as :func:`specbench.analysis.shown.frame.points_frame` gives it.
        published: a frame as :func:`specbench.analysis.shown.frame.published_frame` gives it.

    Raises:
        SpecbenchError: no row has a measured alpha and speedup, or none of them is a chain.
    """
    name = "speedup-vs-alpha"
    points, left_out = _rows.chains(_rows.measured(points, name), name)
    points = _rows.with_series(_families(points))
    gammas = base.ordered_looks(sorted(int(gamma) for gamma in points["gamma"].unique()))
    tasks = base.named_looks(_rows.unique(points["task"]))
    temperatures = sorted(points["temperature"].unique())
    keys, fills = (
        ["batch_size", "context_length"],
        dict(zip(temperatures, base.FILLS, strict=False)),
    )
    if len(temperatures) > len(base.FILLS):  # more than fills can tell apart: a panel for each
        keys, fills = [*keys, "temperature"], dict.fromkeys(temperatures, "full")
    groups, columns = by_series(points, keys)
    figure, axes = base.panels(len(groups), columns, 3.4)

    reach = 0.0 if published is None else 1.06 * float(published["speedup"].max())
    top = max(reach, base.top_of(points[["speedup", "closed_form"]], points["speedup_high"], 1.12))
    for axis, group in zip(axes, groups, strict=True):
        _curves(axis, group, gammas)
        _points(axis, group, gammas, tasks, fills, top)
        if published is not None:
            _published(axis, published)
        axis.set_title(_panel_title(points, group, keys), fontsize=9.5)
    axes[0].set_xlim(0.0, 1.0)
    axes[0].set_ylim(0.0, top)  # curves may leave the panel
    _keys.put_title(figure, points, "Speedup against alpha: closed form and measurement", left_out)
    figure.supxlabel("alpha (α): chance that an evaluated token is accepted", fontsize=10)
    figure.supylabel("speedup over the baseline (×)", fontsize=10)
    handles = _legend(points, gammas, tasks, fills, top)
    if published is not None:
        handles.append(_keys.heading("Published"))
        for source in _rows.unique(published["source"]):
            handles.append(_keys.mark(_PUBLISHED_MARK, "none", base.wrapped(source, 26)))
    _keys.legend(figure, handles)
    return figure


def _families(points: pd.DataFrame) -> pd.DataFrame:
    """Synthetic drafters that differ in their alpha alone under one name."""
    named = points["drafter"].str.replace(_SET_ALPHA, "synthetic:A", regex=True)
    several = points.groupby(named)["drafter"].transform("nunique") > 1
    return points.assign(drafter=named.where(several, points["drafter"]))


def _curves(axis: Axes, group: pd.DataFrame, gammas: dict[int, base.Series]) -> None:
    base.no_gain_line(axis, base.largest(group["noise_floor"]))
    c = _panel_c(group)
    if math.isnan(c):  # an imported run, whose rounds nobody timed
        return
    for gamma, look in gammas.items():
        values = [closed_form.speedup(float(alpha), gamma, c) for alpha in _ALPHAS]
        axis.plot(_ALPHAS, values, color=look.colour, linestyle=look.dash, linewidth=1.3, zorder=2)
        rows = group[_rows.synthetic(group) & (group["gamma"] == gamma)]
        cost = float(rows[["draft_t1", "verify_t1", "other_t1"]].sum(axis=1, min_count=3).mean())
        if not math.isnan(cost):
            tokens = [closed_form.expected_tokens(float(alpha), gamma) for alpha in _ALPHAS]
            pale = (look.colour, _PALE)
            axis.plot(_ALPHAS, np.array(tokens) / cost, color=pale, linewidth=_WIDE, zorder=1.8)


def _points(
    axis: Axes,
    group: pd.DataFrame,
    gammas: dict[int, base.Series],
    tasks: dict[str, base.Series],
    fills: dict[float, str],
    top: float,
) -> None:
    for (task, temperature, gamma), rows in group.groupby(["task", "temperature", "gamma"]):
        colour = gammas[int(gamma)].colour
        base.mark_cut(axis, rows["alpha"], rows["speedup_high"], top, colour)
        axis.errorbar(
            rows["alpha"],
            rows["speedup"],
            xerr=base.error_bars(rows["alpha_low"], rows["alpha"], rows["alpha_high"]),
            yerr=base.error_bars(rows["speedup_low"], rows["speedup"], rows["speedup_high"]),
            linestyle="none",
            marker=tasks[task].marker,
            markersize=5.5,
            fillstyle=fills[temperature],
            color=colour,
            markerfacecoloralt="white",
            markeredgewidth=1.1,
            ecolor=(colour, 0.55),
            elinewidth=0.8,
            zorder=3,
        )


def _published(axis: Axes, published: pd.DataFrame) -> None:
    axis.plot(
        published["alpha"],
        published["speedup"],
        linestyle="none",
        marker=_PUBLISHED_MARK,
        markersize=6.5,
        fillstyle="none",
        color=base.INK,
        markeredgewidth=0.9,
        zorder=2.5,
    )


def _panel_title(points: pd.DataFrame, group: pd.DataFrame, keys: list[str]) -> str:
    first = group.iloc[0]
    parts = []
    if points["batch_size"].nunique() > 1:
        parts.append(f"batch {int(first['batch_size'])}")
    if first["context"]:
        parts.append(str(first["context"]))
    if "temperature" in keys:
        parts.append(f"T = {first['temperature']:g}")
    known = not math.isnan(_panel_c(group))
    parts.append(f"curves at c = {_c_with_range(group)}" if known else "c not known: no curves")
    return base.wrapped(str(first["series"]), 36) + "\n" + base.wrapped(" · ".join(parts), 44)


def _panel_c(group: pd.DataFrame) -> float:
    """The panel's one c: the median over its tasks and temperatures."""
    return float(group.drop_duplicates(["task", "temperature", "fit_c"])["fit_c"].median())


def _c_with_range(group: pd.DataFrame) -> str:
    """The curves' c, and from where to where it goes among the points, unless that is nothing."""
    c, low, high = _panel_c(group), float(group["fit_c"].min()), float(group["fit_c"].max())
    spread = f" ({low:.2g}–{high:.2g})" if high > 1.05 * low else ""
    return f"{c:.2g}{spread}"


def _legend(
    points: pd.DataFrame,
    gammas: dict[int, base.Series],
    tasks: dict[str, base.Series],
    fills: dict[float, str],
    top: float,
) -> list[Line2D]:
    drawn = bool(points["fit_c"].notna().any())
    handles = [_keys.heading("Gamma: closed form" if drawn else "Gamma")]
    for gamma, look in gammas.items():
        curve = Line2D([], [], color=look.colour, linestyle=look.dash, label=f"γ = {gamma}")
        points_alone = _keys.mark("o", "full", f"γ = {gamma}", look.colour)
        handles.append(curve if drawn else points_alone)
    if _rows.synthetic(points).any():
        pale = (base.INK, _PALE)
        handles.append(Line2D([], [], color=pale, linewidth=_WIDE, label="extended model"))
    handles.append(_keys.heading("Task: measured"))
    for task, look in tasks.items():
        handles.append(_keys.mark(look.marker, "full", base.wrapped(task, 26)))
    if len(set(fills.values())) == len(fills):
        handles.append(_keys.heading("Temperature"))
        handles += [_keys.mark("o", fill, f"T = {value:g}") for value, fill in fills.items()]
    handles += _keys.reference_handles(points)
    cut = bool((points["speedup_high"] > top).any())
    return handles + _keys.interval_handles(points, ["alpha", "speedup"], cut)
