"""Is the baseline as fast as Hugging Face's ``generate``, and what does the loop cost?

Decode time only: ``generate`` is timed for all tokens and for one, and the difference is taken.
The two alternate in one process, so that a slow minute of the machine hits both.

    python -m tests.bench.baseline_speed --dtype float32 --batch-size 1
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import torch
import typer

from specbench.engine.request import Limits
from tests.bench._common import (
    cell,
    decode_seconds,
    ignore_stops,
    left_padded,
    load_backend,
    load_requests,
    run_cell,
    step_times,
)


def main(
    target: str | None = None,
    questions: Path | None = None,
    prompts: int = 4,
    max_new_tokens: int = 48,
    dtype: str = "float32",
    batch_size: int = 1,
    rounds: int = 5,
    threads: int | None = None,
) -> None:
    """Print the ratio of decode speeds, ours over generate's, and the loop's share of a round."""
    if threads:
        torch.set_num_threads(threads)
    backend = load_backend(target, dtype)
    requests = load_requests(backend, questions, prompts)
    model = backend.target.model
    ignore_stops(model)
    limits = Limits(max_new_tokens)
    baseline, ngram = cell("none", 0, batch_size), cell("ngram", 4, batch_size)
    backend.check([ngram])
    backend.begin_block(requests, [baseline, ngram], limits)
    groups = [requests[i : i + batch_size] for i in range(0, len(requests), batch_size)]

    def generate_seconds() -> float:
        total = 0.0
        for group in groups:
            ids, mask = left_padded(group)
            for count, sign in ((max_new_tokens, 1), (1, -1)):
                begin = time.perf_counter()
                model.generate(ids, attention_mask=mask, max_new_tokens=count, do_sample=False)
                total += sign * (time.perf_counter() - begin)
        return total

    generate_seconds()
    ratios = []
    for _ in range(rounds):
        ours = decode_seconds(run_cell(backend, baseline, requests, limits))
        theirs = generate_seconds()
        ratios.append(theirs / ours)
        tokens = len(requests) * (max_new_tokens - 1)
        print(f"  ours {tokens / ours:.1f} tok/s, generate {tokens / theirs:.1f} tok/s", flush=True)
    ratio = statistics.median(ratios)
    times = step_times(run_cell(backend, ngram, requests, limits))
    other = sum(t[2] for t in times) / sum(sum(t) for t in times)
    print(
        f"{dtype} batch {batch_size}: {ratio:.3f} times generate's speed "
        f"(from {min(ratios):.3f} to {max(ratios):.3f}); outside draft and verify, "
        f"ngram gamma 4: {other:.1%} of a round"
    )
    raise typer.Exit(int(ratio < 0.95 or (batch_size == 1 and other > 0.08)))


if __name__ == "__main__":
    typer.run(main)
