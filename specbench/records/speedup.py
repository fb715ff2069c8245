"""How sure a speedup is, from the rounds of a cell and of its baselines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specbench.records.steps import (
    Columns,
    Numbers,
    Steps,
    counted_steps,
    integers,
    numbers,
    values,
)
from specbench.theory.clusters import MIN_TIME_BLOCKS, cluster_sums, time_blocks
from specbench.theory.intervals import Interval, paired_ratio_of_ratios, product_of_ratios

_FASTER = 1.1  # rounds by this much than plain steps: some products of a CPU like their width

Tables = tuple[Columns, Columns]
"""The rounds and the requests of one cell."""


def is_above_tau(speedup: float | None, tau: float | None) -> bool:
    """Whether rounds were so much faster than plain steps as no drafter makes them.

    A round commits tau tokens and holds a forward of the target at least, so speedup <= tau.
    """
    return speedup is not None and tau is not None and speedup > _FASTER * tau


def within_noise(speedup: float, noise_floor: float | None) -> bool:
    """Whether a speedup is no more than the block's baselines differ by: as a factor, either way.

    >>> within_noise(1.09, 0.1), within_noise(1 / 1.09, 0.1), within_noise(0.9, 0.1)
    (True, True, False)

    Args:
        noise_floor: 0.02 for 2%; None where it is not known, which holds nothing.
    """
    return noise_floor is not None and 1.0 / (1.0 + noise_floor) <= speedup <= 1.0 + noise_floor


def told_apart(
    speedup: float, interval: tuple[float, float] | None, noise_floor: float | None
) -> bool:
    """Whether a speedup, or a slowdown, is told apart from none.

    Args:
        speedup: the measured one.
        interval: its 95% interval; without one nothing is told apart.
        noise_floor: as in :func:`within_noise`.
    """
    if interval is None or within_noise(speedup, noise_floor):
        return False
    return not interval[0] <= 1.0 <= interval[1]


def speedup_interval(
    batch_size: int,
    cell: Tables,
    baselines: Sequence[Tables],
    level: float = 0.95,
    seed: int = 0,
) -> Interval | None:
    """Decode speedup with its interval.

    Batch size 1: paired by conversation. Above: tokens per row and round vary between
    conversations, seconds per step between time blocks, at least 8 of them in the cell and in the
    baselines; over the steps with all slots full.

    Args:
        batch_size: of all of them.
        cell: the speculative cell.
        baselines: the block's baselines.
        level: confidence level.
        seed: of the bootstrap.

    Returns:
        None where there are too few conversations or steps to say.
    """
    if not baselines:
        return None
    if batch_size == 1:
        return _paired(cell, baselines, level, seed)
    return _over_time(batch_size, cell, baselines, level)


def _paired(cell: Tables, baselines: Sequence[Tables], level: float, seed: int) -> Interval | None:
    own_names, own_sums = _by_conversation(*cell)
    plain: dict[str, Numbers] = {}
    for tables in baselines:
        names, sums = _by_conversation(*tables)
        for name, pair in zip(names, np.column_stack(sums), strict=True):
            plain[name] = plain.get(name, np.zeros(2)) + pair
    shared = [index for index, name in enumerate(own_names) if name in plain]
    if not shared:
        return None
    seconds, tokens = np.array([plain[own_names[index]] for index in shared]).T
    return paired_ratio_of_ratios(
        seconds, tokens, own_sums[0][shared], own_sums[1][shared], level, seed
    )


def _by_conversation(rounds: Columns, requests: Columns) -> tuple[list[str], list[Numbers]]:
    """Decode seconds and tokens of each conversation, at batch size 1."""
    seconds = sum(numbers(rounds, name) for name in ("draft_s", "verify_s", "other_s"))
    return _sums(rounds, requests, np.asarray(seconds), numbers(rounds, "num_emitted"))


def _over_time(
    batch_size: int, cell: Tables, baselines: Sequence[Tables], level: float
) -> Interval | None:
    """(tokens per row and round) x (rounds per second) x (seconds per baseline step)."""
    steps = counted_steps(cell[0], batch_size)
    plain = [counted_steps(rounds, batch_size) for rounds, _ in baselines]
    blocks = [time_blocks(base.seconds, np.ones(len(base))) for base in plain]
    plain_s, plain_steps = (np.concatenate(part) for part in zip(*blocks, strict=True))
    own_s, own_steps = time_blocks(steps.seconds, np.ones(len(steps)))
    if min(plain_s.size, own_s.size) < MIN_TIME_BLOCKS:
        return None
    counted = _rows_of(cell[0], steps)
    _, (tokens, rounds) = _sums(
        *cell, numbers(cell[0], "num_emitted") * counted, counted.astype(np.float64)
    )
    interval = product_of_ratios(
        [(tokens, rounds), (own_steps, own_s), (plain_s, plain_steps)], level
    )
    if interval is None:
        return None
    # where slots were not full, the two differ in rows per step, which is known and not estimated
    rows = float(steps.active_rows.mean())
    rows /= float(np.concatenate([base.active_rows for base in plain]).mean())
    estimate, low, high = (rows * end for end in (interval.estimate, *interval.ends))
    return Interval(estimate, low, high, interval.clusters, interval.method)


def _rows_of(rounds: Columns, steps: Steps) -> NDArray[np.bool_]:
    """Which rows of a table belong to counted steps: [rows]."""
    if not steps.all_full:
        return np.ones(integers(rounds, "step").size, dtype=np.bool_)
    full: NDArray[np.bool_] = numbers(rounds, "active_rows") == steps.active_rows[0]
    return full


def _sums(rounds: Columns, requests: Columns, *columns: Numbers) -> tuple[list[str], list[Numbers]]:
    conversations = np.asarray(values(requests, "conversation"), dtype=np.str_)
    names, sums = cluster_sums(conversations, *columns, owners=integers(rounds, "request"))
    return names.tolist(), sums
