"""Equalities that any honest set of numbers obeys, checked on every run, one's own or imported.

A violation is a sentence that names the identity and both sides. None is an opinion about the
model: each one broken means that a counter or a clock is wrong, or the text is not real text.
Here they are checked on raw tables; specbench.records.summary_identities checks what needs no more
than a record's own fields.

>>> identities(cell, rounds, requests)                                         # doctest: +SKIP
['tokens: request 3 emitted 1 + 62 tokens in prefill and rounds, its output has 64']
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specbench.records.schema import CellKey, CellRecord
from specbench.records.steps import (
    Columns,
    Numbers,
    counted_steps,
    integers,
    numbers,
    row_seconds,
    values,
)
from specbench.records.summary_identities import drafts_itself, never_rises, suspicious
from specbench.theory import estimators

CLOCK_SHARE = 0.01
"""Two ways to add up the same seconds may differ by this share,"""

CLOCK_S = 1e-3
"""and by this much at least: many small roundings of a clock."""

_SHOWN = 3


def identities(cell: CellKey, rounds: Columns, requests: Columns) -> list[str]:
    """The violated ones of the six identities of any honest run.

    1. tau <= gamma + 1, and in each round accepted <= evaluated <= drafted; a tree is evaluated
       level by level, so evaluated <= levels <= gamma;
    2. accepted + 1 - cut = emitted in each round, where only a request's last round is cut, and
       1 + sum of emitted = tokens in the output, prefill giving the first one;
    3. the record's time per output token is that of its rounds, time per step / tokens per round
       (at batch size > 1 no less: a row may wait while other slots are filled);
    4. the record's survival does not rise with position, and no position is accepted always,
       unless the drafter's tokens are the target's own;
    5. the record's throughput is at most batch size / time per output token;
    6. the rounds of a request add up to its decode time (at batch size > 1 to no more: it may wait
       while other slots are filled), and time to first token + decode = wall time.

    Args:
        cell: the point of the sweep, or its record, whose own numbers are then checked too.
        rounds: columns of specbench.records.tables.ROUNDS.
        requests: columns of specbench.records.tables.REQUESTS.

    Returns:
        one sentence per violation, both sides named; empty if all hold.
    """
    return [
        *_block_efficiency(cell, rounds),
        *_tokens(cell, rounds, requests),
        *_step_times(cell, rounds),
        *_positions(cell, rounds),
        *_throughput(cell, rounds),
        *_times(cell, rounds, requests),
    ]


def _block_efficiency(cell: CellKey, rounds: Columns) -> list[str]:
    accepted, evaluated, levels, drafted = (
        integers(rounds, name)
        for name in ("num_accepted", "num_evaluated", "draft_levels", "num_drafted")
    )
    found = []
    tau = estimators.tau(accepted)
    if tau is not None and tau > cell.gamma + 1:
        found.append(f"block efficiency: tau {tau:.4g} is above gamma + 1 = {cell.gamma + 1}")
    gamma = np.full(accepted.size, cell.gamma)
    for small, smaller, large, larger in (
        ("accepted", accepted, "gamma", gamma),
        ("accepted", accepted, "evaluated", evaluated),
        ("evaluated", evaluated, "drafted", drafted),
        ("evaluated", evaluated, "draft levels", levels),
        ("draft levels", levels, "gamma", gamma),
    ):
        for row in np.flatnonzero(smaller > larger)[:_SHOWN]:
            found.append(
                f"block efficiency: round row {row} has {smaller[row]} {small}"
                f" but {large} {larger[row]}"
            )
    return found


def _tokens(cell: CellKey, rounds: Columns, requests: Columns) -> list[str]:
    emitted, committed = integers(rounds, "num_emitted"), integers(rounds, "num_accepted") + 1
    owner = integers(rounds, "request")
    found = []
    uncut = emitted != committed
    uncut[_last_rows(rounds)] = False
    wrong = uncut | (emitted > committed) | (emitted < 1)
    for row in np.flatnonzero(wrong)[:_SHOWN]:
        found.append(
            f"tokens: round row {row} of request {owner[row]} emitted {emitted[row]},"
            f" accepted + 1 is {committed[row]}"
        )
    outputs = np.array([len(ids) for ids in values(requests, "output_ids")], dtype=np.int64)
    counted = integers(requests, "num_tokens")
    sums = np.bincount(owner, weights=emitted, minlength=outputs.size).astype(np.int64)
    for request in np.flatnonzero(1 + sums[: outputs.size] != outputs)[:_SHOWN]:
        found.append(
            f"tokens: request {request} emitted 1 + {sums[request]} tokens in prefill and rounds,"
            f" its output has {outputs[request]}"
        )
    for request in np.flatnonzero(counted != outputs)[:_SHOWN]:
        found.append(
            f"tokens: request {request} counts {counted[request]} tokens,"
            f" its output has {outputs[request]}"
        )
    if sums.size > outputs.size:
        found.append(f"tokens: rounds name request {sums.size - 1}, there are {outputs.size}")
    return found


def _step_times(cell: CellKey, rounds: Columns) -> list[str]:
    stated = cell.itl_s if isinstance(cell, CellRecord) else None
    emitted = int(integers(rounds, "num_emitted").sum())
    if stated is None or not emitted:
        return []
    count = integers(rounds, "round").size
    step_s = float(row_seconds(rounds).sum()) / count
    found = step_s / (emitted / count)
    slower_is_honest = cell.batch_size > 1 and stated > found
    if slower_is_honest or abs(stated - found) <= CLOCK_S + CLOCK_SHARE * found:
        return []
    return [
        f"step times: time per output token is {stated:.4g} s, time per step / tokens per round "
        f"{step_s:.4g} s / {emitted / count:.4g} = {found:.4g} s"
    ]


def _positions(cell: CellKey, rounds: Columns) -> list[str]:
    if cell.is_baseline:
        return []
    found = []
    if isinstance(cell, CellRecord) and cell.survival_by_position:
        found += never_rises(cell.survival_by_position)
    if drafts_itself(cell):
        return found
    accepted, evaluated = integers(rounds, "num_accepted"), integers(rounds, "num_evaluated")
    for position in range(1, int(evaluated.max(initial=0)) + 1):
        hits = (accepted >= position)[evaluated >= position]
        found += suspicious(position, int(hits.sum()), hits.size)
    return found


def _throughput(cell: CellKey, rounds: Columns) -> list[str]:
    stated = cell.tok_per_s if isinstance(cell, CellRecord) else None
    steps = counted_steps(rounds, cell.batch_size)
    emitted = float(steps.emitted.sum())
    if stated is None or not emitted:
        return []
    per_token_s = float((steps.seconds * steps.active_rows).sum()) / emitted
    bound = cell.batch_size / per_token_s
    if stated <= (1.0 + CLOCK_SHARE) * bound:
        return []
    return [
        f"throughput: {stated:.4g} tokens/s is above batch size / time per output token = "
        f"{cell.batch_size} / {per_token_s:.4g} s = {bound:.4g}"
    ]


def _times(cell: CellKey, rounds: Columns, requests: Columns) -> list[str]:
    seconds = row_seconds(rounds)
    decode, wall, first = (numbers(requests, f"{part}_s") for part in ("decode", "wall", "ttft"))
    owner = integers(rounds, "request")
    sums = np.bincount(owner, weights=seconds, minlength=decode.size)[: decode.size].astype(
        np.float64
    )
    found = []
    if cell.batch_size == 1:
        found += _unequal("draft + verify + other over its rounds", sums, "decode time", decode)
    else:
        over = np.maximum(sums, decode)
        found += _unequal("draft + verify + other over its rounds", over, "decode time", decode)
    found += _unequal("time to first token + decode", first + decode, "wall time", wall)
    return found


def _unequal(left: str, one: Numbers, right: str, other: Numbers) -> list[str]:
    """Pairs that differ by more than a clock can; where one is missing there is nothing to say."""
    tolerance = CLOCK_S + CLOCK_SHARE * np.maximum(one, other)
    with np.errstate(invalid="ignore"):
        apart: NDArray[np.bool_] = np.abs(one - other) > tolerance
    return [
        f"times: request {row}: {left} is {one[row]:.6g} s, {right} {other[row]:.6g} s"
        for row in np.flatnonzero(apart)[:_SHOWN]
    ]


def _last_rows(rounds: Columns) -> NDArray[np.int64]:
    """The row of each request's last round."""
    owner, number = integers(rounds, "request"), integers(rounds, "round")
    order = np.lexsort((number, owner))
    ends = np.flatnonzero(np.diff(owner[order], append=-1) != 0)
    return order[ends]
