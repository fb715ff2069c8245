"""Greedy texts of two runs, token by token: are B's those of A?

What this can't tell is why two texts part. Rounding flips near ties, and whether the target hardly
preferred either token takes the target itself: ``specbench compare --judge`` asks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from specbench.records.reading import Run
from specbench.records.schema import IDENTICAL, CellRecord

DIFFERENT = "differ"


class Answer(NamedTuple):
    """The tokens of one answer, and whether a limit ended it."""

    ids: Sequence[int]
    is_cut: bool

    def is_of(self, other: Answer) -> bool:
        """Whether both are one text, as far as limits let it go on."""
        shorter = min(self, other, key=lambda answer: len(answer.ids))
        ends = len(shorter.ids)
        same_end = len(self.ids) == len(other.ids) or shorter.is_cut
        return same_end and list(self.ids[:ends]) == list(other.ids[:ends])


@dataclass(frozen=True)
class Pair:
    """Two answers to one prompt that part."""

    prompt_id: str
    a: Sequence[int]
    b: Sequence[int]


@dataclass(frozen=True)
class Texts:
    """What became of one cell's texts.

    Attributes:
        cells: of the first run, with the same greedy texts.
        compared: how many prompts both runs answered.
        pairs: those whose answers part.
        why_not: why no text was compared; None where some were.
    """

    cells: Sequence[CellRecord]
    compared: int = 0
    pairs: tuple[Pair, ...] = ()
    why_not: str | None = None

    @property
    def verdict(self) -> str | None:
        """``identical`` or ``differ``; None where nothing was compared."""
        if self.why_not is not None:
            return None
        return DIFFERENT if self.pairs else IDENTICAL


def compare_texts(
    a: Run, cells_a: Sequence[CellRecord], b: Run, cells_b: Sequence[CellRecord]
) -> Texts:
    """The texts of a cell in two runs.

    Args:
        cells_a, cells_b: its repeats, whose greedy texts are the same.
    """
    if cells_a[0].temperature > 0:
        return Texts(cells_a, why_not="above temperature 0 texts differ rightly")
    if _other_weights(a, b):
        return Texts(cells_a, why_not="the targets have other weights, whose texts differ rightly")
    sides = []
    for run, cells in ((a, cells_a), (b, cells_b)):
        answers = _answers(run, cells[0])
        if not answers:
            return Texts(cells_a, why_not=f"{run.path} holds no tokens of its answers")
        sides.append(answers)
    mine, theirs = sides
    shared = [prompt for prompt in mine if prompt in theirs]
    if not shared:
        return Texts(cells_a, why_not="no prompt is in both")
    parted = [name for name in shared if not mine[name].is_of(theirs[name])]
    pairs = tuple(Pair(name, mine[name].ids, theirs[name].ids) for name in parted)
    return Texts(cells_a, len(shared), pairs)


def _other_weights(a: Run, b: Run) -> bool:
    """Whether both targets are known and are not one: other files, or quantised otherwise."""
    one, other = a.manifest.target, b.manifest.target
    hashes = {one.get("sha256"), other.get("sha256")} - {None}
    served = a.manifest.servers or b.manifest.servers  # a server says nothing of its weights
    quantised = not served and one.get("quantization") != other.get("quantization")
    return len(hashes) > 1 or quantised


def _answers(run: Run, cell: CellRecord) -> dict[str, Answer]:
    """Prompt -> its answer; without those whose tokens were not recorded."""
    if not (run.path / "requests" / f"{cell.cell_id}.parquet").is_file():
        return {}
    table = run.columns("requests", cell.cell_id)
    rows = zip(table["prompt_id"], table["output_ids"], table["stop_reason"], strict=True)
    return {name: Answer(ids, reason == "length") for name, ids, reason in rows if ids}
