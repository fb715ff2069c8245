"""What a fit is: one run, its groups, their gammas, with the names of all numbers.

:mod:`specbench.analysis.fit` makes them; :mod:`specbench.analysis.shown` is how they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specbench.analysis.acceptance.verdict import Acceptance
from specbench.analysis.machine.memory import Memory
from specbench.analysis.machine.waits import Waits
from specbench.analysis.pooling import GroupKey
from specbench.analysis.prediction.held_out import Errors, Prediction
from specbench.analysis.rounds.evidence import Evidence
from specbench.analysis.rounds.gap import Gap
from specbench.analysis.rounds.model import MeasuredRounds, RoundModel
from specbench.records.schema import CellRecord, DraftForm
from specbench.records.spec_text import is_synthetic, quantised_name
from specbench.theory.cost_model import CostFit
from specbench.theory.scatter import Scatter


@dataclass(frozen=True)
class GammaFit:
    """One gamma of a group: measured numbers, and what the two models expected.

    Times (``c``, ``v``, ``overhead``) in units of T1. What is not known is None; without a finished
    baseline that is everything but the acceptance.

    Attributes:
        draft_t1, verify_t1, other_t1: mean times of a round's parts, whatever was drafted in it.
        round_ci: 95% interval of their sum.
        cut_share: tokens cut at stop tokens and length limits / tokens committed before the cut:
            the models don't know them, so long outputs come closer to the models.
        draft_length_counts: rounds that drafted 0, 1, ..., gamma tokens, or levels of a tree.
        expected_tokens: per round; of trees from the acceptance at each depth as if no accepted
            path ended before the last level, of adaptive drafts from how often each depth was
            survived. None for a chain, whose alpha is the group's.
        closed_form: speedup from the group's alpha and c alone; chains of fixed length only.
        extended: speedup from this gamma's round times and either the group's acceptance and this
            gamma's draft lengths or, for trees and adaptive drafts, how often each depth was
            survived.
        noise_floor: how much the block's baselines differ.
        lossless: the worst verdict of the cells.
        gap: between closed form and measured speedup, term by term; None where one is not known.
    """

    gamma: int
    num_cells: int
    num_rounds: int
    alpha: float | None
    alpha_ci: tuple[float, float] | None
    tau: float | None
    alpha_by_position: list[float | None] | None
    survival_by_position: list[float] | None
    draft_length_mean: float | None
    draft_length_counts: list[int] | None
    expected_tokens: float | None
    cut_share: float | None
    c: float | None
    v: float | None
    overhead: float | None
    draft_t1: float | None
    verify_t1: float | None
    other_t1: float | None
    round_ci: tuple[float, float] | None
    speedup: float | None
    speedup_ci: tuple[float, float] | None
    closed_form: float | None
    extended: float | None
    noise_floor: float | None
    lossless: str | None
    gap: Gap | None = None

    @property
    def error_closed_form(self) -> float | None:
        """closed_form / measured - 1: positive where the closed form is optimistic."""
        return _relative(self.closed_form, self.speedup)

    @property
    def error_extended(self) -> float | None:
        """extended / measured - 1."""
        return _relative(self.extended, self.speedup)


@dataclass(frozen=True)
class GroupFit:
    """One drafter in one setting.

    Attributes:
        draft_form: what gamma means; alpha can be compared between chains only.
        c: time of one drafter step in units of T1; None without a baseline.
        step_s: T1 in seconds.
        overhead: mean remaining time of a round in units of T1, over all gammas.
        num_prompts: conversations that the intervals rest on.
        model: the extended model, for trees and adaptive drafts at measured gammas only; None
            where c or alpha is not known.
        points: one per measured gamma, ascending.
        acceptance: whether one alpha describes it, and what does; None for trees, adaptive drafts,
            synthetic drafters, imported cells, and where nothing was evaluated.
        costs: of a round over the draft length; None with fewer than three gammas, without a
            baseline, for trees and adaptive drafts. Of imported cells only the sums are known.
        prediction: each gamma from the others; None in the same cases and for imported cells.
        evidence: sums by conversation and time block; None without a baseline and for imported
            cells.
        waits: for first tokens; None of imported cells.
        memory: what is recorded of it.
        scatter: how much cells of its setting differ, which intervals of measured speedups hold;
            None where nothing tells it.
    """

    key: GroupKey
    draft_form: DraftForm
    alpha: float | None
    alpha_ci: tuple[float, float] | None
    c: float | None
    c_ci: tuple[float, float] | None
    step_s: float | None
    overhead: float | None
    noise_floor: float | None
    num_prompts: int
    model: RoundModel | MeasuredRounds | None
    points: tuple[GammaFit, ...]
    warnings: tuple[str, ...]
    imported_from: str | None = None  # the tool whose summaries stand in for rounds
    served: bool = False  # whether that tool is a server, and its requests are recorded
    acceptance: Acceptance | None = None
    costs: CostFit | None = None
    prediction: Prediction | None = None
    evidence: Evidence | None = None
    waits: Waits | None = None
    memory: Memory | None = None
    scatter: Scatter | None = None

    @property
    def synthetic(self) -> bool:
        """Whether alpha was chosen by the user instead of measured on a real drafter."""
        return is_synthetic(self.key.drafter)

    @property
    def errors_closed_form(self) -> Errors | None:
        """Of the closed form over gammas, each one's own measurement being in alpha and c."""
        return _scored([point.error_closed_form for point in self.points])

    @property
    def errors_extended(self) -> Errors | None:
        """Of the extended model over gammas, with each one's own round times."""
        return _scored([point.error_extended for point in self.points])


@dataclass(frozen=True)
class RunFit:
    """All groups of a run, the cells that failed, and what a reader should know about both.

    Attributes:
        target: its name, as it is loaded by.
        quantization: the method that its weights were quantised by while it was loaded.
        unusable: ids of finished cells that nothing rests on.
        suspect: those and all others whose numbers can't be, or are not those of their line.
    """

    name: str
    path: Path
    target: str
    groups: tuple[GroupFit, ...]
    failed: tuple[CellRecord, ...]
    warnings: tuple[str, ...]
    unusable: frozenset[str] = frozenset()
    suspect: frozenset[str] = frozenset()
    quantization: str | None = None

    @property
    def shown_target(self) -> str:
        """What the target is called beside others."""
        return quantised_name(self.target, self.quantization)


def _scored(errors: Sequence[float | None]) -> Errors | None:
    known = [error for error in errors if error is not None]
    return Errors.of(known) if known else None


def _relative(predicted: float | None, measured: float | None) -> float | None:
    return predicted / measured - 1.0 if predicted is not None and measured else None
