"""From raw rounds and requests to the numbers of a cell's line.

Everything here is derived, so a new metric works on old runs: the sweep calls :func:`summarize`
when a cell ends and again when its baselines exist, the analysis calls it on files. Columns are
those of specbench.records.tables, as a mapping of arrays or a data frame. What can't be known from
what is there is None.

The unit of time is the step, one target forward, shared by the rows of a batch and counted once. At
batch size > 1 speed and costs are taken over the steps with every slot full, since the last rows of
a batch run alone and would be charged for the empty slots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from specbench.records.conversations import conversations_of, few_prompts
from specbench.records.identities import identities
from specbench.records.schema import CellKey
from specbench.records.speedup import speedup_interval, within_noise
from specbench.records.steps import (
    Columns,
    Numbers,
    Steps,
    all_steps,
    counted_steps,
    integers,
    numbers,
    speedup_over,
)
from specbench.records.traffic import Cost, traffic_fields
from specbench.theory import estimators
from specbench.theory.clusters import cluster_sums
from specbench.theory.intervals import ratio_interval

__all__ = ["identities", "speedup_interval", "summarize"]


def summarize(
    cell: CellKey,
    rounds: Columns,
    requests: Columns,
    baselines: Sequence[tuple[Columns, Columns]] = (),
    cost: Cost | None = None,
    repeats: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The derived fields of a cell's record; see CellRecord for their meaning and units.

    Args:
        cell: the point of the sweep (or its record).
        rounds: its rounds.
        requests: its requests.
        baselines: (rounds, requests) of the block's baselines, the first and the last; empty while
            they are not measured, which leaves everything relative to them None.
        cost: what forwards move and compute, and the measured peaks.
        repeats: of each baseline, where those of several repeats are given; None: all of one.
    """
    warnings: list[str] = []
    steps = counted_steps(rounds, cell.batch_size)
    if len(steps) and not steps.all_full:
        warnings.append("no step had all slots full: speed is over all steps")
    fields = _acceptance(cell, rounds, requests, warnings)
    fields |= _times(cell, rounds, requests, steps, cost or {})
    fields |= traffic_fields(steps, all_steps(rounds), cost or {})
    fields |= _against_baselines(cell, rounds, requests, steps, baselines, repeats, warnings)
    return {**fields, "warnings": warnings}


def _acceptance(
    cell: CellKey, rounds: Columns, requests: Columns, warnings: list[str]
) -> dict[str, Any]:
    drafted, evaluated, accepted = (
        integers(rounds, name) for name in ("num_drafted", "num_evaluated", "num_accepted")
    )
    levels = integers(rounds, "draft_levels")
    conversations = conversations_of(requests)
    fields: dict[str, Any] = {
        "num_prompts": len(set(conversations.tolist())),
        "num_rounds": int(drafted.size),
        "num_drafted": int(drafted.sum()),
        "num_evaluated": int(evaluated.sum()),
        "num_accepted": int(accepted.sum()),
        "tau": estimators.tau(accepted),
    }
    warnings += few_prompts(fields["num_prompts"])
    if cell.is_baseline:
        return fields
    owners = integers(rounds, "request")
    _, (hits, trials) = cluster_sums(conversations, accepted, evaluated, owners=owners)
    interval = ratio_interval(hits, trials, seed=cell.seed)
    return fields | {
        "draft_length_mean": float(levels.mean()) if levels.size else None,
        "draft_length_counts": np.bincount(levels, minlength=cell.gamma + 1).tolist(),
        "tree_nodes": _tree_nodes(rounds),
        "alpha": estimators.alpha(accepted, evaluated),
        "alpha_ci": interval.ends if interval else None,
        "alpha_overlap": estimators.alpha_overlap(rounds.get("overlap", ())),
        "alpha_by_position": estimators.alpha_by_position(accepted, evaluated, cell.gamma),
        "survival_by_position": estimators.survival_by_position(accepted, cell.gamma) or None,
        "draft_acceptance_rate": estimators.draft_acceptance_rate(accepted, drafted),
    }


def _tree_nodes(rounds: Columns) -> int | None:
    """Nodes that a row's target forward verified, the root included; None where chains were."""
    verified = integers(rounds, "num_verified")
    is_tree = any(path is not None for path in rounds.get("path", ()))
    return int(verified.max()) if is_tree else None


def _times(
    cell: CellKey, rounds: Columns, requests: Columns, steps: Steps, cost: Cost
) -> dict[str, Any]:
    prefill = _total(requests, "prefill_s", "drafter_prefill_s")
    decode = float(all_steps(rounds).seconds.sum())
    row_decode = float(np.nansum(numbers(requests, "decode_s")))
    tokens = int(integers(requests, "num_tokens").sum())
    from_rounds = int(integers(rounds, "num_emitted").sum())
    return {
        "wall_s": _wall(cell.batch_size, rounds, requests),
        "prefill_s": prefill,
        "decode_s": decode,
        "ttft_s": _mean(numbers(requests, "ttft_s")),
        "itl_s": row_decode / from_rounds if from_rounds else None,
        "tokens": tokens,
        "tok_per_s": steps.tokens_per_s,
        "draft_s": _mean(steps.draft_s),
        "verify_s": _mean(steps.verify_s),
        "other_s": _mean(steps.other_s),
        "sampling_s": _mean(steps.sampling_s),
        "timing_share": _timing_share(steps, cost),
    }


def _against_baselines(
    cell: CellKey,
    rounds: Columns,
    requests: Columns,
    steps: Steps,
    baselines: Sequence[tuple[Columns, Columns]],
    repeats: Sequence[int] | None,
    warnings: list[str],
) -> dict[str, Any]:
    plain = [counted_steps(base, cell.batch_size) for base, _ in baselines]
    plain_seconds = sum(float(base.seconds.sum()) for base in plain)
    num_steps = sum(len(base) for base in plain)
    if not num_steps or not plain_seconds or not len(steps):
        return {}
    step_s = plain_seconds / num_steps  # T1
    noise = _noise_floor(plain, repeats or [0] * len(plain))
    whole = steps.drafted > 0 if cell.draft_form == "adaptive" else steps.drafted == cell.gamma
    fields: dict[str, Any] = {
        "v": _divided(_mean(steps.verify_s[whole]), step_s),
        "overhead": _divided(_mean(steps.other_s), step_s),
        "noise_floor": noise,
    }
    if cell.is_baseline:
        return fields
    drafts = steps.drafted > 0
    drafter_steps = float(steps.drafted.sum())
    if drafter_steps:
        fields["c"] = float(steps.draft_s[drafts].sum()) / drafter_steps / step_s
    if speedup := speedup_over(steps, plain):
        fields["speedup"] = speedup
        if within_noise(speedup, noise):
            warnings.append(f"speedup within the noise floor ({noise:.1%} between baselines)")
    if steps.all_full and not all(base.all_full for base in plain):
        warnings.append("no step of a baseline had all slots full: its speed is over all steps")
    interval = speedup_interval(cell.batch_size, (rounds, requests), baselines, seed=cell.seed)
    fields["speedup_ci"] = interval.ends if interval else None
    fields["end_to_end_speedup"] = _end_to_end(cell.batch_size, (rounds, requests), baselines)
    return fields


def _noise_floor(plain: Sequence[Steps], repeats: Sequence[int]) -> float | None:
    """How much faster the faster of a repeat's two baselines was, 0.02 for 2%.

    Over several repeats the root mean square of its log, which does not grow with their number.
    """
    speeds: dict[int, list[float]] = {}
    for base, repeat in zip(plain, repeats, strict=True):
        if speed := base.tokens_per_s:
            speeds.setdefault(repeat, []).append(speed)
    logs = [math.log(max(pair) / min(pair)) for pair in speeds.values() if len(pair) > 1]
    return math.expm1(math.hypot(*logs) / math.sqrt(len(logs))) if logs else None


def _end_to_end(
    batch_size: int,
    cell: tuple[Columns, Columns],
    baselines: Sequence[tuple[Columns, Columns]],
) -> float | None:
    """Speedup with prefill counted, the drafter's too: wall seconds per token, plain over cell."""

    def per_token(pairs: Sequence[tuple[Columns, Columns]]) -> float | None:
        walls = [_wall(batch_size, rounds, requests) for rounds, requests in pairs]
        tokens = sum(int(integers(requests, "num_tokens").sum()) for _, requests in pairs)
        known = [wall for wall in walls if wall is not None]
        return sum(known) / tokens if tokens and len(known) == len(walls) else None

    plain, own = per_token(baselines), per_token([cell])
    return plain / own if plain and own else None


def _wall(batch_size: int, rounds: Columns, requests: Columns) -> float | None:
    """Seconds of the whole cell: measured at batch 1, prefills + steps where requests overlap."""
    if batch_size == 1:
        return _total(requests, "wall_s")
    prefill = _total(requests, "prefill_s", "drafter_prefill_s")
    return None if prefill is None else prefill + float(all_steps(rounds).seconds.sum())


def _total(columns: Columns, *names: str) -> float | None:
    """Sum over rows of the first column plus what is known of the others; None if it is unknown."""
    needed = numbers(columns, names[0])
    if not needed.size or np.isnan(needed).any():
        return None
    return float(needed.sum() + sum(np.nansum(numbers(columns, name)) for name in names[1:]))


def _timing_share(steps: Steps, cost: Cost) -> float | None:
    """What the marks of a step take of it."""
    marks_s, step_s = cost.get("timing_s_per_step"), _mean(steps.seconds)
    return marks_s / step_s if marks_s is not None and step_s else None


def _mean(values: Numbers) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else None


def _divided(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit
