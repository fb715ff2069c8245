"""How sure a speedup is, from the rounds of a cell and of its baselines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specbench.records.conversations import Tables, by_conversation, column, ones, paired
from specbench.records.steps import Columns, Numbers, Steps, counted_steps, numbers, row_seconds
from specbench.theory.clusters import MIN_TIME_BLOCKS, time_blocks
from specbench.theory.intervals import Interval, paired_ratio_of_ratios, product_of_ratios

_FASTER = 1.1  # rounds by this much than plain steps: some products of a CPU like their width


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
    seed: int = 0,
) -> Interval | None:
    """Decode speedup with its 95% interval.

    Batch size 1: paired by conversation. Above: tokens per row and round vary between
    conversations, seconds per step between time blocks, at least 8 of them in the cell and in the
    baselines; over the steps with all slots full.

    Args:
        batch_size: of all of them.
        cell: the speculative cell.
        baselines: the block's baselines.
        seed: of the bootstrap.

    Returns:
        None where there are too few conversations or steps to say.
    """
    if not baselines:
        return None
    if batch_size == 1:
        return _paired(cell, baselines, seed)
    return _over_time(batch_size, cell, baselines)


def _paired(cell: Tables, baselines: Sequence[Tables], seed: int) -> Interval | None:
    """Decode seconds per token of the same conversations, plain over the cell's."""
    plain, own = (
        by_conversation(tables, row_seconds, column("num_emitted"))
        for tables in (baselines, [cell])
    )
    plain_s, plain_tokens, own_s, own_tokens = paired(plain, own).T
    return paired_ratio_of_ratios(plain_s, plain_tokens, own_s, own_tokens, seed=seed)


def _over_time(batch_size: int, cell: Tables, baselines: Sequence[Tables]) -> Interval | None:
    """(tokens per row and round) x (rounds per second) x (seconds per baseline step)."""
    steps = counted_steps(cell[0], batch_size)
    plain = [counted_steps(rounds, batch_size) for rounds, _ in baselines]
    blocks = [time_blocks(base.seconds, np.ones(len(base))) for base in plain]
    plain_s, plain_steps = (np.concatenate(part) for part in zip(*blocks, strict=True))
    own_s, own_steps = time_blocks(steps.seconds, np.ones(len(steps)))
    if min(plain_s.size, own_s.size) < MIN_TIME_BLOCKS:
        return None
    tokens, rounds = counted_tokens(cell, steps)
    interval = product_of_ratios([(tokens, rounds), (own_steps, own_s), (plain_s, plain_steps)])
    if interval is None:
        return None
    # where slots were not full, the two differ in rows per step, which is known and not estimated
    rows = float(steps.active_rows.mean())
    rows /= float(np.concatenate([base.active_rows for base in plain]).mean())
    estimate, low, high = (rows * end for end in (interval.estimate, *interval.ends))
    return Interval(estimate, low, high, interval.clusters, interval.method)


def counted_tokens(tables: Tables, steps: Steps) -> tuple[Numbers, Numbers]:
    """Tokens and rounds of each conversation in the counted steps: two arrays [conversations].

    Args:
        tables: of one or more cells.
        steps: the counted ones.
    """

    def counted(rounds: Columns) -> Numbers:
        if not steps.all_full:
            return ones(rounds)
        return np.asarray(numbers(rounds, "active_rows") == steps.active_rows[0], dtype=np.float64)

    def emitted(rounds: Columns) -> Numbers:
        return numbers(rounds, "num_emitted") * counted(rounds)

    sums = by_conversation([tables], emitted, counted).values()
    tokens, rows = np.array(list(sums)).reshape(-1, 2).T
    return tokens, rows
