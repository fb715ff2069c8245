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
from typing import Any

from specbench.analysis.acceptance.replayed import ReplayedTokens, Traces
from specbench.analysis.acceptance.verdict import judge_acceptance
from specbench.analysis.checking.completeness import incomplete
from specbench.analysis.checking.notes import run_notes
from specbench.analysis.checking.violations import nothing_left, violations
from specbench.analysis.fitted import GammaFit, GroupFit, RunFit
from specbench.analysis.machine.memory import memory_of
from specbench.analysis.machine.waits import waits_of
from specbench.analysis.others import imported
from specbench.analysis.pooling import Group, Raw, RawTables, groups
from specbench.analysis.prediction.held_out import Prediction, predict
from specbench.analysis.rounds.between_cells import with_cells
from specbench.analysis.rounds.costs import Costs, counts_by_conversation
from specbench.analysis.rounds.evidence import Evidence, evidence_of
from specbench.analysis.rounds.gap import Gap, decompose
from specbench.analysis.rounds.model import MeasuredRounds, RoundModel, expected_tokens, model_of
from specbench.records.reading import Run
from specbench.records.schema import DIVERGED, IDENTICAL, NEAR_TIE, CellRecord
from specbench.records.spec_text import is_synthetic, quantised_name
from specbench.records.steps import Columns, integers
from specbench.records.summary import summarize
from specbench.theory import closed_form, estimators
from specbench.theory.cost_model import CostFit, fit_costs
from specbench.theory.intervals import ratio_interval
from specbench.theory.round_lines import between_cells
from specbench.theory.scatter import Scatter

_UNUSED = ("prompt_id", "overlap", "path")
"""Columns of rounds that no fit looks at: texts and lists, which are slow to read."""


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
    method = run.manifest.target_quantization
    if method is not None:
        notes += (f"the target is {quantised_name(target, method)}: its weights were quantised",)
    return RunFit(name, run.path, target, fits, failed, notes, *left_out, method)


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
    if verdicts == {IDENTICAL} and any(
        not math.isclose(found.per_round(gamma), tokens) for gamma, tokens in told.items()
    ):
        traces.refuse(group.key, "rounds replayed on it are not those that were measured")
        return None
    return found


def _cell_scatter(evidence: Evidence | None, chain: bool) -> Scatter | None:
    """What differs between cells: baselines, and the gammas of chains from their lines."""
    if evidence is None:
        return None
    lines = evidence.lines if chain else None
    return between_cells(lines, evidence.plain_cells)


def _fit_imported(group: Group) -> GroupFit:
    """As :func:`_fit_group`, from other tools' summaries: there are no rounds to fit."""
    summaries = imported.summaries(group)
    floors = [s["noise_floor"] for s in summaries.values() if s["noise_floor"] is not None]
    return GroupFit(
        key=group.key,
        draft_form=group.draft_form,
        alpha=imported.pooled_alpha(summaries),
        alpha_ci=imported.alpha_interval(summaries),
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
        warnings=tuple(imported.warnings(group)),
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
    for verdict in (DIVERGED, NEAR_TIE, IDENTICAL):
        if verdict in verdicts:
            return verdict
    return next((verdict for verdict in verdicts if verdict), None)
