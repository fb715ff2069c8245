"""Whether one alpha describes acceptance, by position and by task, and which model is used."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.fitted import GroupFit
from specbench.analysis.shown.folding import fold_acceptance
from specbench.analysis.shown.formats import number
from specbench.report import fields
from specbench.report.material import Material
from specbench.report.parts import Field, Paragraph, Part, Rows, Table

TITLE, ORDER = "Is acceptance i.i.d.?", 40
FIGURES = ("acceptance-by-position", "alpha-by-task-and-temperature")

_MEANING = (
    "The closed form takes every drafted token to be accepted with the same chance α, whatever "
    "came before. That is tested, conversations being the independent units; where it is "
    "rejected, the model that best predicts a γ left out takes over."
)
_NO_ROUNDS = (
    "Imported results and servers don't tell what each round evaluated, so nothing is tested."
)
_NO_CHAIN = "Trees and drafts of changing length have no single α, so nothing is tested."
_WAS_SET = "Left out, because their α was set and not measured: "
_VERDICT = ("drafter", "setting", "verdict")
_BY_POSITION = ("drafter", "position", "evaluated", "α (95%)", "one α", "model", "its α")
_NOTES = (
    "α at a position: accepted / evaluated there, over all γ that reach it; model: the one that "
    "predictions use",
)


def section(material: Material) -> Sequence[Part]:
    """The verdicts in words, the figures, and a table by position."""
    tested = [group for group in material.groups if group.acceptance is not None]
    if not material.groups:
        return []
    synthetic = {material.names[g.key.drafter]: None for g in material.groups if g.synthetic}
    left_out = [Paragraph(_WAS_SET + ", ".join(synthetic) + ".", "note")] if synthetic else []
    if not tested:
        only_set = len(synthetic) == len({group.key.drafter for group in material.groups})
        no_rounds = all(group.imported_from is not None for group in material.groups)
        reason = [] if only_set else [Paragraph(_NO_ROUNDS if no_rounds else _NO_CHAIN)]
        return [*reason, *left_out, *material.pictures(FIGURES)]
    by_position = material.by_setting(
        lambda group: _positions(group, material.names[group.key.drafter])
    )
    return [
        Paragraph(_MEANING),
        _verdicts(tested, material),
        *left_out,
        *material.pictures(FIGURES),
        Table("Acceptance by position", _BY_POSITION, by_position, frozenset({"model"}), _NOTES),
    ]


def _verdicts(tested: Sequence[GroupFit], material: Material) -> Table:
    """Verdicts of one drafter that are alike in several settings once."""
    rows = material.folded(tested, fold_acceptance)
    return Table("Verdicts", _VERDICT, [Rows(rows)], frozenset({"setting", "verdict"}))


def _positions(group: GroupFit, name: str) -> list[list[Field]]:
    found = group.acceptance
    if found is None:
        return []
    return [
        [
            name,
            str(place),
            f"{position.evaluated:,}",
            fields.measured(position.alpha, position.alpha_ci),
            number(found.alpha),
            found.model.name,
            number(found.model.alpha_at(place)),
        ]
        for place, position in enumerate(found.positions, start=1)
    ]
