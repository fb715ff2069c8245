"""What the literature says, held against the run, with the figures behind every verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from specbench.analysis.claims import Checked, Verdict
from specbench.analysis.claims.words import EXPLAINED, SAYS, figures, most_telling
from specbench.report.material import Material
from specbench.report.parts import Bullet, Bullets, Folded, Paragraph, Part, Rows, Table

TITLE, ORDER = "What the literature says", 70
FIGURES: tuple[str, ...] = ()

_VERDICTS: tuple[Verdict, ...] = ("held", "not held", "not decided", "not measured")
_TOLD = 5  # comparisons of one claim that are shown, the others counted
_NOTES = (
    "held: at least one comparison clearly speaks for it, none against; not held: one clearly "
    "speaks against it (of claims that something can happen: all do); not decided: every "
    "difference's interval, widened for all comparisons of the claim together, holds 0",
)


def section(material: Material) -> Sequence[Part]:
    """How many of each verdict, a table of claims, and the comparisons, folded."""
    checked = material.claims
    if not checked:
        return []
    counts = Counter(one.answer.verdict for one in checked)
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in _VERDICTS if counts[verdict])
    rows = [[one.claim.wording, one.answer.verdict, one.answer.reason] for one in checked]
    columns = ("claim", "verdict", "from")
    table = Table("Claims", columns, [Rows(rows)], frozenset({"verdict", "from"}), _NOTES)
    return [Paragraph(f"Of {len(checked)} claims: {total}."), table, _evidence(checked)]


def _evidence(checked: Sequence[Checked]) -> Folded:
    parts: list[Part] = []
    for one in checked:
        parts.append(Paragraph(f"{one.claim.wording}: {one.answer.verdict}."))
        parts.append(Paragraph(f"Source: {one.claim.source}.", "note"))
        found = one.answer.evidence
        told = most_telling(found, _TOLD)
        bullets = [Bullet(f"{SAYS[evidence.supports]}: {figures(evidence)}") for evidence in told]
        if len(found) > len(told):
            bullets.append(Bullet(f"{len(found) - len(told)} more", "note"))
        if bullets:
            parts.append(Bullets(bullets))
    return Folded("Sources and comparisons", [*parts, Paragraph(EXPLAINED, "note")])
