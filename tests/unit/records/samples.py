"""Small cells with tables that are right by construction, and two that are computed by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specbench.records.schema import Cell, CellRecord, Manifest
from specbench.records.store import RunWriter

Columns = dict[str, list[Any]]


def cell(**changes: Any) -> Cell:
    fields = {"target": "m", "drafter": "ngram", "gamma": 2, "temperature": 0.0, "batch_size": 1}
    return Cell(**{**fields, "task": "chat", **changes})


def manifest(**changes: Any) -> Manifest:
    return Manifest(**{"name": "x", "config_hash": "h", "config": {"gammas": [1, 2]}, **changes})


def rounds_table(rows: list[dict[str, Any]]) -> Columns:
    """Rounds from the columns that matter; the rest is filled in."""
    full = []
    counts: dict[int, int] = {}
    for row in rows:
        request = row["request"]
        number = counts.get(request, 0)
        counts[request] = number + 1
        full.append(
            {
                "prompt_id": f"p{request}",
                "slot": 0,
                "step": len(full),
                "round": number,
                "position": 1,
                "context_length": 10,
                "num_verified": row["num_drafted"] + 1,
                "draft_levels": row["num_drafted"],
                "num_evaluated": min(row["num_accepted"] + 1, row["num_drafted"]),
                "num_emitted": row["num_accepted"] + 1,
                "overlap": None,
                "path": None,
                "active_rows": 1,
                "replayed": False,
                **row,
            }
        )
    return {name: [row[name] for row in full] for name in full[0]}


def requests_table(rows: list[dict[str, Any]]) -> Columns:
    """Requests from the columns that matter; the rest is filled in."""
    full = [
        {
            "prompt_id": f"p{index}",
            "conversation": f"c{index}",
            "task": "chat",
            "category": "writing",
            "turn": 0,
            "source": "offline",
            "prompt_tokens": 9,
            "output_ids": list(range(row["num_tokens"])),
            "stop_reason": "length",
            "prefill_s": 0.5,
            "drafter_prefill_s": None,
            "ttft_s": 0.5,
            "wall_s": 0.5 + row["decode_s"],
            **row,
        }
        for index, row in enumerate(rows)
    ]
    return {name: [row[name] for row in full] for name in full[0]}


def single() -> tuple[Columns, Columns]:
    """Batch 1, gamma 2, two prompts: 3 rounds and 2 rounds, the last one cut from 3 tokens to 1."""
    seconds = {"draft_s": 0.2, "verify_s": 1.2, "other_s": 0.1}
    rounds = rounds_table(
        [
            {"request": 0, "num_drafted": 2, "num_accepted": 2, "context_length": 10, **seconds},
            {"request": 0, "num_drafted": 2, "num_accepted": 0, "context_length": 13, **seconds},
            {
                **{"request": 0, "num_drafted": 0, "num_accepted": 0, "context_length": 14},
                **{"draft_s": 0.1, "verify_s": 0.9, "other_s": 0.1},
            },
            {"request": 1, "num_drafted": 2, "num_accepted": 1, "context_length": 20, **seconds},
            {
                **{"request": 1, "num_drafted": 2, "num_accepted": 2, "context_length": 22},
                **{"num_emitted": 1, **seconds},
            },
        ]
    )
    rounds["overlap"] = [[0.9, 0.7], [0.2], [], [0.8, 0.4], None]
    requests = requests_table(
        [
            {"num_tokens": 6, "decode_s": 4.1, "drafter_prefill_s": 0.25, "ttft_s": 0.75}
            | {"wall_s": 4.85},
            {"num_tokens": 4, "decode_s": 3.0, "drafter_prefill_s": 0.25, "ttft_s": 0.75}
            | {"wall_s": 3.75},
        ]
    )
    return rounds, requests


def single_baseline(step_s: float = 1.0) -> tuple[Columns, Columns]:
    """The same two prompts, one token a step: 8 steps of `step_s`, a tenth of it outside verify."""
    step = {"num_drafted": 0, "num_accepted": 0, "num_evaluated": 0, "draft_s": 0.0}
    step |= {"verify_s": 0.9 * step_s, "other_s": 0.1 * step_s}
    rounds = rounds_table([{"request": request, **step} for request in (0, 0, 0, 0, 0, 1, 1, 1)])
    requests = requests_table(
        [
            {"num_tokens": 6, "decode_s": 5 * step_s},
            {"num_tokens": 4, "decode_s": 3 * step_s},
        ]
    )
    return rounds, requests


def batch() -> tuple[Columns, Columns]:
    """Batch 2, gamma 2: two full steps of 2 s, then one of 1.5 s with a row alone."""
    full = {"draft_s": 0.4, "verify_s": 1.4, "other_s": 0.2, "active_rows": 2}
    alone = {"draft_s": 0.4, "verify_s": 1.0, "other_s": 0.1, "active_rows": 1}
    rounds = rounds_table(
        [
            {"request": 0, "slot": 0, "step": 0, "num_drafted": 2, "num_accepted": 1, **full}
            | {"context_length": 10},
            {"request": 1, "slot": 1, "step": 0, "num_drafted": 1, "num_accepted": 1, **full}
            | {"context_length": 30},
            {"request": 0, "slot": 0, "step": 1, "num_drafted": 0, "num_accepted": 0, **full}
            | {"context_length": 12},
            {"request": 1, "slot": 1, "step": 1, "num_drafted": 1, "num_accepted": 0, **full}
            | {"context_length": 32},
            {"request": 1, "slot": 1, "step": 2, "num_drafted": 2, "num_accepted": 2, **alone}
            | {"context_length": 33},
        ]
    )
    requests = requests_table(
        [{"num_tokens": 4, "decode_s": 4.0}, {"num_tokens": 7, "decode_s": 5.5}]
    )
    return rounds, requests


def batch_baseline() -> tuple[Columns, Columns]:
    """The same at one token a step: 3 full steps of 1 s, 3 of 0.9 s with a row alone."""
    rows = []
    for step in range(6):
        for request in (0, 1) if step < 3 else (1,):
            rows.append(
                {"request": request, "slot": request, "step": step, "num_drafted": 0}
                | {"num_accepted": 0, "num_evaluated": 0, "draft_s": 0.0, "other_s": 0.1}
                | {"verify_s": 0.9 if step < 3 else 0.8, "active_rows": 2 if step < 3 else 1}
            )
    requests = requests_table(
        [{"num_tokens": 4, "decode_s": 3.0}, {"num_tokens": 7, "decode_s": 5.7}]
    )
    return rounds_table(rows), requests


def tree() -> tuple[Columns, Columns]:
    """Batch 1, trees of 7 drafted nodes on 3 levels: 4 rounds of 2 s, 10 tokens in them.

    The third round ends at a leaf of the second level, so nothing was tried on the third.
    """
    shared = {"num_drafted": 7, "draft_levels": 3, "draft_s": 0.3, "verify_s": 1.5, "other_s": 0.2}
    rounds = rounds_table(
        [
            {"request": request, "num_accepted": len(path), "num_evaluated": tried, "path": path}
            | shared
            for request, path, tried in (
                (0, [1, 3, 6], 3),
                (0, [2], 2),
                (1, [1, 4], 2),
                (1, [], 1),
            )
        ]
    )
    requests = requests_table(
        [{"num_tokens": 7, "decode_s": 4.0}, {"num_tokens": 5, "decode_s": 4.0}]
    )
    return rounds, requests


def adaptive() -> tuple[Columns, Columns]:
    """Batch 1, drafts of at most 4 tokens: 4, 1, 2 and 1; the draft costs 0.1 s a token."""
    rounds = rounds_table(
        [
            {"request": request, "num_drafted": drafted, "num_accepted": accepted}
            | {"draft_s": 0.1 * drafted, "verify_s": 1.2, "other_s": 0.1}
            for request, drafted, accepted in ((0, 4, 4), (0, 1, 0), (1, 2, 1), (1, 1, 1))
        ]
    )
    requests = requests_table(
        [{"num_tokens": 7, "decode_s": 3.1}, {"num_tokens": 5, "decode_s": 2.9}]
    )
    return rounds, requests


def record(point: Cell, **fields: Any) -> CellRecord:
    return CellRecord.of(point, **{"alpha": 0.5, **fields})


def write_two(folder: Path) -> tuple[str, str]:
    """Write a run of one finished cell and one that ended for want of memory; their ids."""
    one, two = cell(), cell(gamma=3)
    with RunWriter.open(folder, manifest()) as writer:
        writer.write_cell(record(one), *single())
        writer.write_cell(record(two, status="out_of_memory", error="3 GB wanted"))
    return one.cell_id, two.cell_id
