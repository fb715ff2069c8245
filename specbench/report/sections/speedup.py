"""The measured speedup of every drafter and gamma, and what both models make of it."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.fitted import GroupFit
from specbench.analysis.shown.formats import MISSING, SYNTHETIC_NOTE, number, percent, share
from specbench.records.schema import DIVERGED
from specbench.report import fields
from specbench.report.material import Material
from specbench.report.parts import Field, Part, Table

TITLE, ORDER = "Speedup", 20
FIGURES = ("speedup-vs-gamma", "speedup-vs-alpha")

_COLUMNS = (
    *("drafter", "γ", "τ", "measured (95%)", "closed form", "error"),
    *("extended", "error", "cut", "lossless"),
)
_NOTES = (
    "measured: plain decoding's time per token / speculative decoding's, same prompts, same engine",
    "τ: tokens committed per round, before cuts; cut: share of them behind the end of an output",
    "closed form: from α and c alone; extended: with each γ's own draft, verify and other time; "
    "error: predicted / measured − 1",
    fields.NOT_TOLD_APART,
)


def section(material: Material) -> Sequence[Part]:
    """Figures, then a table with a row per drafter and gamma."""
    if not material.groups:
        return []
    rows = material.by_setting(lambda group: _rows(group, material.names[group.key.drafter]))
    notes = [*_NOTES, *fields.marks({group.draft_form for group in material.groups}, "extended")]
    points = [point for group in material.groups for point in group.points]
    if any(point.lossless == DIVERGED for point in points):
        notes.append("* output DIVERGED from plain decoding: the speedup means nothing")
    if any(group.synthetic for group in material.groups):
        notes.append(SYNTHETIC_NOTE)
    texts = frozenset({"lossless"})
    table = Table("Speedup, measured and predicted", _COLUMNS, rows, texts, notes)
    return [*material.pictures(FIGURES), table]


def _rows(group: GroupFit, name: str) -> list[list[Field]]:
    return [
        [
            name,
            fields.gamma(group, point),
            number(point.tau),
            fields.speedup(point),
            number(point.closed_form),
            percent(point.error_closed_form),
            number(point.extended),
            percent(point.error_extended),
            share(point.cut_share),
            point.lossless or MISSING,
        ]
        for point in group.points
    ]
