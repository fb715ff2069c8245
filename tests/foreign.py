"""Small results as other tools write them: field names are theirs, numbers are made up here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from specbench.records import importing
from specbench.records.importing.cells import Given
from specbench.records.importing.folder import write as write_run
from specbench.records.importing.pairing import add_speedups
from specbench.records.store import Run, load_run


def write(path: Path, *documents: Any, lines: bool = False) -> Path:
    """One JSON document, or one per line."""
    if lines:
        path.write_text("".join(json.dumps(document) + "\n" for document in documents))
    else:
        path.write_text(json.dumps(documents[0], indent=2))
    return path


def imported_run(folder: Path, *files: Any, **given: Any) -> Run:
    """A run from results; a list is a file of lines.

    Args:
        given: fields of :class:`specbench.records.importing.cells.Given`.
    """
    folder.mkdir()
    paths = [
        write(folder / f"f{place}.json", *(file if lines else [file]), lines=lines)
        for place, file in enumerate(files)
        for lines in [isinstance(file, list)]
    ]
    name, sources, cells = importing.read(paths, None, Given(**given))
    add_speedups(cells)
    write_run(folder / "run", name, sources, cells, Given(**given), [])
    return load_run(folder / "run")


def vllm(**changes: Any) -> dict[str, Any]:
    """Plain decoding of 20 requests, 4 at a time: 80 ms a token."""
    return {
        "date": "20260101-000000",
        "backend": "openai",
        "model_id": "org/target",
        "num_prompts": 20,
        "request_rate": "inf",
        "max_concurrency": 4,
        "duration": 104.0,
        "completed": 20,
        "failed": 0,
        "total_input_tokens": 2000,
        "total_output_tokens": 5000,
        "request_throughput": 0.19,
        "output_throughput": 48.1,
        "mean_ttft_ms": 100.0,
        "mean_tpot_ms": 80.0,
        "mean_itl_ms": 80.0,
        **changes,
    }


def vllm_speculative(**changes: Any) -> dict[str, Any]:
    """Gamma 3: 2,000 rounds, survival 0.7, 0.4, 0.2, so tau 2.3 and alpha 2.6 / 4.2 / 2."""
    fields = {
        "duration": 65.0,
        "output_throughput": 76.9,
        "mean_tpot_ms": 50.0,
        "mean_itl_ms": 115.0,
        "spec_decode_acceptance_rate": 100 * 2600 / 6000,
        "spec_decode_acceptance_length": 2.3,
        "spec_decode_num_drafts": 2000,
        "spec_decode_draft_tokens": 6000,
        "spec_decode_accepted_tokens": 2600,
        "spec_decode_per_position_acceptance_rates": [0.7, 0.4, 0.2],
    }
    return vllm(**{**fields, **changes})


def sglang(
    steps: int = 3, topk: int = 1, nodes: int = 4, tau: float = 2.0, step_s: float = 0.0125
) -> dict[str, Any]:
    """A line of bench_speculative; steps 0 is plain decoding."""
    return {
        "batch_size": 1,
        "steps": steps,
        "topk": topk if steps else 0,
        "num_draft_tokens": nodes if steps else 0,
        "acc_length": tau,
        "step_time": step_s,
        "speed": round(tau / step_s, 3),
        "completion_tokens": 512.0,
    }


def spec_bench(
    method: str,
    lengths: Sequence[Sequence[int]],
    seconds_per_round: float,
    categories: Iterable[str] = ("writing", "translation"),
) -> list[dict[str, Any]]:
    """An answer per question, the categories in turn; two turns, half of the rounds in each."""
    names = list(categories)
    answers = []
    for question, rounds in enumerate(lengths):
        half = len(rounds) // 2
        parts = (rounds[:half], rounds[half:])
        choice = {
            "index": 0,
            "turns": ["one", "two"],
            "decoding_steps": [len(part) for part in parts],
            "new_tokens": [sum(part) for part in parts],
            "wall_time": [seconds_per_round * len(part) for part in parts],
            "accept_lengths": list(rounds),
        }
        answers.append(
            {
                "question_id": question,
                "category": names[question % len(names)],
                "answer_id": f"a{question}",
                "model_id": method,
                "choices": [choice],
                "tstamp": 1.0,
            }
        )
    return answers


def chain_lengths(alpha: float, gamma: int, questions: int, rounds: int) -> list[list[int]]:
    """New length - old length of rounds whose acceptance is i.i.d."""
    rng = np.random.default_rng(0)
    hits = rng.random((questions, rounds, gamma)) < alpha
    lengths = 1 + np.cumprod(hits, axis=2).sum(axis=2)
    return [[int(length) for length in row] for row in lengths]


def llama_cpp(drafted: int = 0, accepted: int = 0, ms_per_token: float = 20.0) -> dict[str, Any]:
    """Eight requests of 201 tokens in two categories; counts per request."""
    results = [
        {
            "id": f"q{place}",
            "category": ("coding", "math")[place % 2],
            "ok": True,
            "turns": 1,
            "completion_tokens": 201,
            "predicted_ms": 200 * ms_per_token,
            "draft_n": drafted,
            "draft_n_accepted": accepted,
        }
        for place in range(8)
    ]
    rows = [
        {
            "category": category,
            "requests": count,
            "turns": count,
            "failed": 0,
            "avg_prompt_t_s": 100.0,
            "avg_pred_t_s": 1000 / ms_per_token,
            "avg_latency": 4.0,
            "draft_n": count * drafted,
            "accepted": count * accepted,
            "accept_rate": accepted / drafted if drafted else None,
        }
        for category, count in (("coding", 4), ("math", 4), ("overall", 8))
    ]
    config = {"model": None, "concurrency": 1, "extra_inputs": {"temperature": 0}}
    return {"config": config, "completed_samples": 8, "summary": rows, "results": results}
