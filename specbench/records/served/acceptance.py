"""Acceptance of a served cell, as far as the server's counters and the definitions allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from specbench.records.importing.cells import acceptance, full_length
from specbench.records.schema import CellKey
from specbench.records.served.chunks import Chunks
from specbench.records.served.counts import Counts
from specbench.records.spec_text import kind_of
from specbench.theory.clusters import cluster_sums
from specbench.theory.intervals import Interval, ratio_interval

CHANGING_DRAFTS = ("ngram", "suffix")
"""Drafters whose drafts are as long as what they found."""


def rounds_of(cell: CellKey, chunks: Chunks, counts: Counts) -> int | None:
    """The chunks, if they are rounds by the server's own counters.

    A server that is short of time sends what several rounds committed as one chunk.
    """
    rounds = chunks.rounds
    if rounds is None or counts.accepted is None:
        return None
    largest = max((size for sizes in chunks.tokens or () for size in sizes[1:]), default=0)
    if largest > cell.gamma + 1:
        return None
    cut = counts.accepted + rounds - int(chunks.decode_tokens.sum())
    most = cell.gamma * len(chunks.arrived_s)
    return rounds if (counts.drafts or 0) <= rounds and 0 <= cut <= most else None


def acceptance_fields(
    cell: CellKey,
    conversations: Sequence[str],
    chunks: Chunks,
    counts: Counts,
    rounds: int | None,
    warnings: list[str],
) -> dict[str, Any]:
    """Acceptance from counts; alpha only where the definition allows it.

    Args:
        conversations: of each request.
        rounds: all of them, as :func:`rounds_of`.
        warnings: to be added to.
    """
    drafts, drafted, accepted = counts.drafts, counts.drafted, counts.accepted
    over_drafts = [count / drafts for count in counts.accepted_at or ()] if drafts else []
    fields = acceptance(cell.gamma, drafts, drafted, accepted, over_drafts)
    kind = kind_of(cell.drafter)
    if kind in CHANGING_DRAFTS or cell.draft_form != "chain":
        fields |= {"alpha": None, "alpha_by_position": None, "num_evaluated": None}
    if fields.get("alpha") is None:
        warnings.append(_why_no_alpha(cell, kind, counts))
    elif rounds is not None:
        interval = _alpha_interval(cell, conversations, chunks)
        fields["alpha_ci"] = interval.ends if interval else None
    if rounds is None:
        if fields.get("tau") is not None:
            warnings.append("tau and survival count rounds that had a draft only")
        return fields
    fields |= {"num_rounds": rounds, "tau": 1.0 + (accepted or 0) / rounds}
    if drafted is not None:
        fields["draft_length_mean"] = drafted / rounds
    if counts.accepted_at:
        fields["survival_by_position"] = [count / rounds for count in counts.accepted_at]
    return fields


def _why_no_alpha(cell: CellKey, kind: str, counts: Counts) -> str:
    if kind in CHANGING_DRAFTS:
        return f"drafts of {kind} vary in length, so what was evaluated is not known: no alpha"
    if cell.draft_form != "chain":
        return "drafts are no chains of one length: no alpha"
    if counts.drafts is None or counts.accepted_at is None:
        return "the server does not count drafts and acceptance by position: no alpha"
    if not counts.drafts:
        return "the server counted no draft: no alpha"
    if not full_length(cell.gamma, counts.drafts, counts.drafted):
        mean = (counts.drafted or 0) / counts.drafts
        return f"drafts had {mean:.2f} of {cell.gamma} tokens on average: no alpha"
    return f"the server counts {len(counts.accepted_at)} positions, not {cell.gamma}: no alpha"


def _alpha_interval(cell: CellKey, conversations: Sequence[str], chunks: Chunks) -> Interval | None:
    """From the chunks but each answer's last, which may be cut: one of n tokens accepted n - 1."""
    middle = [sizes[1:-1] for sizes in chunks.tokens or ()]
    hits = [sum(size - 1 for size in sizes) for sizes in middle]
    trials = [sum(min(size, cell.gamma) for size in sizes) for sizes in middle]
    _, (accepted, evaluated) = cluster_sums(np.asarray(conversations, dtype=np.str_), hits, trials)
    return ratio_interval(accepted, evaluated, seed=cell.seed) if sum(trials) else None
