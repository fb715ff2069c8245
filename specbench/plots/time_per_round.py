"""Time of a round, stacked: draft, verify and the rest, beside a plain decoding step.

One panel per task, temperature and batch size, a bar per drafter and gamma. The line at 1 is T1,
the baseline's whole time per step: what a verifying forward takes beyond it is v - 1, and a round
has to give more tokens than its bar is long. The axis on top has the same times in milliseconds.
Bars end in the 95% interval of the whole round.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from specbench.analysis.shown.names import cut_in_middle, with_gamma
from specbench.errors import SpecbenchError
from specbench.plots import _keys, _rows, base
from specbench.plots._settings import panels_by_setting

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_NAME = "time-per-round"
_PARTS = {  # column -> label, fill, hatch; told apart in grey by both
    "draft_t1": ("draft", base.PALETTE[0], ""),
    "verify_t1": ("verify", "#F2DFB3", "///"),
    "other_t1": ("the rest", "#8A8A8A", "..."),
}
_BAR, _ROW = 0.7, 0.19  # inches per bar
_LABEL = 34


def draw(points: pd.DataFrame) -> Figure:
    """Draw the parts of a round.

    Args:
        points: a frame as :func:`specbench.analysis.shown.frame.points_frame` gives it.

    Raises:
        SpecbenchError: no row has round times in units of a baseline's step.
    """
    known = points.dropna(subset=list(_PARTS)) if len(points) else points
    if not len(known):
        raise SpecbenchError(
            f"nothing to draw in {_NAME}: no cell has both round times and a finished baseline "
            "to measure them in",
            "`specbench fit RUN` lists what failed",
        )
    known = _rows.with_series(known)
    bars = sorted(
        set(zip(known["series"], known["gamma"].astype(int), strict=True)),
        key=lambda bar: (_rows.unique(known["series"]).index(bar[0]), bar[1]),
    )
    figure, panels = panels_by_setting(known, max(2.2, 0.9 + _ROW * len(bars)))
    whole = known[list(_PARTS)].sum(axis=1).to_frame()
    end = base.top_of(whole, known["round_high"], room=1.06, least=1.06)
    for axis, group in panels:
        _bars(axis, group, bars, end)
        axis.axvline(1.0, color=base.INK, linewidth=1.1, zorder=3)
        _in_milliseconds(axis, group)
        axis.tick_params(axis="y", labelsize=7.5)
    first, _ = panels[0]
    first.set_xlim(0.0, end)
    first.set_ylim(len(bars) - 0.4, -0.6)
    forms = dict(zip(known["series"], known["draft_form"], strict=True))
    labels = [
        with_gamma(cut_in_middle(series, _LABEL), forms[series], gamma) for series, gamma in bars
    ]
    first.set_yticks(range(len(bars)), labels)
    _keys.put_title(figure, known, "Time of a round: draft, verify and the rest")
    figure.supxlabel("time per round (T1 = a plain decoding step); on top: ms", fontsize=10)
    _keys.legend(figure, _legend(cut=bool((known["round_high"] > end).any())))
    return figure


def _bars(axis: Axes, group: pd.DataFrame, bars: list[tuple[str, int]], end: float) -> None:
    rows = zip(group["series"], group["gamma"], strict=True)
    places = [bars.index((series, int(gamma))) for series, gamma in rows]
    left = np.zeros(len(group))
    for column, (_, colour, hatch) in _PARTS.items():
        widths = group[column].to_numpy(float)
        axis.barh(
            places,
            widths,
            _BAR,
            left=left,
            color=colour,
            hatch=hatch,
            edgecolor=base.INK,
            linewidth=0.5,
            zorder=2,
        )
        left = left + widths
    base.mark_cut(axis, np.array(places), group["round_high"].to_numpy(), end, base.INK, True)
    axis.errorbar(
        left,
        places,
        xerr=_interval(group, left),
        linestyle="none",
        color=base.INK,
        elinewidth=1.0,
        capsize=2,
        zorder=4,
    )


def _interval(group: pd.DataFrame, total: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distances to both ends [2, n]; no length where there is no interval."""
    ends = (total - group["round_low"].to_numpy(float), group["round_high"].to_numpy(float) - total)
    return np.asarray(np.maximum(np.nan_to_num(np.array(ends)), 0.0))


def _in_milliseconds(axis: Axes, group: pd.DataFrame) -> None:
    """The same times on top of the panel, where all its bars have one T1."""
    steps = group["step_s"].dropna()
    if len(steps) and float(steps.max()) <= 1.001 * float(steps.min()):
        unit = 1e3 * float(steps.iloc[0])
        to_ms, from_ms = (
            functools.partial(np.multiply, unit),
            functools.partial(np.multiply, 1 / unit),
        )
        above = axis.secondary_xaxis("top", functions=(to_ms, from_ms))
        above.tick_params(labelsize=7.5)


def _legend(cut: bool) -> list[Patch | Line2D]:
    handles: list[Patch | Line2D] = [_keys.heading("Part of a round")]
    for label, colour, hatch in _PARTS.values():
        patch = Patch(facecolor=colour, hatch=hatch, edgecolor=base.INK, linewidth=0.5, label=label)
        handles.append(patch)
    handles.append(_keys.heading("Reference"))
    handles.append(Line2D([], [], color=base.INK, linewidth=1.1, label="T1: a plain step"))
    interval = _keys.error_bar_handle(cut, "95% interval of the round", "▶")
    interval.set(marker="_")
    return [*handles, interval]
