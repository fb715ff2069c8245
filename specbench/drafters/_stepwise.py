"""What drafters that go token by token have in common: a chain, a tree or an adaptive chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from specbench.drafters._adaptive import AUTO_NOTE, AUTO_OPTIONS, StopRule
from specbench.drafters._tree import TREE_OPTIONS, TreeSize
from specbench.drafters.base import Drafter, Session
from specbench.drafters.spec import DrafterSpec


class StepwiseDrafter(Drafter):
    """Drafts a token, reads it, drafts the next.

    Args:
        spec: says which tree, if any, or that a chain ends where the next token would not pay.
        weight_share: bytes that a draft step reads / bytes that a target step reads.

    Attributes:
        size: of the tree; None for chains.
        stop: when a chain ends early; None: never.
    """

    OPTIONS: ClassVar[tuple[str, ...]] = (*TREE_OPTIONS, *AUTO_OPTIONS)

    def __init__(self, spec: DrafterSpec, weight_share: float) -> None:
        self.size = TreeSize.of(spec)
        self.stop = StopRule.of(spec, weight_share)
        self.samples = self.size is None

    @classmethod
    def check(cls, spec: DrafterSpec) -> None:
        super().check(spec)
        TreeSize.of(spec)
        StopRule.of(spec, 1.0)

    @classmethod
    def impossible(
        cls, spec: DrafterSpec, *, gamma: int, temperature: float, batch_size: int
    ) -> str | None:
        size = TreeSize.of(spec)
        return size.too_small(gamma) if size else None

    def most_drafted(self, gamma: int) -> int:
        return self.size.most_drafted(gamma) if self.size else gamma

    def draft_widths(self, gamma: int) -> Sequence[int]:
        return super().draft_widths(gamma) if self.stop is None else range(1, gamma + 1)

    def drafts_trees(self, gamma: int) -> bool:
        return self.size is not None

    def start(self, session: Session) -> None:
        super().start(session)
        if self.stop is not None:
            self.stop.reset()

    def commit(self, num_accepted: Sequence[int], hidden: dict[int, Tensor] | None = None) -> None:
        if self.stop is not None:
            self.stop.learn(num_accepted)

    def notes(self) -> list[str]:
        return [] if self.stop is None else [AUTO_NOTE]
