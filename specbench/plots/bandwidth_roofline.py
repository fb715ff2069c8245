"""Time of a target forward over its tokens, above the roofline of bandwidth and arithmetic.

One panel per run and target. The flat line is the time that the forward's weights take at the
measured peak bandwidth, the rising one that of its operations at the measured matmul rate: no
forward is below both. Points are measured forwards of plain decoding (one token a row) and of
verification, the median over cells of one batch size, drafter and gamma, with the lowest and the
highest of them. What lies far above the roofline is launches, Python, attention or small kernels. A
dash stands where verification would be if v were the roofline's: its measured v over the roofline's
is the way from the dash to the point.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from specbench.errors import SpecbenchError
from specbench.plots import _keys, _rows, base
from specbench.records.schema import BASELINE_DRAFTER
from specbench.theory.limits import Forward, Machine
from specbench.theory.traffic import Experts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_NAME = "bandwidth-roofline"
_NEEDED = [
    "forward_s",
    "weight_bytes",
    "kv_bytes",
    "parameters",
    "bandwidth_bytes_per_s",
    "matmul_flops_per_s",
]
_MOVING, _COMPUTING = "solid", (0, (5, 2))


def draw(forwards: pd.DataFrame) -> Figure:
    """Draw measured forwards above the roofline.

    Args:
        forwards: a frame as :func:`specbench.analysis.shown.more_frames.forwards_frame` gives it.

    Raises:
        SpecbenchError: no cell has a timed forward with everything that the roofline needs.
    """
    known = forwards.dropna(subset=_NEEDED) if len(forwards) else forwards
    if not len(known):
        raise SpecbenchError(f"nothing to draw in {_NAME}: {_lacking(forwards)}")
    kinds = known["drafter"] == BASELINE_DRAFTER
    known = known.assign(kind=np.where(kinds, "plain decoding", "verification"))
    sizes = base.ordered_looks(sorted(int(size) for size in known["batch_size"].unique()))
    panels = [panel for _, panel in known.groupby(["run", "target"], sort=False)]
    figure, axes = base.panels(len(panels), 3, 3.2)
    low, high = float(known["tokens"].min()) / 1.5, 1.5 * float(known["tokens"].max())
    reaches = [1e3 * float(known["forward_s"].min()), 1e3 * float(known["forward_s"].max())]
    for axis, panel in zip(axes, panels, strict=True):
        reaches += _roofline(axis, panel, low, high)
        _points(axis, panel, sizes)
        first = panel.iloc[0]
        title = _rows.short_name(str(first["target"]))
        if known["run"].nunique() > 1:
            title += f" · {first['run']}"
        axis.set_title(base.wrapped(title, 36), fontsize=9.5)
    axes[0].set_xscale("log", base=2)
    axes[0].set_yscale("log")
    axes[0].set_xlim(low, high)
    axes[0].set_ylim(0.6 * min(reaches), 1.6 * max(reaches))
    for scale in (axes[0].xaxis, axes[0].yaxis):
        scale.set_major_formatter("{x:g}")
    axes[0].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes[0].yaxis.set_minor_formatter(NullFormatter())
    _keys.put_title(figure, known, "Time of a target forward above the roofline")
    figure.supxlabel("tokens in one target forward (all rows together)", fontsize=10)
    figure.supylabel("time of the forward (ms)", fontsize=10)
    _keys.legend(figure, _legend(known, sizes))
    return figure


def _lacking(forwards: pd.DataFrame) -> str:
    """What none of the cells has, in words."""
    if not len(forwards) or forwards["forward_s"].isna().all():
        return "no target forward was timed"
    names = {
        "bandwidth_bytes_per_s": "the peak bandwidth was not measured",
        "matmul_flops_per_s": "the matmul rate was not measured",
        "parameters": "the target's size and the bytes of its steps were not recorded",
    }
    missing = [text for column, text in names.items() if forwards[column].isna().all()]
    return " and ".join(missing) or "no cell has both timed forwards and recorded bytes"


def _roofline(axis: Axes, panel: pd.DataFrame, low: float, high: float) -> list[float]:
    """Both limits, of the weights alone (K/V differ between cells); where they start and end."""
    first = panel.iloc[0]
    machine = Machine(float(first["bandwidth_bytes_per_s"]), float(first["matmul_flops_per_s"]))
    experts = Experts(*(first[name] for name in ("expert_bytes", "num_experts", "active_experts")))
    forward = Forward(float(first["weight_bytes"]), 0.0, float(first["parameters"]), experts)
    tokens = np.geomspace(low, high, 64)
    moving = np.array([machine.moving_s(forward, count) or np.nan for count in tokens])
    computing = tokens * (machine.computing_s(forward, 1.0) or np.nan)
    axis.plot(tokens, 1e3 * moving, color=base.INK, linestyle=_MOVING, linewidth=1.2, zorder=2)
    axis.plot(tokens, 1e3 * computing, color=base.INK, linestyle=_COMPUTING, linewidth=1.2)
    floor = 1e3 * np.maximum(moving, computing)
    axis.fill_between(tokens, 1e-3 * floor.min(), floor, color="#DDDDDD", linewidth=0, zorder=1)
    return [1e3 * float(min(moving[0], computing[0])), float(floor.max())]


def _points(axis: Axes, panel: pd.DataFrame, sizes: dict[int, base.Series]) -> None:
    keys = ["batch_size", "kind", "drafter", "gamma"]
    cells = panel.groupby(keys, as_index=False).agg(
        tokens=("tokens", "median"),
        middle=("forward_s", "median"),
        low=("forward_s", "min"),
        high=("forward_s", "max"),
        roofline=("roofline_s", "median"),
    )
    for (size, kind), rows in cells.groupby(["batch_size", "kind"]):
        look = sizes[int(size)]
        low, middle, high = (1e3 * rows[name] for name in ("low", "middle", "high"))
        axis.errorbar(
            rows["tokens"],
            middle,
            yerr=base.error_bars(low, middle, high),
            linestyle="none",
            marker=look.marker,
            markersize=5.5,
            fillstyle="none" if kind == "plain decoding" else "full",
            color=look.colour,
            elinewidth=0.9,
            capsize=2,
            zorder=3,
        )
        axis.plot(
            rows["tokens"],
            1e3 * rows["roofline"],
            linestyle="none",
            marker="_",
            markersize=11,
            color=look.colour,
            zorder=2,
        )


def _legend(known: pd.DataFrame, sizes: dict[int, base.Series]) -> list[Line2D]:
    handles = [_keys.heading("Batch size")]
    for size, look in sizes.items():
        handles.append(_keys.mark(look.marker, "full", f"batch {size}", look.colour))
    handles.append(_keys.heading("Forward"))
    for kind in _rows.unique(known["kind"]):
        handles.append(_keys.mark("o", "none" if kind == "plain decoding" else "full", kind))
    bars = _keys.error_bar_handle()
    bars.set_label("lowest to highest cell")
    return [
        *handles,
        bars,
        _keys.heading("Roofline"),
        Line2D([], [], color=base.INK, linestyle=_MOVING, label="weights at peak bandwidth"),
        Line2D([], [], color=base.INK, linestyle=_COMPUTING, label="operations at matmul rate"),
        _keys.mark("_", "full", "verification, if v were the roofline's"),
    ]
