"""Acceptance by position in the draft, beside one alpha for all and the model that predicts best.

One panel per task, temperature and batch size. If acceptance were i.i.d., a drafter's points would
lie on its dashed line. Where that is rejected, and another model predicted a draft length left out
better, predictions use that one: the solid line. Deep positions are reached by few rounds, as their
intervals show; those of fewer than ten are hollow. Chains only, and no synthetic drafters, whose
alpha was set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from specbench.errors import SpecbenchError
from specbench.plots import _keys, _rows, base
from specbench.plots._settings import panels_by_setting, side_by_side
from specbench.theory.acceptance import Iid

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_IID = (0, (4, 2))
_BEYOND = 0.45  # the outermost positions: so far a line reaches
_DODGE, _ROOM = 0.16, 0.7  # between drafters at one position, and for all of them
_FEW = 10  # rounds of which a point says next to nothing


def draw(positions: pd.DataFrame) -> Figure:
    """Draw acceptance over positions.

    Args:
        positions: a frame as :func:`specbench.analysis.shown.more_frames.positions_frame` gives it.

    Raises:
        SpecbenchError: there is no chain of which a token was evaluated.
    """
    if not len(positions):
        raise SpecbenchError(
            "nothing to draw in acceptance-by-position: no draft of fixed length was evaluated in "
            "rounds of this run (trees, gamma=auto, synthetic drafters and imports don't count)",
            "Draw --figure speedup-vs-gamma",
        )
    positions = _rows.with_series(positions)
    looks = base.named_looks(_rows.unique(positions["series"]))
    shifts = side_by_side(list(looks), _DODGE, _ROOM)
    figure, panels = panels_by_setting(positions)
    for axis, group in panels:
        for series, look in looks.items():
            rows = group[group["series"] == series].sort_values("position")
            if len(rows):
                _drafter(axis, rows, look, shifts[series])
    first, _ = panels[0]
    first.set_ylim(-0.03, 1.03)
    first.set_xlim(0.5 - _BEYOND / 2, float(positions["position"].max()) + 0.5 + _BEYOND / 2)
    first.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    _keys.put_title(figure, positions, "Acceptance by position in the draft")
    figure.supxlabel("position in the draft (tokens)", fontsize=10)
    figure.supylabel("accepted / evaluated at the position", fontsize=10)
    _keys.legend(figure, _legend(looks, bool((positions["evaluated"] < _FEW).any())))
    return figure


def _drafter(axis: Axes, rows: pd.DataFrame, look: base.Series, shift: float) -> None:
    few = rows["evaluated"] < _FEW
    _measured(axis, rows[~few], look, shift, look.colour)
    _measured(axis, rows[few], look, shift, "white")
    ends = [float(rows["position"].min()) - _BEYOND, float(rows["position"].max()) + _BEYOND]
    alpha = float(rows["iid_alpha"].iloc[0])
    axis.plot(
        ends,
        [alpha, alpha],
        color=look.colour,
        linestyle=_IID,
        linewidth=1.1,
        marker=look.marker,  # tells whose it is without colour
        markersize=4,
        markerfacecolor="white",
        zorder=2,
    )
    if rows["model"].iloc[0] == Iid.name:
        return
    axis.plot(
        rows["position"],
        rows["model_alpha"],
        color=look.colour,
        linewidth=1.4,
        marker="_",  # a single position gives no line to see
        markersize=9,
        zorder=2.5,
    )


def _measured(axis: Axes, rows: pd.DataFrame, look: base.Series, shift: float, fill: str) -> None:
    if not len(rows):
        return
    axis.errorbar(
        rows["position"] + shift,
        rows["alpha"],
        yerr=base.error_bars(rows["alpha_low"], rows["alpha"], rows["alpha_high"]),
        linestyle="none",
        marker=look.marker,
        markersize=5.5,
        color=look.colour,
        markerfacecolor=fill,
        markeredgecolor=look.colour if fill == "white" else base.INK,
        markeredgewidth=0.9 if fill == "white" else 0.5,
        elinewidth=1.0,
        capsize=2,
        zorder=3,
    )


def _legend(looks: dict[str, base.Series], few: bool) -> list[Line2D]:
    handles = [_keys.heading("Drafter")]
    for series, look in looks.items():
        handles.append(_keys.mark(look.marker, "full", base.wrapped(series, 26), look.colour))
    iid = Line2D([], [], color=base.INK, linestyle=_IID, marker="o", label="i.i.d.: one α")
    iid.set(markersize=4, markerfacecolor="white")
    return [
        *handles,
        _keys.heading("Acceptance"),
        _keys.mark("o", "full", "measured"),
        *([_keys.mark("o", "none", f"in fewer than {_FEW} rounds")] if few else []),
        _keys.error_bar_handle(),
        iid,
        Line2D([], [], color=base.INK, linewidth=1.4, marker="_", label="model in its place"),
    ]
