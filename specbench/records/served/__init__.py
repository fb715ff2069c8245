"""From the requests that a server answered to the numbers of a cell's line.

A server has no rounds to show. What is known is when chunks arrived, how many tokens they held, and
what the server's own counters rose by; everything else is None. A cell so measured goes the way of
imported ones (``CellRecord.imported_from`` is the kind of server), with its requests beside it.

- ``itl_s`` is the time per output token after the first chunk. ``step_s`` is the time per chunk,
  which is a step of the engine as long as chunks are rounds.
- Chunks are taken for rounds only where the counters agree: accepted + rounds, less what can have
  been cut at the ends of outputs, is the number of tokens. Then tau and survival are over all
  rounds; else over those that had a draft, as servers report them, and a warning says so.
- ``alpha`` only where every draft had gamma tokens: then position i was evaluated in every round
  that accepted the i - 1 before it, so alpha = accepted / (accepted + drafts - accepted at the last
  position). Its interval is by conversation, from the chunks.
- ``tok_per_s`` is throughput while as many requests as wanted were in flight, prompts and queues
  included. ``speedup`` is of time per output token, ``end_to_end_speedup`` of throughput.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specbench.records.conversations import few_prompts
from specbench.records.schema import CellKey
from specbench.records.served.acceptance import acceptance_fields, rounds_of
from specbench.records.served.chunks import Chunks, Served
from specbench.records.served.counts import Counts, of_requests
from specbench.records.served.speed import against_baselines, speed_fields
from specbench.records.steps import Columns, numbers, values

__all__ = ["Served", "summarize_served"]


def summarize_served(
    cell: CellKey,
    requests: Columns,
    server: Mapping[str, Any],
    baselines: Sequence[Served] = (),
) -> dict[str, Any]:
    """The derived fields of a served cell's record; see CellRecord for their meaning and units.

    Args:
        cell: the point of the sweep (or its record).
        requests: its requests.
        server: what its record keeps of the server: ``seconds`` of the window, ``counts``,
            ``cached_tokens``, ``goodput_limits_ms``.
        baselines: requests and server of the block's plain cells, the first and the last; empty
            while they are not measured, which leaves everything relative to them None.
    """
    warnings: list[str] = []
    chunks = Chunks.of(requests)
    conversations = values(requests, "conversation")
    fields: dict[str, Any] = {
        "num_prompts": len(set(conversations)),
        "num_requests": len(conversations),
        **speed_fields(cell, requests, chunks, server, warnings),
    }
    warnings += few_prompts(fields["num_prompts"])
    rounds = chunks.rounds if cell.is_baseline else None
    if not cell.is_baseline:
        counts = Counts(**server["counts"]).or_else(of_requests(_figures(requests)))
        rounds = rounds_of(cell, chunks, counts)
        fields |= acceptance_fields(cell, conversations, chunks, counts, rounds, warnings)
    if rounds:
        fields["step_s"] = float(chunks.decode_s.sum()) / rounds
    fields |= against_baselines(cell, (requests, chunks), baselines, fields["tok_per_s"])
    if cached := server.get("cached_tokens"):
        asked = int(np.nansum(numbers(requests, "prompt_tokens")))
        warnings.append(f"{cached} of {asked} prompt tokens came from the server's prefix cache")
    return {**fields, "warnings": warnings}


def _figures(requests: Columns) -> list[dict[str, Any] | None]:
    return [json.loads(told) if told else None for told in values(requests, "figures")]
