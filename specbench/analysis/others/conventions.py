"""A run's numbers as other tools report them, who count different things under much the same names.

==========  ======================================================================================
convention  what it reports
==========  ======================================================================================
leviathan   mean of sum_x min(p, q) over evaluated positions; tokens per round by the closed form
vllm        accepted / drafted; 1 + accepted / rounds; survival by position; rounds with a draft
sglang      (accepted + rounds) / (rounds x draft tokens), the root counted: the bonus on both
            sides; (accepted + rounds) / rounds
spec-bench  mean of new length - old length of a round, the bonus included
gpt-fast    share of rounds that accepted 0, 1, ... tokens; their mean, the bonus excluded
nvidia      acceptance by position, conditional and joint; mean streamed chunk, where the chunk of
            prefill counts as 1
==========  ======================================================================================

All from the raw rounds; of an imported cell from the counts that its record has. What can't be told
is None.

>>> counts = RoundCounts(gamma=2, rounds=4, drafts=4, drafted=8, accepted=4, verified=12)
>>> report("vllm", counts)["accepted / drafted"], report("sglang", counts)["accept rate"]
(0.5, 0.6666666666666666)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specbench.analysis.checking.violations import nothing_left, violations
from specbench.analysis.others import imported
from specbench.analysis.pooling import Group, GroupKey, Raw, RawTables, groups
from specbench.errors import SpecbenchError
from specbench.records.reading import Run
from specbench.records.schema import CellRecord
from specbench.records.steps import integers, values
from specbench.theory import closed_form, estimators

Value = float | list[float | None] | None
Report = dict[str, Value]


@dataclass(frozen=True)
class RoundCounts:
    """What was counted in the rounds of one gamma; None where a source does not tell.

    Attributes:
        rounds: all of them.
        drafts: those in which something was drafted.
        drafted, accepted, emitted: tokens; accepted ones without the correction or bonus token,
            emitted ones after cuts.
        verified: tokens in the target's forwards, the last committed one of each round included.
        requests: each has one token from prefill.
        survivors: [gamma] rounds that accepted at least 1, 2, ... tokens.
        conditional: [gamma] accepted / evaluated at position 1, 2, ...
        overlap: mean of sum_x min(p, q) over the evaluated positions.
        single_alpha: False for trees and drafts of changing length.
        tau, per_round: tokens that a round gave and that the target's forward of it had, of a
            source that tells no counts.
    """

    gamma: int
    rounds: int | None = None
    drafts: int | None = None
    drafted: int | None = None
    accepted: int | None = None
    verified: int | None = None
    emitted: int | None = None
    requests: int | None = None
    survivors: Sequence[float] | None = None
    conditional: Sequence[float | None] | None = None
    overlap: float | None = None
    single_alpha: bool = True
    tau: float | None = None
    per_round: int | None = None


@dataclass(frozen=True)
class ConventionRow:
    """One gamma of one group, as a convention reports it."""

    key: GroupKey
    gamma: int
    numbers: Report


def names() -> list[str]:
    """The conventions that are known."""
    return list(_CONVENTIONS)


def checked(convention: str) -> str:
    """The name itself.

    Raises:
        SpecbenchError: no such convention.
    """
    if convention not in _CONVENTIONS:
        raise SpecbenchError(f"unknown convention {convention!r}", f"Known: {', '.join(names())}")
    return convention


def report(convention: str, counts: RoundCounts) -> Report:
    """One gamma's numbers by name, in the order in which the tool gives them.

    Raises:
        SpecbenchError: no such convention.
    """
    return _CONVENTIONS[checked(convention)](counts)


def report_run(run: Run, convention: str) -> tuple[list[ConventionRow], tuple[str, ...]]:
    """Every group and gamma of a run in one convention, and notes on numbers that cannot be.

    Raises:
        SpecbenchError: no such convention, or no finished speculative cell that can be used.
    """
    checked(convention)
    tables = RawTables(run)
    wrong = violations(run, tables)
    rows = [
        ConventionRow(group.key, gamma, report(convention, _counts(group, gamma, tables)))
        for group in groups(cell for cell in run.cells if cell.cell_id not in wrong.unusable)
        for gamma in group.cells
    ]
    if not rows and wrong.unusable:
        raise nothing_left(run, wrong)
    if not rows:
        raise SpecbenchError(
            f"{run.manifest.name} has no finished speculative cell, so there is nothing to report",
            "`specbench fit RUN` lists what failed",
        )
    return rows, wrong.sentences


def _counts(group: Group, gamma: int, tables: RawTables) -> RoundCounts:
    cells = group.cells[gamma]
    is_chain = group.draft_form == "chain"
    if any(cell.imported_from is not None for cell in cells):
        return counts_of_record(_joined(cells))
    return counts_of_rounds(gamma, tables.joined(cells), is_chain)


def _joined(cells: Sequence[CellRecord]) -> CellRecord:
    """One record of repeats: counts added up, tau and shares as means."""
    if len(cells) == 1:
        return cells[0]
    fields = imported.joined(cells)
    return cells[0].updated(**{name: fields[name] for name in _JOINED})


_JOINED = (
    *("num_rounds", "num_drafted", "num_accepted", "num_requests", "tau", "tree_nodes"),
    *("survival_by_position", "alpha_by_position", "alpha_overlap"),
)


def counts_of_rounds(gamma: int, raw: Raw, single_alpha: bool = True) -> RoundCounts:
    """Counts from rounds and requests."""
    rounds, requests = raw
    accepted, drafted = integers(rounds, "num_accepted"), integers(rounds, "num_drafted")
    evaluated = integers(rounds, "num_evaluated")
    return RoundCounts(
        gamma=gamma,
        rounds=int(accepted.size),
        drafts=int((drafted > 0).sum()),
        drafted=int(drafted.sum()),
        accepted=int(accepted.sum()),
        verified=int(integers(rounds, "num_verified").sum()),
        emitted=int(integers(rounds, "num_emitted").sum()),
        requests=len(values(requests, "prompt_id")),
        survivors=[float((accepted >= place).sum()) for place in range(1, gamma + 1)],
        conditional=estimators.alpha_by_position(accepted, evaluated, gamma),
        overlap=estimators.alpha_overlap(rounds.get("overlap", ())),
        single_alpha=single_alpha,
    )


def counts_of_record(record: CellRecord) -> RoundCounts:
    """Counts of an imported cell, as far as its source tells them."""
    survival, rounds = record.survival_by_position, record.num_rounds
    return RoundCounts(
        gamma=record.gamma,
        rounds=rounds,
        drafts=rounds,
        drafted=record.num_drafted,
        accepted=record.num_accepted,
        verified=record.tree_nodes * rounds
        if record.tree_nodes and rounds
        else _sum(record.num_drafted, rounds),
        requests=record.num_requests,
        survivors=[share * rounds for share in survival] if survival and rounds else None,
        conditional=record.alpha_by_position,
        overlap=record.alpha_overlap,
        single_alpha=record.draft_form == "chain",
        tau=record.tau,
        per_round=_per_round(record),
    )


def _per_round(record: CellRecord) -> int | None:
    """Tokens in every forward of the target, where a source drafts as many in every round."""
    if record.tree_nodes is not None:
        return int(record.tree_nodes)
    is_full = record.imported_from == "sglang" and record.draft_form == "chain"
    return record.gamma + 1 if is_full else None


def _leviathan(counts: RoundCounts) -> Report:
    alpha = counts.overlap if counts.single_alpha else None
    tokens = None if alpha is None else closed_form.expected_tokens(alpha, counts.gamma)
    return {"E[sum min(p, q)]": alpha, "tokens per round (closed form)": tokens}


def _vllm(counts: RoundCounts) -> Report:
    share = _divided(counts.accepted, counts.drafts)
    drafted = None if counts.per_round is None else counts.per_round - 1
    return {
        "accepted / drafted": _or_else(
            _divided(counts.accepted, counts.drafted), _divided(_accepted(counts), drafted)
        ),
        "mean acceptance length": _or_else(None if share is None else 1.0 + share, counts.tau),
        "per position": _shares(counts.survivors, counts.drafts),
    }


def _sglang(counts: RoundCounts) -> Report:
    both = _sum(counts.accepted, counts.rounds)
    return {
        "accept rate": _or_else(
            _divided(both, counts.verified), _divided(counts.tau, counts.per_round)
        ),
        "accept length": _or_else(_divided(both, counts.rounds), counts.tau),
    }


def _spec_bench(counts: RoundCounts) -> Report:
    mean = _divided(_sum(counts.accepted, counts.rounds), counts.rounds)
    return {"mean accepted tokens": _or_else(mean, counts.tau)}


def _gpt_fast(counts: RoundCounts) -> Report:
    histogram: Value = None
    if counts.survivors is not None and counts.rounds:
        reached = np.array([counts.rounds, *counts.survivors, 0.0])
        histogram = ((reached[:-1] - reached[1:]) / counts.rounds).tolist()
    return {
        "mean accepted": _or_else(_divided(counts.accepted, counts.rounds), _accepted(counts)),
        "share of rounds that accepted 0, 1, ...": histogram,
    }


def _nvidia(counts: RoundCounts) -> Report:
    chunks = _sum(counts.rounds, counts.requests)
    conditional = None if counts.conditional is None else list(counts.conditional)
    return {
        "mean streamed chunk": _divided(_sum(counts.emitted, counts.requests), chunks),
        "conditional by position": conditional,
        "joint by position": _shares(counts.survivors, counts.rounds),
    }


_CONVENTIONS: Mapping[str, Callable[[RoundCounts], Report]] = {
    "leviathan": _leviathan,
    "vllm": _vllm,
    "sglang": _sglang,
    "spec-bench": _spec_bench,
    "gpt-fast": _gpt_fast,
    "nvidia": _nvidia,
}


def _accepted(counts: RoundCounts) -> float | None:
    """Per round, where tau is all that is told."""
    return None if counts.tau is None else counts.tau - 1.0


def _or_else(value: float | None, other: float | None) -> float | None:
    return other if value is None else value


def _divided(top: float | None, bottom: int | None) -> float | None:
    return top / bottom if top is not None and bottom else None


def _sum(*terms: int | None) -> int | None:
    known = [term for term in terms if term is not None]
    return sum(known) if len(known) == len(terms) else None


def _shares(survivors: Sequence[float] | None, rounds: int | None) -> Value:
    return [count / rounds for count in survivors] if survivors is not None and rounds else None
