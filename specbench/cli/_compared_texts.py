"""Greedy texts of two runs in ``specbench compare``: a mark in the table, and notes below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from specbench.analysis.shown.names import some

if TYPE_CHECKING:
    from specbench.analysis.comparing import ComparedCell, Comparison
    from specbench.analysis.comparing.cells import CellName

TEXT_NOTE = "text: = B's greedy texts are A's, ≠N they differ in N prompts, - not compared"


class Judged(NamedTuple):
    """What the target says: ``near-tie`` or ``DIVERGED``, and a sentence per prompt."""

    verdict: str | None
    sentences: list[str]


Verdicts = Mapping["CellName", Judged]
"""Of the cells whose texts part, where the target was asked."""


def text_mark(cell: ComparedCell, verdicts: Verdicts) -> str:
    """For the table."""
    from specbench.analysis.comparing.texts import DIFFERENT
    from specbench.records.schema import IDENTICAL

    verdict = _verdict(cell, verdicts)
    if verdict == DIFFERENT:
        return f"≠{len(cell.texts.pairs)}"
    return {IDENTICAL: "=", None: "-"}.get(verdict, str(verdict))


def text_document(cell: ComparedCell, verdicts: Verdicts) -> dict[str, Any]:
    """For JSON and CSV."""
    texts = cell.texts
    return {
        "verdict": _verdict(cell, verdicts),
        "compared": texts.compared,
        "differ": len(texts.pairs),
        "why_not": texts.why_not,
    }


def text_notes(comparison: Comparison, verdicts: Verdicts) -> Iterator[str]:
    """Where texts part, what the target says of it, and why others were not compared."""
    reasons: dict[str, list[str]] = {}
    for cell in comparison.cells:
        texts, judged = cell.texts, verdicts.get(cell.name)
        if texts.why_not is not None:
            reasons.setdefault(texts.why_not, []).append(str(cell.name))
        elif judged is not None:
            yield from (f"{cell.name}: {sentence}" for sentence in judged.sentences)
        elif texts.pairs:
            count = f"{len(texts.pairs)} of {texts.compared}"
            yield f"{cell.name}: {count} texts differ; --judge tells whether rounding explains it"
    for reason, names in reasons.items():
        yield f"texts not compared, {reason}: {some(names)}"


def _verdict(cell: ComparedCell, verdicts: Verdicts) -> str | None:
    """``identical``, ``near-tie`` or ``DIVERGED``; ``differ`` where nobody was asked."""
    judged = verdicts.get(cell.name)
    return (judged.verdict if judged else None) or cell.texts.verdict
