"""Predicted against measured speedup: each gamma predicted from the others, by both models.

One panel per task, temperature and batch size. A point on the line was predicted exactly; above it
the model was optimistic. The bars of the extended model are the range in which it expects a
measurement in 95 of 100 cases, so most of them should reach the line; the bars across are the
measured speedup's own interval. Gammas that were left out at either end were extrapolated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from specbench.errors import SpecbenchError
from specbench.plots import _keys, _rows, base
from specbench.plots._settings import panels_by_setting

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_MODELS = ["held_out", "held_out_closed_form"]
_REACH = 1.5  # intervals are drawn so far beyond the outermost points, as a factor


def draw(points: pd.DataFrame) -> Figure:
    """Draw predictions of gammas left out over what was measured there.

    Args:
        points: a frame as :func:`specbench.analysis.shown.frame.points_frame` gives it.

    Raises:
        SpecbenchError: no row has a measured alpha and speedup, or none was predicted.
    """
    name = "predicted-vs-measured"
    points = _rows.measured(points, name).dropna(subset=_MODELS)
    if not len(points):
        raise SpecbenchError(
            f"nothing to draw in {name}: no γ could be predicted from others",
            "It takes three of one drafter that drafts chains: --gamma 1,2,4",
        )
    points = _rows.with_series(points)
    looks = base.named_looks(_rows.unique(points["series"]))
    figure, panels = panels_by_setting(points)
    low, high = _range(points)
    for axis, group in panels:
        axis.plot([low, high], [low, high], color=base.INK, linewidth=1.1, zorder=1.5)
        _points(axis, group, looks)
    first, _ = panels[0]
    first.set_xlim(low, high)
    first.set_ylim(low, high)
    _keys.put_title(figure, points, "Predicted against measured speedup: each γ from the others")
    figure.supxlabel("measured speedup (×)", fontsize=10)
    figure.supylabel("predicted speedup (×)", fontsize=10)
    _keys.legend(figure, _legend(looks))
    return figure


def _points(axis: Axes, group: pd.DataFrame, looks: dict[str, base.Series]) -> None:
    for series, rows in group.groupby("series", sort=False):
        look = looks[str(series)]
        common: dict[str, Any] = {
            "linestyle": "none",
            "marker": look.marker,
            "color": look.colour,
            "ecolor": (look.colour, 0.6),
            "elinewidth": 0.9,
        }
        axis.errorbar(
            rows["speedup"],
            rows["held_out_closed_form"],
            markersize=5,
            markerfacecolor="white",
            zorder=2.5,
            **common,
        )
        axis.errorbar(
            rows["speedup"],
            rows["held_out"],
            xerr=base.error_bars(rows["speedup_low"], rows["speedup"], rows["speedup_high"]),
            yerr=base.error_bars(rows["held_out_low"], rows["held_out"], rows["held_out_high"]),
            markersize=5.5,
            markeredgecolor=base.INK,
            markeredgewidth=0.5,
            zorder=3,
            **common,
        )


def _range(points: pd.DataFrame) -> tuple[float, float]:
    """The same for both axes; an interval of few gammas may reach far, and is cut."""
    values = points[["speedup", *_MODELS]]
    least, most = float(values.min().min()), float(values.max().max())
    ends = points[["speedup_low", "speedup_high", "held_out_low", "held_out_high"]]
    low, high = ends.min().min(), ends.max().max()  # NaN without any interval
    low = max(low, least / _REACH) if low < least else least
    high = min(high, most * _REACH) if high > most else most
    margin = 0.04 * (high - low) or 0.04 * high
    return max(low - margin, 0.0), high + margin


def _legend(looks: dict[str, base.Series]) -> list[Any]:
    handles: list[Any] = [_keys.heading("Drafter")]
    for series, look in looks.items():
        handles.append(_keys.mark(look.marker, "full", base.wrapped(series, 26), look.colour))
    closed = _keys.mark("o", "full", "closed form")
    closed.set(markerfacecolor="white")
    return [
        *handles,
        _keys.heading("Predicted by"),
        _keys.mark("o", "full", "extended model"),
        closed,
        _keys.heading("Reference"),
        Line2D([], [], color=base.INK, label="predicted = measured\n(above: optimistic)"),
        _keys.error_bar_handle(),
    ]
