"""How fast a served cell was: latencies, throughput, and both over plain decoding's.

Requests in flight together share their times, so neither they nor their conversations are
independent: above one at a time the units of intervals are groups of requests that followed each
other, of ``batch_size`` at least, and there have to be 8 of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbench.records.conversations import add, conversations_of, paired
from specbench.records.schema import CellKey
from specbench.records.served.chunks import Chunks, Served, Streams
from specbench.records.served.goodput import goodput_fields
from specbench.records.steps import Columns, Numbers, integers, numbers, values
from specbench.theory.clusters import MIN_TIME_BLOCKS, time_blocks
from specbench.theory.intervals import Interval, paired_ratio_of_ratios, product_of_ratios

_PERCENTILES = (50, 90, 99)
_LATE = 0.1  # of the mean time between arrivals is worth saying


def speed_fields(
    cell: CellKey,
    requests: Columns,
    chunks: Chunks,
    server: Mapping[str, Any],
    warnings: list[str],
) -> dict[str, Any]:
    """Times and throughput of a cell alone.

    Args:
        server: ``seconds`` of the whole window, and ``goodput_limits_ms`` if there are any.
        warnings: to be added to.
    """
    seconds = server["seconds"]
    if cell.request_rate:
        late_s = float((numbers(requests, "sent_s") - numbers(requests, "due_s")).max())
        if late_s > _LATE / cell.request_rate:
            warnings.append(
                f"requests were sent up to {late_s:.2g} s late: too many for this client"
            )
    tokens = int(integers(requests, "num_tokens").sum())
    one_by_one = cell.batch_size == 1 and not cell.request_rate
    return {
        "wall_s": seconds,
        "decode_s": float(chunks.decode_s.sum()) if one_by_one else None,
        "ttft_s": float(numbers(requests, "ttft_s").mean()),
        "itl_s": chunks.itl_s,
        "tokens": tokens,
        "tok_per_s": _throughput(cell, requests, chunks, seconds, warnings),
        "requests_per_s": len(values(requests, "conversation")) / seconds,
        **goodput_fields(server.get("goodput_limits_ms"), requests, chunks, seconds),
        "percentiles": {
            name: _percentiles(numbers(requests, name)) for name in ("ttft_s", "wall_s")
        }
        | {"itl_s": _percentiles(chunks.decode_s / np.maximum(chunks.decode_tokens, 1.0))},
    }


def _throughput(
    cell: CellKey, requests: Columns, chunks: Chunks, seconds: float, warnings: list[str]
) -> float:
    """Output tokens per second; of a closed loop until the last request was sent, since the number
    of those in flight falls from then on."""
    tokens = int(integers(requests, "num_tokens").sum())
    if cell.request_rate or cell.batch_size == 1:
        return tokens / seconds
    full_s = float(numbers(requests, "sent_s").max())
    arrived = chunks.arrived_by(full_s)
    if not arrived or len(chunks.arrived_s) < 2 * cell.batch_size:
        warnings.append("speed is over the whole time: too few requests to keep all slots full")
        return tokens / seconds
    return arrived / full_s


def _percentiles(column: Numbers) -> dict[str, float]:
    return {f"p{share}": float(np.percentile(column, share)) for share in _PERCENTILES}


def against_baselines(
    cell: CellKey, own: Streams, baselines: Sequence[Served], tok_per_s: float
) -> dict[str, Any]:
    """Noise floor and speedups; nothing of what can't be told.

    Args:
        own: the cell's streams.
        baselines: plain cells.
        tok_per_s: the cell's throughput.
    """
    plain = [(requests, Chunks.of(requests)) for requests, _ in baselines]
    times = [time for _, chunks in plain if (time := chunks.itl_s)]
    fields: dict[str, Any] = {}
    if len(times) > 1:
        fields["noise_floor"] = max(times) / min(times) - 1.0
    seconds = sum(float(chunks.decode_s.sum()) for _, chunks in plain)
    tokens = sum(float(chunks.decode_tokens.sum()) for _, chunks in plain)
    if cell.is_baseline or not tokens or not own[1].itl_s:
        return fields
    fields["speedup"] = seconds / tokens / own[1].itl_s
    interval = _speedup_interval(cell, own, plain)
    fields["speedup_ci"] = interval.ends if interval else None
    speeds = [
        _throughput(cell, *streams, server["seconds"], [])
        for streams, (_, server) in zip(plain, baselines, strict=True)
    ]
    fields["end_to_end_speedup"] = tok_per_s * len(speeds) / sum(speeds)
    return fields


def _speedup_interval(cell: CellKey, own: Streams, plain: Sequence[Streams]) -> Interval | None:
    """One at a time paired by conversation, else by groups of requests."""
    if cell.batch_size == 1 and not cell.request_rate:
        return _paired(own, plain, cell.seed)
    sides = []
    for part in ([own], plain):
        groups = [_groups(*one, width=cell.batch_size) for one in part]
        seconds, tokens = (np.concatenate(column) for column in zip(*groups, strict=True))
        if seconds.size < MIN_TIME_BLOCKS:
            return None
        sides.append((seconds, tokens))
    (own_s, own_tokens), (plain_s, plain_tokens) = sides
    return product_of_ratios([(own_tokens, own_s), (plain_s, plain_tokens)])


def _groups(requests: Columns, chunks: Chunks, width: int) -> tuple[Numbers, Numbers]:
    """Decode seconds and tokens of consecutive requests together: [groups]."""
    order: NDArray[np.intp] = np.argsort(numbers(requests, "sent_s"), kind="stable")
    blocks = min(MIN_TIME_BLOCKS, order.size // width)
    if not blocks:
        return np.array([]), np.array([])
    seconds, tokens = time_blocks(
        chunks.decode_s[order], chunks.decode_tokens[order], blocks=blocks
    )
    return seconds, tokens


def _paired(own: Streams, plain: Sequence[Streams], seed: int) -> Interval | None:
    plain_s, plain_tokens, own_s, own_tokens = paired(_sums(plain), _sums([own])).T
    return paired_ratio_of_ratios(plain_s, plain_tokens, own_s, own_tokens, seed=seed)


def _sums(sides: Sequence[Streams]) -> dict[str, Numbers]:
    """Conversation -> decode seconds and tokens."""
    sums: dict[str, Numbers] = {}
    for requests, chunks in sides:
        add(sums, conversations_of(requests), chunks.decode_s, chunks.decode_tokens)
    return sums
