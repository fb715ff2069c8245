"""How points are cut up into panels, what stands on top of them, and what stands side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specbench.plots import _rows, base

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_COLUMNS = 5


def by_setting(points: pd.DataFrame) -> tuple[list[pd.DataFrame], int]:
    """The rows of each setting, and how many panels stand side by side.

    Batch sizes, contexts and temperatures follow each other, a row of panels for each where its
    tasks fit in one.
    """
    tasks = _rows.unique(points["task"])
    places = _comparable(points, ["batch_size", "context_length", "temperature"])
    settings = sorted(set(places))
    groups = []
    for setting in settings:
        here = points[[place == setting for place in places]]
        groups += [here[here["task"] == task] for task in tasks if (here["task"] == task).any()]
    columns = 4 if len(tasks) > 4 else len(tasks)
    together = 4 // columns  # settings that fit into one row of panels
    if len(tasks) == 1 or (len(settings) > 2 and len(settings) % together == 0):
        columns *= together
    return groups, columns


def panels_by_setting(
    points: pd.DataFrame, height: float = 2.75
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """A figure with a titled panel for each setting, and the rows that belong into it.

    Args:
        height: of a panel, in inches.
    """
    groups, columns = by_setting(points)
    figure, axes = base.panels(len(groups), columns, height)
    for axis, group in zip(axes, groups, strict=True):
        axis.set_title(setting_title(group), fontsize=9.5)
    return figure, list(zip(axes, groups, strict=True))


def by_series(points: pd.DataFrame, keys: Sequence[str]) -> tuple[list[pd.DataFrame], int]:
    """The rows of each drafter and setting, and how many panels stand side by side.

    A row of panels for each setting where all drafters fit in one, else for each drafter.

    Args:
        points: with their ``series``.
        keys: columns that make a setting, the first one varying slowest.
    """
    series = _rows.unique(points["series"])
    places = _comparable(points, keys)
    settings = sorted(set(places))
    across = len(series) if len(settings) > 1 or len(series) in (2, 4) else 3
    order = [(setting, name) for setting in settings for name in series]
    if len(settings) > 1 and (len(series) == 1 or len(series) > _MOST_COLUMNS):
        across = min(len(settings), _MOST_COLUMNS)
        order.sort(key=lambda panel: series.index(panel[1]))
    panels = list(zip(places, points["series"], strict=True))
    groups = [points[[panel == wanted for panel in panels]] for wanted in order]
    return [group for group in groups if len(group)], across


def _comparable(points: pd.DataFrame, keys: Sequence[str]) -> list[tuple[float, ...]]:
    """What these columns hold in each row; a context that is missing is the least."""
    return list(points[list(keys)].fillna(0.0).itertuples(index=False, name=None))


def side_by_side(series: Sequence[str], widest: float, room: float) -> dict[str, float]:
    """How far to shift each series, so that points at one place don't cover each other.

    Args:
        widest: from one to the next, where there are few.
        room: for all of them.
    """
    step = min(widest, room / max(len(series), 1))
    return {name: (place - (len(series) - 1) / 2) * step for place, name in enumerate(series)}


def setting_title(rows: pd.DataFrame, extra: str = "") -> str:
    """The setting of some rows, and something more about them, in lines that fit on a panel."""
    first = rows.iloc[0]
    text = f"{first['task']} · T = {first['temperature']:g} · batch {first['batch_size']:g}"
    text += f" · {first['context']}" if first["context"] else ""
    lines = [base.wrapped(text, 36)]
    return "\n".join([*lines, base.wrapped(extra, 36)] if extra else lines)
