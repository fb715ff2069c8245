"""Bytes and operations of a cell's steps, from what was recorded of its models and rounds.

Over all steps at once, what :mod:`specbench.theory.traffic` says that a forward must move: the
weights of a target forward once, those of a drafter's once per draft step, keys and values of every
row by its own length. What is not recorded gives no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from specbench.records.steps import Numbers, Steps
from specbench.theory.traffic import OPERATIONS_PER_WEIGHT, Experts

Cost = Mapping[str, float | None]
"""What a backend and the sweep record of a cell, in bytes if nothing else is said; what is unknown
is None or left out.

weight_bytes, of which expert_bytes are in num_experts experts a layer, active_experts of them for
each token; lookup_bytes of the embedding, per token; kv_bytes_per_token, read by a row for each
cached token, and kv_written_bytes_per_token; multiplied_weights by each token;
attention_flops_per_pair of tokens that see each other.

drafter_weight_bytes per draft step (0 for a drafter without weights), drafter_one_step (true if a
step drafts all tokens), drafter_kv_bytes_per_token of a cache of its own, and
drafter_kv_read_bytes_per_token of whatever cache it reads.

Of an encoder-decoder source_tokens, the mean of the prompts', and what each of them is in the
caches that decoding reads: source_kv_bytes_per_token, drafter_source_kv_bytes_per_token.

peak_bandwidth_bytes_per_s of a copy, peak_read_bytes_per_s, peak_flops_per_s;
timing_s_per_step that the marks of a step take."""

DISAGREEMENT = 0.15
"""From this share on, the model and the counter of bytes are said to disagree."""


def traffic_fields(counted: Steps, every: Steps, cost: Cost) -> dict[str, Any]:
    """Rates and utilisations over the counted steps; what moved in all of them.

    Utilisations are of the whole step, whatever of it the models did not run in.
    """
    seconds, emitted = float(counted.seconds.sum()), float(counted.emitted.sum())
    parts = _parts(counted, cost)
    if parts is None or not seconds:
        return {}
    moved = float(sum(part.sum() for part in parts.values()))
    rate, forwards = moved / seconds, len(counted)
    whole = _parts(every, cost) or {}
    fields = {
        "bandwidth_bytes_per_s": rate,
        "bandwidth_utilization": _share(rate, cost.get("peak_bandwidth_bytes_per_s")),
        "read_bandwidth_utilization": _share(rate, cost.get("peak_read_bytes_per_s")),
        "bytes_per_target_forward": moved / forwards,
        "bytes_per_emitted_token": moved / emitted if emitted else None,
        "traffic": {
            **{f"{name}_bytes": float(part.sum()) / forwards for name, part in parts.items()},
            "total_bytes": float(sum(part.sum() for part in whole.values())),
        },
    }
    operations = _operations(counted, cost)
    if operations is not None:
        fields["flops_per_target_forward"] = operations / forwards
        fields["compute_utilization"] = _share(operations / seconds, cost.get("peak_flops_per_s"))
    return fields


def disagreement(traffic_bytes_per_s: float, counted_bytes_per_s: float) -> str | None:
    """A sentence with both figures where model and counter are too far apart."""
    apart = counted_bytes_per_s / traffic_bytes_per_s - 1.0
    if abs(apart) <= DISAGREEMENT:
        return None
    return (
        f"bytes disagree: {traffic_bytes_per_s / 1e9:,.1f} GB/s must move, "
        f"the GPU's counter saw {counted_bytes_per_s / 1e9:,.1f} ({apart:+.0%})"
    )


def _parts(steps: Steps, cost: Cost) -> dict[str, Numbers] | None:
    """Bytes of each step by what they are; None where something is not known."""
    weights, kv = cost.get("weight_bytes"), cost.get("kv_bytes_per_token")
    drafter = cost.get("drafter_weight_bytes")
    drafts = (steps.drafted > 0).astype(float) if cost.get("drafter_one_step") else steps.drafted
    if weights is None or kv is None or (drafter is None and drafts.any()):
        return None
    experts = Experts(
        cost.get("expert_bytes") or 0.0,
        int(cost.get("num_experts") or 0),
        int(cost.get("active_experts") or 0),
    )
    every = weights - experts.num_bytes  # what each forward reads
    lookups = (cost.get("lookup_bytes") or 0.0) * steps.verified
    rows, written = steps.active_rows, cost.get("kv_written_bytes_per_token")
    sources = rows * (cost.get("source_tokens") or 0.0)
    drafter_sources = drafts * sources * (cost.get("drafter_source_kv_bytes_per_token") or 0.0)
    return {
        "weights": every + experts.read(steps.verified) + lookups,
        "kv_read": kv * (steps.context - rows)  # the last committed token is not cached yet
        + (cost.get("source_kv_bytes_per_token") or 0.0) * sources,
        # older records count the last committed token only, not the drafted ones behind it
        "kv_written": kv * rows if written is None else written * steps.verified,
        "drafter": (drafter or 0.0) * drafts
        + _drafter_kv(cost) * _drafter_pairs(steps, drafts)
        + drafter_sources,
    }


def _drafter_kv(cost: Cost) -> float:
    read = cost.get("drafter_kv_read_bytes_per_token")
    return (cost.get("drafter_kv_bytes_per_token") if read is None else read) or 0.0


def _drafter_pairs(steps: Steps, drafts: Numbers) -> Numbers:
    """Cached tokens that draft steps read, and their own that they write: the j-th of a draft
    reads what is cached and the j - 1 before it."""
    return np.asarray(drafts * steps.context + steps.active_rows * drafts * (drafts - 1) / 2)


def _operations(steps: Steps, cost: Cost) -> float | None:
    """Of the target's forwards."""
    multiplied, per_pair = cost.get("multiplied_weights"), cost.get("attention_flops_per_pair")
    if multiplied is None or per_pair is None:
        return None
    rows, width = steps.active_rows, steps.verified / steps.active_rows
    seen = steps.context - rows + rows * (cost.get("source_tokens") or 0.0)
    pairs = width * seen + rows * width * (width + 1) / 2
    operations = OPERATIONS_PER_WEIGHT * multiplied * steps.verified + per_pair * pairs
    return float(operations.sum())


def _share(rate: float, peak: float | None) -> float | None:
    return rate / peak if peak else None
