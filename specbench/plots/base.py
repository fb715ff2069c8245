"""What every figure shares: panels, marks that survive a grey printer, legends, saving.

Colour is never the only difference between two things: lines differ in dash pattern, points in
shape or fill, and the colours of an ordered quantity (gamma) rise in lightness. The palette of
names is Okabe and Ito's (2008), made to be told apart with any common colour blindness.
"""

from __future__ import annotations

import inspect
import io
import math
import textwrap
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from specbench import registry
from specbench.analysis.shown.formats import SYNTHETIC_MARK, SYNTHETIC_NOTE
from specbench.analysis.shown.names import broken, counted, short_names
from specbench.errors import SpecbenchError
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

_HEADING = "heading"
_DPI = 160
_LEGEND_SIZE, _LEGEND_SPACING = 8.5, 0.45  # points, and letter heights between entries
_LEGEND_MARGIN = 0.35  # inches
_LINE_HEIGHT = 1.25  # of a letter's
_TITLE_SIZE = 10.5  # points
_TITLE_LINE = _LINE_HEIGHT * _TITLE_SIZE / 72  # inches
# Several runs may be drawn together; whatever differs between them becomes part of a series' name.
_SERIES_EXTRAS = ("run", "target", "backend", "top_k", "top_p", "request_rate")
_PREFIXES = {"top_k": "top-k ", "top_p": "top-p ", "request_rate": "request-rate "}


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


def measured(points: pd.DataFrame, figure: str) -> pd.DataFrame:
    """The rows that can be drawn: those with a measured alpha and speedup.

    Raises:
        SpecbenchError: there are none, so that no empty figure is ever written.
    """
    drawable = points.dropna(subset=["alpha", "speedup"]) if len(points) else points
    if not len(drawable):
        raise SpecbenchError(
            f"nothing to draw in {figure}: no cell has both a measured alpha and a speedup",
            "A speedup needs a finished baseline of the same task, temperature and batch size; "
            "`specbench fit RUN` lists what failed",
        )
    return drawable


def chains(points: pd.DataFrame, figure: str) -> tuple[pd.DataFrame, str]:
    """The rows with an alpha that curves can be drawn over, and a sentence on those without.

    Args:
        points: rows that can be drawn.
        figure: its name, for the error.

    Raises:
        SpecbenchError: no row is a chain of fixed length.
    """
    forms = points["draft_form"]
    kept = points[forms == "chain"]
    if not len(kept):
        raise SpecbenchError(
            f"nothing to draw in {figure}: all drafts are trees or of changing length, which have "
            "no single alpha",
            "Draw --figure speedup-vs-gamma",
        )
    trees = counted(int(points["num_cells"][forms == "tree"].sum()), "tree cell")
    adaptive = counted(int(points["num_cells"][forms == "adaptive"].sum()), "gamma=auto cell")
    left_out = [text for text in (trees, adaptive) if not text.startswith("0 ")]
    if not left_out:
        return kept, ""
    alone = len(left_out) == 1 and left_out[0].startswith("1 ")
    verb, reason = ("is", "it has") if alone else ("are", "they have")
    return kept, f"{' and '.join(left_out)} {verb} not on this figure: {reason} no single alpha"


def measured_alphas(points: pd.DataFrame, figure: str) -> tuple[pd.DataFrame, str]:
    """The rows of real drafters, and a sentence on the others.

    Args:
        points: rows that can be drawn.
        figure: its name, for the error.

    Raises:
        SpecbenchError: all drafters are synthetic.
    """
    kept = points[~synthetic(points)]
    if not len(kept):
        raise SpecbenchError(
            f"nothing to draw in {figure}: all drafters are synthetic, whose alpha was set",
            "Draw --figure speedup-vs-alpha",
        )
    left_out = counted(int(points["num_cells"][synthetic(points)].sum()), "synthetic cell")
    if left_out.startswith("0 "):
        return kept, ""
    return kept, f"without {left_out}, whose alpha was set"


def with_series(points: pd.DataFrame) -> pd.DataFrame:
    """Add ``series``: the drafter, plus what else varies (run, target, backend, top-k, top-p).

    A synthetic drafter is marked. Also add ``context``: the length that prompts were padded to, in
    words, where there are several; it belongs to a panel's setting, as the batch size does.
    """
    labels = points["drafter"].astype(str)
    labels = labels.map(short_names(labels))
    labels = labels.where(~synthetic(points), f"{SYNTHETIC_MARK} " + labels)
    for column in _SERIES_EXTRAS:
        if points[column].nunique() > 1:
            prefix = _PREFIXES.get(column, "")
            shown = points[column].map(short_name if column == "target" else _plain)
            labels = labels + " · " + prefix + shown
    return points.assign(series=labels, context=_contexts(points["context_length"]))


def _contexts(lengths: pd.Series) -> pd.Series | str:
    if lengths.nunique(dropna=False) < 2:
        return ""
    told = lengths.map(lambda length: f"context\N{NO-BREAK SPACE}{length:g}")
    return told.where(lengths.notna(), "no padding")


def synthetic(points: pd.DataFrame) -> pd.Series:
    """Which rows are of drafters whose acceptance was set, not measured."""
    return points["synthetic"].astype(bool)


def short_name(name: str) -> str:
    """A model's name without its folder or organisation."""
    return name.rstrip("/").rpartition("/")[2]


def wrapped(name: str, width: int) -> str:
    """A long name in lines of at most ``width`` characters."""
    return "\n".join(broken(name, width))


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def unique(values: Iterable[Hashable]) -> list[Any]:
    """The distinct values in order of first appearance."""
    return list(dict.fromkeys(values))


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
        axis.axhspan(1 - noise_floor, 1 + noise_floor, color="#BBBBBB", alpha=0.45, linewidth=0)


def error_bars(low: pd.Series, value: pd.Series, high: pd.Series) -> Any:
    """Distances below and above, shape [2, n]; a missing interval draws no bar."""
    below = (value - low).clip(lower=0).fillna(0.0)
    above = (high - value).clip(lower=0).fillna(0.0)
    return [below.to_numpy(float), above.to_numpy(float)]


def largest(values: pd.Series) -> float | None:
    """The largest value that is there, None where there is none."""
    found = values.dropna()
    return float(found.max()) if len(found) else None


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
        label = "noise floor" if points["run"].nunique() == 1 else "noise floor (largest)"
        handles.append(Patch(facecolor="#BBBBBB", alpha=0.45, label=label))
    return handles


def error_bar_handle() -> Line2D:
    """A legend entry that says what the bars are."""
    return Line2D(
        [],
        [],
        linestyle="none",
        marker="|",
        markersize=9,
        color=INK,
        label="95% interval",
    )


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
    told = [f"target {targets} · run {runs}{_one_context(points)}", note]
    if synthetic(points).any():
        told.append(SYNTHETIC_NOTE)
    lines = [text, *(line for each in told for line in textwrap.wrap(each, width))]
    figure.set_figheight(figure.get_figheight() + _TITLE_LINE * max(len(lines) - 2, 0))
    figure.suptitle("\n".join(lines), fontsize=_TITLE_SIZE, x=0.012, ha="left")


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


def _one_context(points: pd.DataFrame) -> str:
    """The context that all prompts were padded to, if they were; several have panels."""
    lengths = points["context_length"].unique()
    if len(lengths) != 1 or math.isnan(lengths[0]):
        return ""
    return f" · prompts of {lengths[0]:g} tokens"
