"""Does the instrument read back a known acceptance?

Runs ``synthetic:A`` and compares, cell by cell, the measured alpha with A and the measured tau with
the closed form, as z values from the binomial and the truncated geometric distribution. Rounds that
drafted fewer than gamma tokens (before a stop token) are left out of tau.

    python -m tests.bench.calibration --dtype float32
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import typer

from specbench.engine.request import Generation, Limits
from specbench.theory.closed_form import expected_tokens
from tests.bench._common import cell, load_backend, load_requests, run_cell

ALPHAS = (0.5, 0.7, 0.9)
GAMMAS = (1, 2, 4, 8)


def z_values(generation: Generation, alpha: float, gamma: int) -> tuple[float, float, int]:
    """z of alpha, z of tau, rounds of full draft length."""
    rounds = generation.rounds
    evaluated, accepted = sum(rounds["num_evaluated"]), sum(rounds["num_accepted"])
    z_alpha = (accepted - alpha * evaluated) / math.sqrt(evaluated * alpha * (1 - alpha))
    full = [
        a for a, n in zip(rounds["num_accepted"], rounds["num_drafted"], strict=True) if n == gamma
    ]
    mean = expected_tokens(alpha, gamma) - 1
    chances = [alpha**k * (1 - alpha) for k in range(gamma)] + [alpha**gamma]
    variance = sum(p * (k - mean) ** 2 for k, p in enumerate(chances))
    z_tau = (sum(full) - len(full) * mean) / math.sqrt(len(full) * variance)
    return z_alpha, z_tau, len(full)


def main(
    target: str | None = None,
    questions: Path | None = None,
    prompts: int = 12,
    max_new_tokens: int = 64,
    dtype: str = "float32",
    batch_size: int = 4,
) -> None:
    """Print z of every cell and the pooled z."""
    backend = load_backend(target, dtype)
    requests = load_requests(backend, questions, prompts)
    longer = Limits(max_new_tokens + max(GAMMAS) + 1, backend.stop_tokens)
    references = backend.greedy_outputs(requests, longer)
    requests = [
        replace(request, reference=reference)
        for request, reference in zip(requests, references, strict=True)
    ]
    limits = Limits(max_new_tokens, backend.stop_tokens)
    backend.begin_block(requests, [], limits)
    baseline = run_cell(backend, cell("none", 0, batch_size), requests, limits).outputs
    values: list[tuple[float, float]] = []
    failed = False
    for alpha in ALPHAS:
        for gamma in GAMMAS:
            what = cell(f"synthetic:{alpha}", gamma, batch_size)
            generation = run_cell(backend, what, requests, limits)
            z_alpha, z_tau, count = z_values(generation, alpha, gamma)
            values.append((z_alpha, z_tau))
            same = generation.outputs == baseline
            replayed = any(generation.rounds["replayed"])
            verdict = "identical" if same else "differs"
            print(
                f"{dtype} A = {alpha} gamma = {gamma}: z(alpha) {z_alpha:+.2f}, "
                f"z(tau) {z_tau:+.2f} over {count} rounds, output {verdict}"
                f"{', coin decides' if replayed else ''} {'; '.join(generation.notes)}",
                flush=True,
            )
            failed |= abs(z_alpha) >= 3.5 or abs(z_tau) >= 3.5 or (not same and not replayed)
    pooled = [sum(v[i] for v in values) / math.sqrt(len(values)) for i in (0, 1)]
    print(f"pooled z: alpha {pooled[0]:+.2f}, tau {pooled[1]:+.2f}")
    raise typer.Exit(int(failed or max(map(abs, pooled)) > 2.5))


if __name__ == "__main__":
    typer.run(main)
