"""A cell's line in `cells.jsonl` held against its rounds.

Nothing is fitted to the line, so one that was edited, or written by a broken program, would go
unseen by the analysis; but it is what scripts read, and what tables of cells show.

>>> line_faults(cell, rounds, plain)                                           # doctest: +SKIP
['line: cells.jsonl has alpha 0.99, the rounds give 0.7143']
"""

from __future__ import annotations

from collections.abc import Sequence

from specbench.records.schema import CellRecord
from specbench.records.steps import Columns, Steps, counted_steps, integers, speedup_over
from specbench.records.summary_identities import ROUNDING
from specbench.theory import estimators


def line_faults(cell: CellRecord, rounds: Columns, plain: Sequence[Steps]) -> list[str]:
    """What a line says of alpha, tau and the speedup that its rounds do not.

    Args:
        cell: the line; what it does not tell is not missed.
        rounds: its rounds.
        plain: counted steps of the block's baselines, the first one first; the speedup is checked
            where those are there that it rested on.

    Returns:
        one sentence per number, both sides named; empty if all agree.
    """
    accepted = integers(rounds, "num_accepted")
    found = {"tau": estimators.tau(accepted)}
    if not cell.is_baseline:
        found["alpha"] = estimators.alpha(accepted, integers(rounds, "num_evaluated"))
        rested_on = 2 if cell.noise_floor is not None else 1  # the last baseline comes last
        if len(plain) >= rested_on:
            steps = counted_steps(rounds, cell.batch_size)
            found["speedup"] = speedup_over(steps, plain[:rested_on])
    return [
        f"line: cells.jsonl has {name} {stated:.4g}, the rounds give {value:.4g}"
        for name, value in sorted(found.items())
        if value is not None
        and (stated := getattr(cell, name)) is not None
        and abs(stated - value) > ROUNDING * value
    ]
