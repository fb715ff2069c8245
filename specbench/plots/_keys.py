"""Legends and titles: what marks mean, outside the panels, in the room they need."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from specbench.analysis.shown.formats import SYNTHETIC_NOTE
from specbench.plots._rows import one_context, short_name, synthetic, unique
from specbench.plots.base import INK, largest

if TYPE_CHECKING:
    import pandas as pd

_HEADING = "heading"
_LEGEND_SIZE, _LEGEND_SPACING = 8.5, 0.45  # points, and letter heights between entries
_LEGEND_MARGIN = 0.35  # inches
_LINE_HEIGHT = 1.25  # of a letter's
_TITLE_SIZE = 10.5  # points
_TITLE_LINE = _LINE_HEIGHT * _TITLE_SIZE / 72  # inches


def mark(marker: str, fill: str, label: str, colour: str = INK) -> Line2D:
    """A legend entry for a kind of point."""
    return Line2D(
        [],
        [],
        linestyle="none",
        marker=marker,
        fillstyle=fill,
        color=colour,
        markerfacecoloralt="white",
        markersize=5.5,
        label=label,
    )


def reference_handles(points: pd.DataFrame) -> list[Any]:
    """Legend entries for the no-gain line and, where one was measured, the noise band."""
    handles: list[Any] = [heading("Reference"), Line2D([], [], color=INK, label="no gain (1×)")]
    if (largest(points["noise_floor"]) or 0.0) > 0:
        floors = points.groupby(["task", "temperature", "batch_size"])["noise_floor"].nunique()
        label = "noise floor (largest)" if floors.max() > 1 else "noise floor"
        handles.append(Patch(facecolor="#BBBBBB", alpha=0.45, label=label))
    return handles


def error_bar_handle(cut: bool = False, what: str = "95% interval", mark: str = "▲") -> Line2D:
    """A legend entry that says what the bars are, and with which mark some leave the panel."""
    return Line2D(
        [],
        [],
        linestyle="none",
        marker="|",
        markersize=9,
        color=INK,
        label=what + f"\n({mark} goes on)" * cut,
    )


def interval_handles(points: pd.DataFrame, of: Sequence[str], cut: bool = False) -> list[Line2D]:
    """As :func:`error_bar_handle`; nothing where no point has an interval.

    Args:
        of: names of measured values.
    """
    ends = [f"{name}_{side}" for name in of for side in ("low", "high")]
    return [error_bar_handle(cut)] if points[ends].notna().any(axis=None) else []


def heading(text: str) -> Line2D:
    """A line of text inside a legend, with no mark beside it."""
    return Line2D([], [], linestyle="none", marker="none", label=text, gid=_HEADING)


def legend(figure: Figure, handles: Sequence[Any]) -> None:
    """The figure's only legend, outside every panel, so that it never lies over data.

    The figure becomes higher if it is too low for it.
    """
    lines = sum(handle.get_label().count("\n") + 1 for handle in handles)
    needed = (_LINE_HEIGHT * lines + _LEGEND_SPACING * len(handles)) * _LEGEND_SIZE / 72
    figure.set_figheight(max(figure.get_figheight(), needed + _LEGEND_MARGIN))
    box = figure.legend(
        handles=list(handles),
        loc="outside right upper",
        frameon=False,
        fontsize=_LEGEND_SIZE,
        handlelength=2.8,
        labelspacing=_LEGEND_SPACING,
    )
    for handle, text in zip(handles, box.get_texts(), strict=True):
        if handle.get_gid() == _HEADING:
            text.set_fontweight("bold")


def put_title(figure: Figure, points: pd.DataFrame, text: str, note: str = "") -> None:
    """``text``, then the targets and runs the points come from, clear of the legend beside it.

    The figure becomes higher by the lines that not every figure has, so that panels keep their
    height.

    Args:
        note: what is not on the figure, below them.
    """
    targets = ", ".join(short_name(name) for name in unique(points["target"]))
    runs = ", ".join(unique(points["run"]))
    width = max(30, int(11.5 * (figure.get_figwidth() - 2.4)))
    told = [f"target {targets} · run {runs}{one_context(points)}", note]
    if synthetic(points).any():
        told.append(SYNTHETIC_NOTE)
    lines = [text, *(line for each in told for line in textwrap.wrap(each, width))]
    figure.set_figheight(figure.get_figheight() + _TITLE_LINE * max(len(lines) - 2, 0))
    figure.suptitle("\n".join(lines), fontsize=_TITLE_SIZE, x=0.012, ha="left")
