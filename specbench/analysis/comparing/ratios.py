"""Intervals of ratios B / A between two runs.

Where both runs have their rounds, of the same conversations, ratios are paired by conversation, so
what makes a prompt easy drops out; speed at batch sizes above 1 is over time. Intervals of speeds
hold what cells of a run differ by, as its baselines tell it. The ratio of speedups is put together
from both runs' own intervals, as if they had been independent, which is the wider way where prompts
are the same.

Source of that: Zou and Donner 2008, "Construction of confidence limits about effect measures: a
general approach", on the log scale.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from specbench.analysis.comparing.cells import Side
from specbench.analysis.pooling import Raw
from specbench.records.conversations import Column, by_conversation, column, ones, paired
from specbench.records.speedup import counted_tokens
from specbench.records.steps import Numbers, counted_steps, numbers, row_seconds
from specbench.theory.clusters import MIN_TIME_BLOCKS, time_blocks
from specbench.theory.intervals import paired_ratio_of_ratios, product_of_ratios

Metric = Literal["tok_per_s", "speedup", "alpha", "tau", "draft_acceptance_rate"]
METRICS: tuple[Metric, ...] = ("tok_per_s", "speedup", "alpha", "tau", "draft_acceptance_rate")
"""The last one also of drafts whose lengths vary on a server, which tells no alpha of them."""

ACCEPTANCE: tuple[Metric, ...] = ("alpha", "tau", "draft_acceptance_rate")
"""What does not depend on the machine."""

Ends = tuple[float, float]


def ratio_ends(metric: Metric, a: Side, b: Side) -> Ends | None:
    """The 95% interval of B / A; None where there is too little for one."""
    ends = _sampled(metric, a, b)
    told = [side.moves[metric] for side in (a, b) if metric in side.moves]
    if ends is None or not told or not a.fields[metric]:
        return ends
    cells = told[0] if len(told) == 1 else told[0].plus(told[1])
    prompts = min(int(side.fields["num_prompts"]) for side in (a, b))
    return cells.widened(b.fields[metric] / a.fields[metric], ends, prompts, 1.0)


def _sampled(metric: Metric, a: Side, b: Side) -> Ends | None:
    """The same by conversations and time blocks alone."""
    if metric == "speedup" or a.raw is None or b.raw is None:
        ends = _independent(a.fields, b.fields, metric)
        return _beside_counts(metric, a, b) if ends is None and metric in ACCEPTANCE else ends
    if metric == "tok_per_s" and a.batch_size > 1:
        return _over_time(a.batch_size, a.raw, b.raw)
    left, right = _by_conversation(a.raw, metric), _by_conversation(b.raw, metric)
    if left.keys() == right.keys():
        interval = paired_ratio_of_ratios(*paired(right, left).T)
    else:
        (top, bottom), (base_top, base_bottom) = (
            np.array(list(sums.values())).reshape(-1, 2).T for sums in (right, left)
        )
        interval = product_of_ratios([(top, bottom), (base_bottom, base_top)])
    return interval.ends if interval else None


def _beside_counts(metric: Metric, a: Side, b: Side) -> Ends | None:
    """Of rounds on one side, and on the other what a server counted on the same prompts: whose
    prompts could have been others is told by the rounds alone."""
    raw, counted = (a.raw, b.fields.get(metric)) if b.raw is None else (b.raw, a.fields.get(metric))
    if raw is None or not counted:
        return None
    top, bottom = np.array(list(_by_conversation(raw, metric).values())).reshape(-1, 2).T
    interval = product_of_ratios([(top, bottom)])
    if interval is None or interval.low <= 0.0:
        return None
    if b.raw is None:
        return counted / interval.high, counted / interval.low
    return interval.low / counted, interval.high / counted


def _over_time(batch_size: int, a: Raw, b: Raw) -> Ends | None:
    """Speed of a batch: tokens per row and round vary between conversations, steps over time."""
    own, base = _speed_parts(batch_size, b), _speed_parts(batch_size, a)
    if min(own.steps.size, base.steps.size) < MIN_TIME_BLOCKS:
        return None
    interval = product_of_ratios(
        [
            (own.tokens, own.rows),
            (own.steps, own.seconds),
            (base.rows, base.tokens),
            (base.seconds, base.steps),
        ]
    )
    if interval is None:
        return None
    rows = own.rows_per_step / base.rows_per_step  # known, and 1 where all slots were full
    return rows * interval.low, rows * interval.high


class _SpeedParts(NamedTuple):
    """tokens, rows: by conversation; steps, seconds: by time block; of the counted steps."""

    tokens: Numbers
    rows: Numbers
    steps: Numbers
    seconds: Numbers
    rows_per_step: float


def _speed_parts(batch_size: int, raw: Raw) -> _SpeedParts:
    steps = counted_steps(raw[0], batch_size)
    tokens, rows = counted_tokens(raw, steps)
    seconds, count = time_blocks(steps.seconds, np.ones(len(steps)))
    return _SpeedParts(tokens, rows, count, seconds, float(steps.active_rows.mean()))


def _independent(a: Mapping[str, Any], b: Mapping[str, Any], metric: Metric) -> Ends | None:
    """Zou and Donner's limits of a ratio, from the limits of its two parts."""
    ends_a, ends_b = a.get(f"{metric}_ci"), b.get(f"{metric}_ci")
    if ends_a is None or ends_b is None or min(*ends_a, *ends_b) <= 0.0:
        return None
    middle_a, middle_b = math.log(a[metric]), math.log(b[metric])
    (low_a, high_a), (low_b, high_b) = (
        [math.log(end) for end in ends] for ends in (ends_a, ends_b)
    )
    middle = middle_b - middle_a
    below = math.hypot(middle_b - low_b, high_a - middle_a)
    above = math.hypot(high_b - middle_b, middle_a - low_a)
    return math.exp(middle - below), math.exp(middle + above)


def _by_conversation(raw: Raw, metric: Metric) -> dict[str, Numbers]:
    """Conversation -> the two sums whose ratio the metric is, at batch size 1 for speed."""
    accepted = column("num_accepted")
    columns: dict[Metric, tuple[Column, Column]] = {
        "tau": (lambda rounds: numbers(rounds, "num_accepted") + 1.0, ones),
        "alpha": (accepted, column("num_evaluated")),
        "draft_acceptance_rate": (accepted, column("num_drafted")),
        "tok_per_s": (column("num_emitted"), row_seconds),
    }
    return by_conversation([raw], *columns[metric])
