"""Lines of SGLang's ``bench_speculative``: one per (batch size, steps, topk, draft tokens).

``acc_length`` is tokens per forward, bonus included, so it is tau; ``step_time`` is the 20th
percentile of a step's seconds, and ``speed`` is acc_length / step_time, tokens per second of one
row. ``num_draft_tokens`` counts the root. A line without steps is plain decoding. Neither target
nor drafter nor temperature is told.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.records.importing.cells import (
    UNNAMED,
    Given,
    Imported,
    needed,
    plain_key,
    settled,
    solved_alpha,
    temperature_of,
)
from specbench.records.importing.documents import Document, Source, count, positive
from specbench.records.importing.notes import Note


def recognises(document: Document) -> bool:
    """Whether this is such a line."""
    return {"steps", "topk", "num_draft_tokens", "acc_length", "step_time"} <= document.keys()


def cells(source: Source, given: Given) -> list[Imported]:
    """One cell per line; lines of the same configuration are repeats."""
    found = [_cell(source.path, document, given) for document in source.documents]
    seen: dict[tuple[Any, ...], int] = {}
    for cell in found:
        place = tuple(sorted(cell.key.items(), key=str))
        cell.key["repeat"] = seen.setdefault(place, 0)
        seen[place] += 1
    return found


def _cell(path: Path, document: Document, given: Given) -> Imported:
    notes: list[Note] = []
    batch_size = settled("batch_size", path, count(document, "batch_size"), given.batch_size)
    key: dict[str, Any] = {
        "target": given.target or UNNAMED,
        "task": given.task or UNNAMED,
        "temperature": temperature_of(path, None, given.temperature, notes),
        "batch_size": needed("batch_size", path, batch_size),
        "backend": "sglang",
    }
    step_s, speed = positive(document, "step_time"), positive(document, "speed")
    fields: dict[str, Any] = {
        "step_s": step_s,
        "itl_s": 1.0 / speed if speed else None,
        "tok_per_s": speed * key["batch_size"] if speed else None,
        "tau": positive(document, "acc_length"),
        "warnings": ["step time is the 20th percentile, so speed is that of the faster steps"],
    }
    steps, topk, nodes = (count(document, name) or 0 for name in _SHAPE)
    if not steps:
        return Imported({**key, **plain_key()}, fields, notes=notes)
    if nodes < 2:
        raise SpecbenchError(f"{path} has {steps} steps but num_draft_tokens {nodes}", _ROOT)
    is_tree = topk > 1
    gamma = steps if is_tree else min(steps, nodes - 1)
    drafter = given.drafter or "eagle"
    if is_tree:
        drafter += f",tree={nodes},topk={topk}"
        fields["tree_nodes"] = nodes
    elif steps >= nodes:
        drafter += f",steps={steps}"  # drafts that many, verifies fewer
    if not is_tree and fields["tau"] is not None:
        fields["alpha"] = solved_alpha(fields["tau"], gamma)
        fields["warnings"].append("alpha is the one that gives tau if acceptance is i.i.d.")
    key |= {"drafter": drafter, "gamma": settled("gamma", path, gamma, given.gamma)}
    return Imported(key, fields, notes=notes)


_SHAPE = ("steps", "topk", "num_draft_tokens")
_ROOT = "It counts the root, so a draft has at least 2"
