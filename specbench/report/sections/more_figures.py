"""Figures that no other section shows: those that were added later."""

from __future__ import annotations

from collections.abc import Sequence

from specbench import registry
from specbench.report.material import Material
from specbench.report.parts import Part

TITLE, ORDER = "More figures", 95
FIGURES: tuple[str, ...] = ()


def section(material: Material) -> Sequence[Part]:
    """All of them, or nothing."""
    sections = (registry.load("sections", name) for name in registry.names("sections"))
    shown = {figure for module in sections for figure in module.FIGURES}
    return material.pictures([name for name in registry.names("plots") if name not in shown])
