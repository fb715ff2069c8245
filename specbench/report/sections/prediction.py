"""Each gamma predicted from the others, and what the closed form leaves out, term by term."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.fitted import GammaFit, GroupFit
from specbench.analysis.prediction.held_out import WIDE, accuracy
from specbench.analysis.rounds.gap import TERMS, Gap
from specbench.analysis.shown.folding import fold_gaps
from specbench.analysis.shown.formats import MISSING, number, percent, signed
from specbench.report import fields
from specbench.report.material import Material
from specbench.report.parts import Field, Paragraph, Part, Rows, Table

TITLE, ORDER = "Prediction beside measurement", 50
FIGURES = ("predicted-vs-measured", "gap-decomposition")

_HELD_OUT = (
    "drafter",
    "γ",
    "measured",
    "closed form",
    "error",
    "held out (95%)",
    "error",
    "inside",
)
_HELD_OUT_NOTES = (
    "held out: the extended model fitted to the other γ, with the interval in which it expects a "
    "measurement; closed form: from α and c of the others",
    "^ smaller or larger than all others, so everything was extrapolated",
    f"wide: an interval whose ends differ by a factor of more than {WIDE:g}, which tells nothing",
)
_GAP = ("drafter", "γ", "gap", *TERMS.values())
_GAP_NOTES = (
    "gap: log(measured / closed form), the sum of the terms right of it; below 0 the closed form "
    "is optimistic",
)
_WORDS_NOTES = ("averaged over γ; of several settings the smallest and the largest error",)
_TOO_FEW = (
    "No γ could be predicted from others: that takes three γ of one drafter that drafts chains, "
    "with a baseline (--gamma 1,2,4)."
)


def section(material: Material) -> Sequence[Part]:
    """How far off both models are, in words; figures; tables of predictions and of terms."""
    if not material.groups:
        return []
    name_of = material.names
    known = [group.prediction for group in material.groups if group.prediction is not None]
    gaps = [group for group in material.groups if any(point.gap for point in group.points)]
    parts: list[Part] = [Paragraph(accuracy(known) if known else _TOO_FEW)]
    if gaps:
        parts.append(_words(gaps, material))
    parts += material.pictures(FIGURES)
    if known:
        rows = material.by_setting(lambda group: _held_out(group, name_of[group.key.drafter]))
        notes, texts = _HELD_OUT_NOTES, frozenset({"inside"})
        parts.append(Table("Each γ predicted from the others", _HELD_OUT, rows, texts, notes))
    if gaps:
        rows = material.by_setting(lambda group: _terms(group, name_of[group.key.drafter]))
        caption = "From the closed form to the measured speedup, log scale"
        parts.append(Table(caption, _GAP, rows, notes=_GAP_NOTES))
    return parts


def _words(groups: Sequence[GroupFit], material: Material) -> Table:
    """One row for all settings in which a drafter's closed form errs the same way."""
    rows = material.folded(groups, fold_gaps)
    columns, texts = ("drafter", "settings", "in words"), frozenset({"settings", "in words"})
    return Table("Where the closed form goes wrong", columns, [Rows(rows)], texts, _WORDS_NOTES)


def _held_out(group: GroupFit, name: str) -> list[list[Field]]:
    if group.prediction is None:
        return []
    inside = {True: "yes", False: "no", None: MISSING}
    return [
        [
            name,
            str(cell.gamma),
            number(cell.measured),
            number(cell.closed_form),
            percent(cell.error_closed_form),
            fields.measured(cell.speedup, cell.ci),
            percent(cell.error),
            ("wide" if cell.wide else inside[cell.inside]) + ("^" if cell.extrapolated else ""),
        ]
        for cell in group.prediction.cells
    ]


def _terms(group: GroupFit, name: str) -> list[list[Field]]:
    known: list[tuple[GammaFit, Gap]] = [(p, p.gap) for p in group.points if p.gap is not None]
    return [
        [
            name,
            str(point.gamma),
            *map(signed, (gap.total, *gap.terms.values())),
        ]
        for point, gap in known
    ]
