"""Greedy output of the baseline and of drafters against Hugging Face's ``generate``.

python -m tests.bench.generate_parity --questions question.jsonl --prompts 40
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer

from specbench.engine.request import Limits
from tests.bench._common import cell, load_backend, load_requests, run_cell


def main(
    target: str | None = None,
    questions: Path | None = None,
    prompts: int = 40,
    max_new_tokens: int = 32,
    dtype: str = "float32",
    drafter: Annotated[list[str] | None, typer.Option()] = None,
) -> None:
    """Compare ids and lengths, prompt by prompt, at batch 1 and 4."""
    backend = load_backend(target, dtype)
    requests = load_requests(backend, questions, prompts)
    limits = Limits(max_new_tokens, backend.stop_tokens)
    expected = []
    for request in requests:
        ids = torch.tensor([list(request.token_ids)])
        out = backend.target.model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_new_tokens, do_sample=False
        )
        expected.append(out[0, ids.shape[1] :].tolist())
    backend.begin_block(requests, [], limits)
    failed = False
    for spec in ["none", *(drafter or ["ngram"])]:
        for batch_size in (1, 4):
            what = cell(spec, 0 if spec == "none" else 4, batch_size)
            outputs = run_cell(backend, what, requests, limits).outputs
            same = sum(a == b for a, b in zip(outputs, expected, strict=True))
            stopped = sum(ids[-1] in backend.stop_tokens for ids in outputs)
            print(
                f"{dtype} {spec} batch {batch_size}: {same} of {len(requests)} equal generate's "
                f"({stopped} ended by a stop token)",
                flush=True,
            )
            failed |= same != len(requests)
    raise typer.Exit(int(failed))


if __name__ == "__main__":
    typer.run(main)
