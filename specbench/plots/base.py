"""What every figure shares: panels, marks that survive a grey printer, saving.

Colour is never the only difference between two things: lines differ in dash pattern, points in
shape or fill, and the colours of an ordered quantity (gamma) rise in lightness. The palette of
names is Okabe and Ito's (2008), made to be told apart with any common colour blindness.
"""

from __future__ import annotations

import inspect
import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure

from specbench import registry
from specbench.analysis.shown.names import broken
from specbench.plots._names import readable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C564B")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
FILLS = ("full", "none", "left", "top")
DASHES: tuple[Any, ...] = (
    "solid",
    (0, (5, 2)),
    (0, (1, 1.5)),
    (0, (6, 2, 1, 2)),
    (0, (3, 2, 1, 2, 1, 2)),
    (0, (9, 3)),
    (0, (1, 4)),
    (0, (9, 2, 3, 2)),
)
INK = "#222222"
NO_FORMULAS = {"text.parse_math": False}
"""Names are text: what stands between two dollar signs is no formula."""

_REACH = 2.0
"""An interval is shown up to this many times the largest value; farther, it would hide the rest."""

_DPI = 160


class Series(NamedTuple):
    """One mark's look: ``marker`` and ``dash`` tell it apart where ``colour`` can't."""

    colour: str
    marker: str
    dash: Any


def drawn(name: str, frames: Mapping[str, pd.DataFrame]) -> Figure:
    """The figure of that name, drawn from those of the frames that its parameters ask for.

    Raises:
        SpecbenchError: no such figure, or these frames have nothing to draw in it.
    """
    draw = registry.load("plots", name).draw
    wanted = inspect.signature(draw).parameters
    with matplotlib.rc_context(NO_FORMULAS):
        figure: Figure = draw(**{key: readable(frames[key]) for key in wanted if key in frames})
    return figure


def wrapped(name: str, width: int) -> str:
    """A long name in lines of at most ``width`` characters."""
    return "\n".join(broken(name, width))


def ordered_looks(values: Sequence[int]) -> dict[int, Series]:
    """Looks for an ordered quantity: lightness rises with the value, dash patterns alternate."""
    colours = matplotlib.colormaps["viridis"]
    last = max(len(values) - 1, 1)
    return {
        value: Series(
            matplotlib.colors.to_hex(colours(0.8 * index / last)),
            MARKERS[index % len(MARKERS)],
            DASHES[index % len(DASHES)],
        )
        for index, value in enumerate(values)
    }


def named_looks(values: Sequence[str]) -> dict[str, Series]:
    """Looks for names: the Okabe-Ito colours, each with a marker of its own."""
    return {
        value: Series(
            PALETTE[index % len(PALETTE)],
            MARKERS[index % len(MARKERS)],
            DASHES[index % len(DASHES)],
        )
        for index, value in enumerate(values)
    }


def panels(count: int, columns: int, height: float = 2.75) -> tuple[Figure, list[Axes]]:
    """A figure of ``count`` panels with shared axes, ``columns`` to a row, ``height`` inches each.

    Panels that would stay empty are removed; the panel above such a gap keeps its axis labels.
    """
    columns = max(1, min(count, columns))
    rows = math.ceil(count / columns)
    wide, high = (5.2, 4.2) if count == 1 else (3.1, height)
    size = wide * columns + 1.9, high * rows + 0.5
    figure = Figure(size, dpi=_DPI, layout="constrained")  # letters are as wide as when saved
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    axes: list[Axes] = list(grid.flat)
    for axis in axes[:count]:
        axis.grid(True, color="#E3E3E3", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    for index, axis in enumerate(axes[count:], start=count):
        axis.remove()
        axes[index - columns].tick_params(labelbottom=True)
    return figure, axes[:count]


def no_gain_line(axis: Axes, noise_floor: float | None) -> None:
    """Speedup 1, and the band around it that the two baselines of a block differ by anyway."""
    axis.axhline(1.0, color=INK, linewidth=1.1, zorder=1.5)
    if noise_floor is not None and math.isfinite(noise_floor) and noise_floor > 0:
        low, high = 1 / (1 + noise_floor), 1 + noise_floor  # as records.speedup.within_noise
        axis.axhspan(low, high, color="#BBBBBB", alpha=0.45, linewidth=0)


def error_bars(low: pd.Series, value: pd.Series, high: pd.Series) -> Any:
    """Distances below and above, shape [2, n]; a missing interval draws no bar."""
    below = (value - low).clip(lower=0).fillna(0.0)
    above = (high - value).clip(lower=0).fillna(0.0)
    return [below.to_numpy(float), above.to_numpy(float)]


def top_of(values: pd.DataFrame, ends: pd.Series, room: float, least: float = 1.6) -> float:
    """How high an axis of speedups goes: over every value, over intervals up to ``_REACH`` times.

    Args:
        values: columns that are shown whole.
        ends: the upper ends of intervals.
        room: what is left above, 1.08 for 8%.
    """
    most = float(values.max(numeric_only=True).max())
    return max(least, room * max(most, min(most * _REACH, largest(ends) or 0.0)))


def mark_cut(
    axis: Axes, at: pd.Series, ends: pd.Series, limit: float, colour: Any, sideways: bool = False
) -> None:
    """An arrowhead at the panel's edge for each interval that goes on beyond it.

    Args:
        at: where the intervals stand on the other axis.
        ends: their far ends.
        limit: where the panel ends.
        sideways: intervals lie along x.
    """
    cut = at[ends > limit]
    if not len(cut):
        return
    edge = [1.0] * len(cut)
    places, of_data = (edge, cut), axis.get_yaxis_transform()
    if not sideways:
        places, of_data = (cut, edge), axis.get_xaxis_transform()
    (marks,) = axis.plot(
        *places,
        transform=of_data,
        linestyle="none",
        marker=">" if sideways else "^",
        markersize=4.5,
        color=colour,
        clip_on=False,
        zorder=3,
    )
    marks.set_in_layout(False)  # at the edge of a panel whose place is being looked for


def largest(values: pd.Series) -> float | None:
    """The largest value that is there, None where there is none."""
    found = values.dropna()
    return float(found.max()) if len(found) else None


def pictures(figure: Figure, formats: Sequence[str]) -> dict[str, bytes]:
    """The figure as a file of each format; the same figure gives the same bytes."""
    _lay_out(figure)
    files = {}
    for suffix in formats:
        file, metadata = io.BytesIO(), {"Date": None} if suffix == "svg" else {}
        with matplotlib.rc_context({"svg.hashsalt": "specbench", **NO_FORMULAS}):
            figure.savefig(file, format=suffix, dpi=_DPI, metadata=metadata)
        files[suffix] = file.getvalue()
    return files


def _lay_out(figure: Figure) -> None:
    """Find the places of everything once; left to itself, every save draws twice to find them."""
    engine = figure.get_layout_engine()
    if engine is not None:
        with matplotlib.rc_context(NO_FORMULAS):
            engine.execute(figure)
        figure.set_layout_engine(None)
