"""What a run says about each drafter: alpha, c, v and overhead with intervals, theory beside it.

A group is one drafter in one setting (task, temperature, batch size and whatever else changes the
baseline). Alpha and c are pooled over the group's gammas and repeats, because the closed form knows
one of each; alpha's interval clusters by conversation, c's by conversation at batch 1 and by time
block above. Everything per gamma comes from the same summary as the records' own lines.

Trees and adaptive drafts have no single alpha: for them nothing is built on the pooled one, there
is no closed form, and what a gamma gives is told from its own acceptance, depth by depth.

>>> fit = fit_run(load_run("results/main"))                                     # doctest: +SKIP
>>> fit.groups[0].alpha, fit.groups[0].points[0].error_closed_form             # doctest: +SKIP
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.analysis import imported
from specbench.analysis.acceptance import Acceptance, judge_acceptance
from specbench.analysis.between_cells import with_cells
from specbench.analysis.checking import nothing_left, violations
from specbench.analysis.completeness import incomplete
from specbench.analysis.costs import Costs, counts_by_conversation
from specbench.analysis.evidence import Evidence, evidence_of
from specbench.analysis.gap import Gap, decompose
from specbench.analysis.memory import Memory, memory_of
from specbench.analysis.model import MeasuredRounds, RoundModel, expected_tokens, model_of
from specbench.analysis.notes import run_notes
from specbench.analysis.pooling import (
    DIVERGED,
    Group,
    GroupKey,
    Raw,
    RawTables,
    Setting,
    groups,
)
from specbench.analysis.prediction import Errors, Prediction, predict
from specbench.analysis.replayed import ReplayedTokens, Traces
from specbench.analysis.waits import Waits, waits_of
from specbench.records.reading import Run
from specbench.records.schema import CellRecord, DraftForm
from specbench.records.spec_text import is_synthetic
from specbench.records.steps import Columns, integers
from specbench.records.summary import summarize
from specbench.theory import closed_form, estimators
from specbench.theory.cost_model import CostFit, fit_costs
from specbench.theory.intervals import ratio_interval
from specbench.theory.round_lines import RoundLines, between_cells
from specbench.theory.scatter import Scatter

_UNUSED = ("prompt_id", "overlap", "path")
"""Columns of rounds that no fit looks at: texts and lists, which are slow to read."""

__all__ = ["DIVERGED", "GammaFit", "GroupFit", "GroupKey", "RunFit", "Setting", "fit_run"]


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


def fit_run(run: Run) -> RunFit:
    """Fit every group of a run.

    Raises:
        SpecbenchError: the run has no finished speculative cell whose tables and counts can be.
    """
    failed = tuple(cell for cell in run.cells if cell.status != "ok")
    tables = RawTables(run, without=_UNUSED)
    wrong = violations(run, tables)
    found = groups(cell for cell in run.cells if cell.cell_id not in wrong.unusable)
    traces = Traces.of(run, tables)
    if not found:
        raise nothing_left(run, wrong)
    fits = with_cells(
        [
            _fit_imported(group)
            if imported.is_imported(group)
            else _fit_group(group, tables, traces)
            for group in found
        ]
    )
    target = str(run.manifest.target.get("name") or found[0].key.setting.target)
    notes = (*wrong.sentences, *run_notes(fits, failed), *traces.problems, *incomplete(run))
    name, left_out = run.manifest.name, (wrong.unusable, wrong.suspect)
    return RunFit(name, run.path, target, fits, failed, notes, *left_out)


def _fit_group(group: Group, tables: RawTables, traces: Traces) -> GroupFit:
    raw = {gamma: tables.joined(cells) for gamma, cells in group.cells.items()}
    baselines = [tables.of(cell) for cell in group.baselines]
    hits, trials = counts_by_conversation(list(raw.values()))
    alpha, interval = estimators.alpha(hits, trials), ratio_interval(hits, trials)
    batch_size = group.key.setting.batch_size
    evidence, chain = evidence_of(raw, baselines, batch_size), group.draft_form == "chain"
    costs = Costs(raw, baselines, batch_size, _cell_scatter(evidence, chain))
    c, c_ci = costs.drafter_step()
    repeats = [cell.repeat for cell in group.baselines]
    summaries = {
        gamma: summarize(cells[0], *raw[gamma], baselines=baselines, repeats=repeats)
        for gamma, cells in group.cells.items()
    }
    survival = {g: summary["survival_by_position"] or () for g, summary in summaries.items()}
    set_by_user = is_synthetic(group.key.drafter)  # then there is nothing to test
    acceptance = None if set_by_user else judge_acceptance(group.draft_form, raw)
    model = None
    if alpha is not None and c is not None:
        better = acceptance.model if acceptance and acceptance.rejected else None
        model = model_of(group.draft_form, alpha, c, survival, costs.shapes(), better)
    points: list[GammaFit] = []
    told: dict[str, None] = {}
    for gamma, cells in group.cells.items():
        round_ci = costs.round_interval(gamma)
        points.append(_point(cells, summaries[gamma], raw[gamma], model, round_ci))
        told |= dict.fromkeys(summaries[gamma]["warnings"])
        if points[-1].lossless == DIVERGED:
            told[f"{DIVERGED} at γ = {gamma}"] = None
    round_costs: CostFit | None = None
    prediction: Prediction | None = None
    if evidence is not None and chain:
        round_costs = fit_costs(
            evidence.times, evidence.plain, evidence.plain_cells, evidence.enough
        )
        speedups = {p.gamma: p.speedup for p in points if p.speedup}
        prediction = predict(evidence, speedups, _replayed(traces, group, evidence, speedups))
    return GroupFit(
        key=group.key,
        draft_form=group.draft_form,
        alpha=alpha,
        alpha_ci=interval.ends if interval else None,
        c=c,
        c_ci=c_ci,
        step_s=costs.step_s,
        overhead=costs.overhead(),
        noise_floor=max((p.noise_floor for p in points if p.noise_floor is not None), default=None),
        num_prompts=int(hits.size),
        model=model,
        points=tuple(points),
        warnings=tuple(told),
        acceptance=acceptance,
        costs=round_costs,
        prediction=prediction,
        evidence=evidence,
        waits=waits_of(list(raw.values()), baselines),
        memory=memory_of(group, baselines),
    )


def _replayed(
    traces: Traces, group: Group, evidence: Evidence, gammas: Iterable[int]
) -> ReplayedTokens | None:
    """Rounds of a group on its trace; None where there is none, or it is not of these rounds.

    At temperature 0, where all output was plain decoding's, they are the loop's own.
    """
    found, known = traces.replayed(group.key, sorted(gammas)), evidence.tokens
    verdicts = {cell.lossless for cells in group.cells.values() for cell in cells}
    if found is None or group.key.setting.temperature > 0 or not evidence.paired:
        return found
    told = {gamma: known[gamma].emitted.sum() / known[gamma].lengths.sum() for gamma in gammas}
    if verdicts == {"identical"} and any(
        not math.isclose(found.per_round(gamma), tokens) for gamma, tokens in told.items()
    ):
        traces.refuse(group.key, "rounds replayed on it are not those that were measured")
        return None
    return found


def _cell_scatter(evidence: Evidence | None, chain: bool) -> Scatter | None:
    """What differs between cells: baselines, and the gammas of chains from their lines."""
    if evidence is None:
        return None
    lines = RoundLines.of(evidence.times, evidence.plain) if chain else None
    return between_cells(lines, evidence.plain_cells)


def _fit_imported(group: Group) -> GroupFit:
    """As :func:`_fit_group`, from other tools' summaries: there are no rounds to fit."""
    summaries = imported.summaries(group)
    floors = [s["noise_floor"] for s in summaries.values() if s["noise_floor"] is not None]
    return GroupFit(
        key=group.key,
        draft_form=group.draft_form,
        alpha=imported.pooled_alpha(summaries),
        alpha_ci=None,
        c=None,
        c_ci=None,
        step_s=None,
        overhead=None,
        noise_floor=max(floors, default=None),
        num_prompts=int(max(summary["num_prompts"] or 0 for summary in summaries.values())),
        model=imported.measured_model(summaries),
        points=tuple(
            _point(cells, summaries[gamma], None, None, None)
            for gamma, cells in group.cells.items()
        ),
        warnings=tuple(dict.fromkeys(text for s in summaries.values() for text in s["warnings"])),
        imported_from=next(cells[0].imported_from for cells in group.cells.values()),
        served=any(cell.server is not None for cells in group.cells.values() for cell in cells),
        costs=imported.round_costs(group.draft_form, summaries),
    )


def _point(
    cells: Sequence[CellRecord],
    summary: dict[str, Any],
    raw: Raw | None,
    model: RoundModel | MeasuredRounds | None,
    round_ci: tuple[float, float] | None,
) -> GammaFit:
    gamma = cells[0].gamma
    shape = model.shapes.get(gamma) if model else None
    measured: dict[str, Any] = {name: summary.get(name) for name in _FROM_SUMMARY}
    cut = _cut_share(raw[0]) if raw else None
    closed: float | None = None
    gap: Gap | None = None
    if isinstance(model, RoundModel):
        closed = closed_form.speedup(model.alpha, gamma, model.c)
        speedup = measured["speedup"]
        if cut is not None and speedup and gamma in model.shapes:
            gap = decompose(model, gamma, cut, speedup)
    modelled = model.at(gamma) if model and gamma in model.shapes else None
    return GammaFit(
        gamma=gamma,
        num_cells=len(cells),
        draft_t1=shape.draft if shape else None,
        verify_t1=shape.verify if shape else None,
        other_t1=shape.other if shape else None,
        round_ci=round_ci,
        expected_tokens=expected_tokens(cells[0].draft_form, summary),
        cut_share=cut,
        closed_form=closed,
        extended=modelled.speedup if modelled else None,
        lossless=_worst([cell.lossless for cell in cells]),
        gap=gap,
        **measured,
    )


_FROM_SUMMARY = (
    "num_rounds",
    "alpha",
    "alpha_ci",
    "tau",
    "alpha_by_position",
    "survival_by_position",
    "draft_length_mean",
    "draft_length_counts",
    "c",
    "v",
    "overhead",
    "speedup",
    "speedup_ci",
    "noise_floor",
)


def _cut_share(rounds: Columns) -> float | None:
    committed = int((integers(rounds, "num_accepted") + 1).sum())
    return 1.0 - int(integers(rounds, "num_emitted").sum()) / committed if committed else None


def _worst(verdicts: Sequence[str | None]) -> str | None:
    """DIVERGED before near-tie before identical before no verdict."""
    for verdict in (DIVERGED, "near-tie", "identical"):
        if verdict in verdicts:
            return verdict
    return next((verdict for verdict in verdicts if verdict), None)


def _scored(errors: Sequence[float | None]) -> Errors | None:
    known = [error for error in errors if error is not None]
    return Errors.of(known) if known else None


def _relative(predicted: float | None, measured: float | None) -> float | None:
    return predicted / measured - 1.0 if predicted is not None and measured else None
