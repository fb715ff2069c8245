"""What does timing cost? The same decode with the clock and without, alternating in one process.

Without a clock nothing is marked, so the host's seconds around the whole decode are compared.

    python -m tests.bench.timing_cost --drafter ngram --gamma 4
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import torch
import typer

from specbench.engine.request import Limits
from specbench.engine.round import MARKS_PER_STEP
from specbench.measure.clock import Clock, clock_for, seconds_per_mark
from tests.bench._common import cell, load_backend, load_requests, run_cell, step_times
from tests.clocks import NoClock

MOST = 0.02


def main(
    target: str | None = None,
    questions: Path | None = None,
    drafter: str = "none",
    gamma: int = 0,
    prompts: int = 4,
    max_new_tokens: int = 48,
    dtype: str = "float32",
    batch_size: int = 1,
    rounds: int = 9,
    threads: int | None = None,
) -> None:
    """Print the share that timing adds to a decode, beside that of its marks alone."""
    if threads:
        torch.set_num_threads(threads)
    backend = load_backend(target, dtype)
    requests = load_requests(backend, questions, prompts)
    what, limits = cell(drafter, gamma, batch_size), Limits(max_new_tokens)
    backend.check([what])
    backend.begin_block(requests, [what], limits)
    clock = clock_for(backend.device)

    def seconds(used: Clock) -> float:
        backend._clock = used
        _wait(backend.device)
        begin = time.perf_counter()
        run_cell(backend, what, requests, limits)
        _wait(backend.device)
        return time.perf_counter() - begin

    seconds(clock)
    ratios = [seconds(clock) / seconds(NoClock()) for _ in range(rounds)]
    ratio = statistics.median(ratios)
    backend._clock = clock
    times = step_times(run_cell(backend, what, requests, limits))
    step_s = statistics.fmean(sum(parts) for parts in times)
    mark_s = seconds_per_mark(clock)
    print(
        f"{clock.method}: timed {ratio - 1:+.2%} of untimed (from {min(ratios) - 1:+.2%} to "
        f"{max(ratios) - 1:+.2%}); a mark {1e6 * mark_s:.2f} µs, the marks of a step "
        f"{MARKS_PER_STEP * mark_s / step_s:.3%} of it"
    )
    raise typer.Exit(int(ratio - 1 > MOST))


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


if __name__ == "__main__":
    typer.run(main)
