"""Names from a run as a figure may show them.

They may hold anything: what would break a line, or has no glyph in the font, is spelt out or stands
as a box, and what is longer than a legend or a title can hold is cut in its middle.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from matplotlib import font_manager

from specbench.analysis.shown.names import cut_in_middle, printable, short_names

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.ft2font import FT2Font

_COLUMNS = ("run", "target", "backend", "task", "drafter")
_LONGEST = 60
_NO_GLYPH = "□"


def readable(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame whose names can be drawn; different names stay different."""
    names = {column: _shown(frame[column]) for column in _COLUMNS if column in frame}
    return frame.assign(**{column: frame[column].map(shown) for column, shown in names.items()})


def _shown(names: Iterable[str]) -> dict[str, str]:
    shown: dict[str, str] = {}
    taken: set[str] = set()
    for name, short in short_names(names).items():
        whole = "".join(map(_glyph, printable(short)))
        text, number = cut_in_middle(whole, _LONGEST), 1
        while text in taken:
            number += 1
            text = f"{cut_in_middle(whole, _LONGEST - 5)} ({number})"
        shown[name] = text
        taken.add(text)
    return shown


@functools.cache
def _glyph(letter: str) -> str:
    """The letter, if the font that figures are drawn in has it."""
    return letter if _font().get_char_index(ord(letter)) else _NO_GLYPH


@functools.cache
def _font() -> FT2Font:
    return font_manager.get_font(font_manager.findfont(font_manager.FontProperties()))
