"""What a training is asked to do, and who hears how far it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from specbench.training.loop import Budget
from specbench.training.state import Progress


@dataclass(frozen=True)
class Order:
    """What to train.

    Attributes:
        kind: a key of ``session.KINDS``.
        target: as for ``specbench run``; None for the embedded default.
        start: checkpoint of this kind to go on from, a folder or a hub name; None for a new one.
        out: folder of the checkpoint; must not hold one yet.
        corpus: folder of the target's output, made or extended.
        tokens: answer tokens that the corpus must have.
        outputs: answers collected elsewhere, added to the corpus first.
        prompts: file with the grammar of the prompts; None for the built-in one.
        vocab: tokens of the draft vocabulary.
        max_new_tokens, batch_size: of the answers.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        budget: when training ends.
    """

    kind: str
    out: Path
    corpus: Path
    target: str | None = None
    start: str | None = None
    tokens: int = 300_000
    outputs: Path | None = None
    prompts: Path | None = None
    vocab: int = 4096
    max_new_tokens: int = 192
    batch_size: int = 48
    device: str = "auto"
    budget: Budget = field(default_factory=Budget)


class Listener:
    """Hears how far things are; the command line overrides it with bars."""

    def collecting(self, tokens: int, wanted: int) -> None: ...

    def training(self, progress: Progress, share: float) -> None: ...

    def message(self, text: str) -> None: ...
