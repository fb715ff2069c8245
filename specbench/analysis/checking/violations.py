"""The identities of honest numbers, checked on every cell of a run, and told in a few sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.analysis.pooling import RawTables, Setting
from specbench.analysis.shown.names import counted, with_gamma
from specbench.errors import SpecbenchError
from specbench.records.identities import identities
from specbench.records.line_check import line_faults
from specbench.records.reading import Run
from specbench.records.schema import Block, CellRecord
from specbench.records.steps import Steps, counted_steps
from specbench.records.summary_identities import record_identities
from specbench.records.traces import TRACES

_NAMED = 3  # cells whose tables can't be used, the others counted
_TOLD = 2  # violations of one identity that are told in full, the others counted
_NO_ESTIMATE = ("block efficiency", "tokens")
"""Identities that counts of tokens break: nothing is estimated from the rounds of such a cell."""
_NO_ESTIMATE_IMPORTED = ("block efficiency",)
"""The same of other tools' sums, in which a request that was cut may be counted either way."""


@dataclass(frozen=True)
class Violations:
    """What in a run can't be.

    Attributes:
        sentences: one per violation, with both sides and the cell; of many the first of each
            identity.
        unusable: ids of cells whose tables can't be used, or whose counts can't be, so that no
            estimate rests on them.
        suspect: ids of all cells that the sentences are about, those included whose line in
            `cells.jsonl` says other than their rounds.
        tables: why tables can't be used, one error per cell.
    """

    sentences: tuple[str, ...]
    unusable: frozenset[str]
    suspect: frozenset[str] = frozenset()
    tables: tuple[SpecbenchError, ...] = ()


def violations(run: Run, tables: RawTables) -> Violations:
    """Check every finished cell of a run.

    Args:
        tables: the run's tables, so that each is read once.
    """
    found: dict[str, list[str]] = {}
    unusable: set[str] = set()
    suspect: set[str] = set()
    broken: dict[str, SpecbenchError] = {}
    finished = [cell for cell in run.cells if cell.status == "ok"]
    plain = _plain_steps(finished, tables)
    for cell in finished:
        try:
            wrong = _of(cell, tables, plain.get(cell.block, ()))
        except SpecbenchError as error:
            broken[_name(cell)] = error
            unusable.add(cell.cell_id)
            continue
        for sentence in wrong:
            name = sentence.partition(":")[0]
            suspect.add(cell.cell_id)
            own = cell.imported_from is None
            if left_out := name in (_NO_ESTIMATE if own else _NO_ESTIMATE_IMPORTED):
                unusable.add(cell.cell_id)
            ending = "; the cell is left out" if left_out else ""
            found.setdefault(name, []).append(f"{_name(cell)}: {sentence}{ending}")
    told = [
        f"left out, its table cannot be used: {name}: {error.message}"
        for name, error in list(broken.items())[:_NAMED]
    ]
    if (more := len(broken) - _NAMED) > 0:
        told.append(f"left out for the same reason: {counted(more, 'more cell')}")
    for name, sentences in found.items():
        told += [f"numbers that cannot be: {sentence}" for sentence in sentences[:_TOLD]]
        if (more := len(sentences) - _TOLD) > 0:
            told.append(f"numbers that cannot be: {counted(more, 'more violation')} of {name}")
    return Violations(
        tuple(told),
        frozenset(unusable),
        frozenset(suspect | unusable),
        tuple(broken.values()),
    )


def nothing_left(run: Run, wrong: Violations) -> SpecbenchError:
    """Why no cell of a run can be used, with the way out."""
    name, failed = run.manifest.name, [cell for cell in run.cells if cell.status != "ok"]
    if wrong.tables:
        return wrong.tables[0]
    if wrong.unusable:
        imported = any(cell.imported_from for cell in run.cells)
        return SpecbenchError(
            f"nothing of {name} can be used: {wrong.sentences[0]}",
            "Look at the files it was imported from, and at --gamma"
            if imported
            else "What counts tokens is broken; mend it and measure again",
        )
    if not run.cells:
        return SpecbenchError(
            f"{run.path} holds no finished cell",
            "Type the `specbench run` command again to go on where it stopped",
        )
    if failed:
        return SpecbenchError(
            f"no speculative cell of {name} finished: {len(failed)} of {len(run.cells)} cells "
            f"failed, the first one with: {failed[0].error or failed[0].status}",
            "Mend the cause and run again with --resume --retry-failed",
        )
    if (run.path / TRACES).exists():
        return SpecbenchError(
            f"{name} holds baselines and traces of drafters, no speculative cell",
            f"specbench alpha {run.path} shows the traces",
        )
    return SpecbenchError(
        f"{name} holds baselines only, no drafter", "Run it again with --drafter, e.g. ngram"
    )


def _of(cell: CellRecord, tables: RawTables, plain: Sequence[Steps]) -> list[str]:
    """Violated identities, else what a line says other than its rounds."""
    if cell.imported_from is not None:
        return record_identities(cell)
    rounds, requests = tables.of(cell)
    if cell.num_rounds not in (None, len(rounds["step"])):
        raise SpecbenchError(
            f"it has {len(rounds['step'])} rounds, cells.jsonl says {cell.num_rounds}",
            "Another cell's table may lie in its place",
        )
    return identities(cell, rounds, requests) or line_faults(cell, rounds, plain)


def _plain_steps(cells: Sequence[CellRecord], tables: RawTables) -> dict[Block, list[Steps]]:
    """Counted steps of each block's baselines; blocks are missing where one can't be used."""
    found: dict[Block, list[Steps]] = {}
    unknown: set[Block] = set()
    for cell in cells:
        if not cell.is_baseline or cell.imported_from is not None:
            continue
        try:
            steps = counted_steps(tables.of(cell)[0], cell.batch_size)
        except SpecbenchError:  # told of the cell itself
            unknown.add(cell.block)
        else:
            found.setdefault(cell.block, []).append(steps)
    return {block: steps for block, steps in found.items() if block not in unknown}


def _name(cell: CellRecord) -> str:
    if cell.is_baseline:
        return f"plain decoding ({Setting.of(cell)})"
    return f"{with_gamma(cell.drafter, cell.draft_form, cell.gamma)} ({Setting.of(cell)})"
