"""What a reader should know before believing the numbers, the most serious first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from specbench.analysis.checking.completeness import incomplete
from specbench.analysis.checking.notes import run_notes
from specbench.analysis.shown.formats import noise
from specbench.analysis.shown.names import counted
from specbench.errors import SpecbenchError
from specbench.records.schema import DIVERGED, CellRecord
from specbench.report.material import Material
from specbench.report.parts import Bullet, Bullets, Paragraph, Part

TITLE, ORDER = "Warnings", 10
FIGURES: tuple[str, ...] = ()

IMPOSSIBLE = "numbers that cannot be"
"""How the analysis begins a violated identity."""

_NOISY = 0.05  # baselines of one block that differ by more are worth a warning
_NAMED = 3


def section(material: Material) -> Sequence[Part]:
    """A list, or the sentence that there is nothing to warn of."""
    manifest = material.run.manifest
    found = [
        *_unsaid(_notes(material), manifest.warnings),
        *_noisy(material),
        *_foreign(material.run.cells),
        *_dropped(manifest.dropped),
        *manifest.warnings,
        *incomplete(material.run),
    ]
    if not found:
        return [Paragraph("Nothing in the record speaks against these numbers.")]
    return [Bullets([Bullet(_sentence(text), _tone(text)) for text in dict.fromkeys(found)])]


def _unsaid(notes: Sequence[str], recorded: Sequence[str]) -> list[str]:
    """Notes without those on an imported tool that are recorded with the files' names."""
    said = {text.partition(": ")[2] for text in recorded} - {""}
    return [note for note in notes if note.partition(": ")[2] not in said]


def _notes(material: Material) -> Sequence[str]:
    """What the analysis says itself."""
    try:
        return material.answer.notes
    except SpecbenchError:
        if material.fitted is not None:
            return material.fitted.warnings
        return [*material.impossible.sentences, *run_notes((), material.failed)]


def _sentence(text: str) -> str:
    """With a capital letter, unless it begins with a file's or a tool's name."""
    first = text.partition(" ")[0].rstrip(":")
    return f"{text[:1].upper() if first.isalpha() else text[:1]}{text[1:]}."


def _tone(text: str) -> Any:
    return "loud" if text.startswith((DIVERGED, IMPOSSIBLE)) else "warning"


def _noisy(material: Material) -> list[str]:
    floors = {
        group.key.setting: group.noise_floor
        for group in material.groups
        if group.noise_floor is not None and group.noise_floor > _NOISY
    }
    if not floors:
        return []
    ranked = sorted(floors, key=lambda setting: -floors[setting])
    named = _some(f"{setting} {noise(floors[setting])}" for setting in ranked)
    return [
        f"noisy baseline: the two of a block differ by more than {_NOISY:.0%}, and a speedup "
        f"inside that is not claimed: {named}"
    ]


def _foreign(cells: Iterable[CellRecord]) -> list[str]:
    """Cells during which other processes were on the GPU."""
    disturbed = [cell for cell in cells if _gpu(cell).get("foreign_processes")]
    if not disturbed:
        return []
    return [
        f"other processes used the GPU while {counted(len(disturbed), 'cell')} were measured, so "
        f"their times may be too long: {_some(cell.cell_id for cell in disturbed)}"
    ]


def _gpu(cell: CellRecord) -> dict[str, Any]:
    return (cell.model_extra or {}).get("gpu") or {}


def _dropped(dropped: Sequence[dict[str, Any]]) -> list[str]:
    if not dropped:
        return []
    reasons = Counter(str(one.get("reason") or "no reason given") for one in dropped)
    named = _some(f"{reason} ({counted(count, 'cell')})" for reason, count in reasons.items())
    return [f"{counted(len(dropped), 'cell')} cannot exist and were left out: {named}"]


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    return "; ".join(listed[:_NAMED]) + more
