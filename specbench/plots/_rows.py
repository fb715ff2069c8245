"""Which rows of a frame a figure can draw, and what the series in them are called."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from specbench.analysis.shown.formats import SYNTHETIC_MARK
from specbench.analysis.shown.names import counted, short_names
from specbench.errors import SpecbenchError

if TYPE_CHECKING:
    import pandas as pd

# Several runs may be drawn together; whatever differs between them becomes part of a series' name.
_SERIES_EXTRAS = ("run", "target", "backend", "top_k", "top_p", "request_rate")
_PREFIXES = {"top_k": "top-k ", "top_p": "top-p ", "request_rate": "request-rate "}


def measured(points: pd.DataFrame, figure: str, *, alpha: bool = True) -> pd.DataFrame:
    """The rows that can be drawn: those with a measured alpha and speedup.

    Args:
        alpha: whether there has to be one; some servers tell none.

    Raises:
        SpecbenchError: there are none, so that no empty figure is ever written.
    """
    needed = ["alpha", "speedup"] if alpha else ["speedup"]
    drawable = points.dropna(subset=needed) if len(points) else points
    if not len(drawable):
        what = "both a measured alpha and a speedup" if alpha else "a measured speedup"
        raise SpecbenchError(
            f"nothing to draw in {figure}: no cell has {what}",
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


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def unique(values: Iterable[Hashable]) -> list[Any]:
    """The distinct values in order of first appearance."""
    return list(dict.fromkeys(values))


def one_context(points: pd.DataFrame) -> str:
    """The context that all prompts were padded to, if they were; several have panels."""
    lengths = points["context_length"].unique()
    if len(lengths) != 1 or math.isnan(lengths[0]):
        return ""
    return f" · prompts of {lengths[0]:g} tokens"
