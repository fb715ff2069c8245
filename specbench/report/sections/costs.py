"""Alpha, c, v and the overhead of every drafter in every setting, and where a round's time goes."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.fitted import GammaFit, GroupFit
from specbench.analysis.shown.formats import (
    MISSING,
    SYNTHETIC_NOTE,
    alpha_mark,
    milliseconds,
    noise,
    number,
)
from specbench.report import fields
from specbench.report.material import Material
from specbench.report.parts import Field, Part, Table

TITLE, ORDER = "Acceptance and costs", 30
FIGURES = ("time-per-round",)

_COLUMNS = ("drafter", "α (95%)", "c (95%)", "v", "o", "T1 ms", "noise floor", "prompts")
_NOTES = (
    "α: accepted / evaluated tokens over all γ; c: one drafter step; v: one verification, lowest "
    "to highest over γ; o: the rest of a round",
    "c, v and o are in units of T1, plain decoding's whole time per step; noise floor: by how much "
    "the two baselines of a block differ",
)
_BY_GAMMA = ("drafter", "γ", "rounds", "α (95%)", "τ", "drafted", "c", "v", "o", "round (95%)")
_BY_GAMMA_NOTES = (
    "drafted: mean tokens per draft (of a tree: levels); round: its whole time, in units of T1",
)


def section(material: Material) -> Sequence[Part]:
    """A table over gammas, the figure, and a folded table by gamma."""
    if not material.groups:
        return []
    marks = fields.marks({group.draft_form for group in material.groups}, "extended")
    if any(group.synthetic for group in material.groups):
        marks.append(SYNTHETIC_NOTE)
    fitted = material.by_setting(lambda group: [_row(group, material.names[group.key.drafter])])
    by_gamma = material.by_setting(lambda group: _points(group, material.names[group.key.drafter]))
    return [
        Table("Fitted over all γ", _COLUMNS, fitted, notes=[*_NOTES, *marks]),
        *material.pictures(FIGURES),
        Table("By γ", _BY_GAMMA, by_gamma, notes=_BY_GAMMA_NOTES),
    ]


def _row(group: GroupFit, name: str) -> list[Field]:
    known = [point.v for point in group.points if point.v is not None]
    ends = dict.fromkeys(number(end) for end in (min(known), max(known))) if known else [MISSING]
    return [
        name,
        fields.alpha(group),
        fields.measured(group.c, group.c_ci, 3),
        "–".join(ends),
        number(group.overhead),
        milliseconds(group.step_s),
        noise(group.noise_floor),
        str(group.num_prompts or MISSING),
    ]


def _points(group: GroupFit, name: str) -> list[list[Field]]:
    mark = alpha_mark("chain", group.synthetic)
    return [
        [
            name,
            fields.gamma(group, point),
            MISSING if point.num_rounds is None else f"{point.num_rounds:,}",
            fields.measured(point.alpha, point.alpha_ci, mark=mark),
            number(point.tau),
            number(point.draft_length_mean, 1),
            number(point.c, 3),
            number(point.v),
            number(point.overhead),
            fields.measured(_round(point), point.round_ci),
        ]
        for point in group.points
    ]


def _round(point: GammaFit) -> float | None:
    """Its whole time in units of T1."""
    parts = (point.draft_t1, point.verify_t1, point.other_t1)
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
