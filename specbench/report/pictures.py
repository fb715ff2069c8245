"""Figures as inline SVG: one document can hold several, and no viewer needs anything else.

matplotlib writes a file of its own with a style sheet, metadata and names that repeat from figure
to figure; all of that would reach over the whole page. Here a figure keeps its drawing only, and
every name in it begins with the figure's.
"""

from __future__ import annotations

import io
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import matplotlib
from markupsafe import Markup

from specbench import registry
from specbench.errors import SpecbenchError
from specbench.plots import base
from specbench.report.parts import Bullet, Bullets, Part, Picture

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_LEFT_OUT = {f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"}
_PIXELS_PER_INCH = 96  # of CSS

ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", _LINK)


def pictures(names: Sequence[str], frames: Mapping[str, pd.DataFrame]) -> list[Part]:
    """The figures that can be drawn from these frames, then a note on each of the others."""
    drawn: list[Part] = []
    lacking = []
    for name in names:
        try:
            drawn.append(_picture(name, base.drawn(name, frames)))
        except SpecbenchError as error:
            lacking.append(Bullet(error.message, "note"))
    return [*drawn, Bullets(lacking)] if lacking else drawn


def _picture(name: str, figure: Figure) -> Picture:
    shows = registry.describe("plots", name)
    title = figure.get_suptitle().replace("\n", "; ")
    width = round(figure.get_figwidth() * _PIXELS_PER_INCH)
    alt = f"Figure {name}. {title}. {shows} The numbers are in the tables of this report."
    return Picture(name, inline_svg(figure, name), alt, shows, width)


def inline_svg(figure: Figure, name: str) -> Markup:
    """The drawing alone, with a size that follows the page; same figure, same text.

    Args:
        name: of the figure; unique in the document.
    """
    buffer = io.BytesIO()
    options = {"svg.hashsalt": "specbench", "svg.fonttype": "path", **base.NO_FORMULAS}
    with matplotlib.rc_context(options):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())  # comments, which repeat its texts, are gone
    for parent in list(root.iter()):
        for child in [child for child in parent if child.tag in _LEFT_OUT]:
            parent.remove(child)
    for element in root.iter():
        for key, value in element.attrib.items():
            if key == "id":
                element.set(key, f"{name}-{value}")
            elif key == f"{{{_LINK}}}href":
                element.set(key, f"#{name}-{value.removeprefix('#')}")
            else:
                element.set(key, value.replace("url(#", f"url(#{name}-"))
    for size in ("width", "height"):
        del root.attrib[size]
    root.set("aria-hidden", "true")  # the box around it has the text
    return Markup(ElementTree.tostring(root, encoding="unicode"))
