"""Speedup over batch size: where speculation stops paying.

One panel per task, temperature and context. At each batch size a drafter is drawn at the gamma
whose speedup was measured highest there; the gammas stand beside the points, in their order. Where
a line falls below 1 plain decoding is faster; between measured sizes the line only joins the
points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from specbench.errors import SpecbenchError
from specbench.plots import _keys, _rows, base
from specbench.plots._settings import side_by_side

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NAME = "batch-crossover"
_DODGE, _ROOM = 0.07, 0.4  # between drafters at one batch size, and for all: in powers of two
_LINE = 0.055  # height of a number's line, of the panel's


def draw(points: pd.DataFrame) -> Figure:
    """Draw the best speedup of each drafter over batch size.

    Args:
        points: a frame as :func:`specbench.analysis.shown.frame.points_frame` gives it.

    Raises:
        SpecbenchError: no row has a measured speedup, or all have one batch size.
    """
    known = points.dropna(subset=["speedup"]) if len(points) else points
    if not len(known):
        raise SpecbenchError(
            f"nothing to draw in {_NAME}: no cell has a measured speedup",
            "A speedup needs a finished baseline; `specbench fit RUN` lists what failed",
        )
    points = _rows.with_series(known)
    sizes = sorted(int(size) for size in points["batch_size"].unique())
    if len(sizes) == 1:
        raise SpecbenchError(
            f"nothing to draw in {_NAME}: speedups were measured at one batch size only "
            f"({sizes[0]})",
            "Measure several with --batch-size 1,4,16",
        )
    looks = base.named_looks(_rows.unique(points["series"]))
    settings = _rows.unique(
        points[["task", "temperature", "context"]].itertuples(index=False, name=None)
    )
    settings.sort(key=lambda setting: setting[1])
    tasks = points["task"].nunique()
    figure, axes = base.panels(len(settings), tasks if 2 <= tasks <= 4 else 3)
    shifts = side_by_side(list(looks), _DODGE, _ROOM)
    top = base.top_of(points[["speedup"]], points["speedup_high"], room=1.12)
    for axis, (task, temperature, context) in zip(axes, settings, strict=True):
        panel = points[(points["task"] == task) & (points["temperature"] == temperature)]
        panel = panel[panel["context"] == context]
        base.no_gain_line(axis, base.largest(panel["noise_floor"]))
        best = {name: _best(panel[panel["series"] == name]) for name in looks}
        for series, look in looks.items():
            _line(axis, best[series], look, shifts[series], top)
        _gammas(axis, best, looks, top)
        title = f"{task} · T = {temperature:g}" + (f" · {context}" if context else "")
        axis.set_title(base.wrapped(title, 36), fontsize=9.5)
    _axis_of_sizes(axes[0], sizes)
    axes[0].set_ylim(0.0, top)
    _keys.put_title(figure, points, "Speedup against batch size, each drafter at its best gamma")
    figure.supxlabel("batch size (sequences decoded together)", fontsize=10)
    figure.supylabel("speedup over the baseline (×)", fontsize=10)
    _keys.legend(figure, _legend(points, looks, top))
    return figure


def _best(rows: pd.DataFrame) -> pd.DataFrame:
    """One drafter at its best gamma, a row per batch size."""
    return rows.loc[rows.groupby("batch_size")["speedup"].idxmax()].sort_values("batch_size")


def _line(axis: Axes, best: pd.DataFrame, look: base.Series, shift: float, top: float) -> None:
    """One drafter over batch sizes, joined."""
    at = best["batch_size"] * 2.0**shift
    base.mark_cut(axis, at, best["speedup_high"], top, look.colour)
    axis.errorbar(
        at,
        best["speedup"],
        yerr=base.error_bars(best["speedup_low"], best["speedup"], best["speedup_high"]),
        linestyle=look.dash,
        linewidth=1.2,
        marker=look.marker,
        markersize=5.5,
        color=look.colour,
        markeredgecolor=base.INK,
        markeredgewidth=0.5,
        elinewidth=1.0,
        capsize=2,
        zorder=3,
    )


def _gammas(
    axis: Axes, best: dict[str, pd.DataFrame], looks: dict[str, base.Series], top: float
) -> None:
    """The best gammas beside the points of a batch size, in the points' order from top to bottom.

    They are moved apart where points lie closer than a line of text is high.
    """
    rows = pd.concat([rows.assign(name=name) for name, rows in best.items() if len(rows)])
    for size, here in rows.groupby("batch_size"):
        here = here.sort_values("speedup")
        heights = spread_out(here["speedup"].tolist(), _LINE * top)
        for height, name, gamma in zip(heights, here["name"], here["gamma"], strict=True):
            axis.text(
                float(size) * 2.0 ** (_ROOM / 2 + 0.06),
                height,
                f"{int(gamma)}",
                fontsize=7,
                va="center",
                color=looks[name].colour,
                bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.4},
                zorder=4,
            )


def spread_out(heights: Sequence[float], least: float) -> list[float]:
    """Rising heights moved apart to at least ``least``, as little as that takes."""
    runs: list[tuple[float, int]] = []  # the lowest of neighbours that touch, and their number
    for height in heights:
        runs.append((height, 1))
        while len(runs) > 1 and runs[-1][0] < runs[-2][0] + runs[-2][1] * least:
            (low, count), (other, more) = runs[-2:]
            middle = (low + (count - 1) * least / 2) * count
            middle += (other + (more - 1) * least / 2) * more
            total = count + more
            runs[-2:] = [(middle / total - (total - 1) * least / 2, total)]
    return [low + place * least for low, count in runs for place in range(count)]


def _axis_of_sizes(axis: Axes, sizes: list[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.55)
    axis.xaxis.set_major_locator(FixedLocator(sizes))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))


def _legend(points: pd.DataFrame, looks: dict[str, base.Series], top: float) -> list[Line2D]:
    handles = [_keys.heading("Drafter")]
    for series, look in looks.items():
        line = _keys.mark(look.marker, "full", base.wrapped(series, 26), look.colour)
        line.set(linestyle=look.dash, linewidth=1.2)
        handles.append(line)
    handles.append(_keys.mark("none", "full", "number: best γ there"))
    cut = bool((points["speedup_high"] > top).any())
    bars = _keys.interval_handles(points, ["speedup"], cut)
    return [*handles, *_keys.reference_handles(points), *bars]
