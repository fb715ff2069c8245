"""Hugging Face's assisted generation accepts the same number of tokens, round by round.

Temperature 0, fixed gamma (confidence threshold 0, schedule constant), the same draft model: the
target's own first layers, saved as a model folder. Prompt lookup is held against
``ngram,match=first``. Hugging Face drafts before the first output token and specbench after it, so
it is given the prompt with its first token. Rounds that it clips at the length limit are left out.

    python -m tests.bench.assisted_parity --prompts 20
"""

from __future__ import annotations

import copy
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import typer
from transformers.generation import candidate_generator

from specbench.backends.native import NativeBackend
from specbench.engine.request import Limits, Request
from tests.bench._common import (
    cell,
    decode_seconds,
    first_of,
    ignore_stops,
    load_backend,
    load_requests,
    run_cell,
)


class Watch:
    """Counts of every round of Hugging Face's loop, read off its candidate generators."""

    def __init__(self) -> None:
        self.accepted: list[int] = []
        for name in ("AssistedCandidateGenerator", "PromptLookupCandidateGenerator"):
            kind = getattr(candidate_generator, name)
            original = kind.update_candidate_strategy

            def watched(
                generator: Any,
                input_ids: Any,
                scores: Any,
                num_matches: Any,
                _original: Any = original,
            ) -> Any:
                self.accepted.append(int(num_matches))
                return _original(generator, input_ids, scores, num_matches)

            kind.update_candidate_strategy = watched


def save_draft_model(backend: NativeBackend, layers: int, folder: Path) -> None:
    """The target's first layers as an ordinary model folder, tokenizer included."""
    model = copy.deepcopy(backend.target.model)
    model.model.layers = model.model.layers[:layers]
    model.config.num_hidden_layers = layers
    if getattr(model.config, "layer_types", None):
        model.config.layer_types = model.config.layer_types[:layers]
    model.save_pretrained(folder)
    backend.tokenizer.save_pretrained(folder)


def compare(
    ours: list[list[int]], theirs: list[list[int]], room: list[list[int]], gamma: int
) -> tuple[int, int]:
    """(equal, compared) rounds, leaving out those with less room than gamma + 1 tokens."""
    equal = compared = 0
    for mine, its, left in zip(ours, theirs, room, strict=True):
        for index, tokens_left in enumerate(left):
            if tokens_left >= gamma + 1:
                compared += 1
                equal += index < len(its) and mine[index] == its[index]
    return equal, compared


def main(
    target: str | None = None,
    questions: Path | None = None,
    prompts: int = 20,
    max_new_tokens: int = 48,
    gamma: int = 4,
    layers: int = 24,
) -> None:
    """Print how many rounds agree and the ratio of decode speeds."""
    backend = load_backend(target, "float32")
    requests = load_requests(backend, questions, prompts)
    model = backend.target.model
    ignore_stops(model)
    watch = Watch()
    with tempfile.TemporaryDirectory() as name:
        save_draft_model(backend, layers, Path(name))
        drafters = {
            f"model:{name}": draft_options(backend, name, gamma),
            "ngram,match=first,max=3": {
                "prompt_lookup_num_tokens": gamma,
                "max_matching_ngram_size": 3,
            },
        }
        failed = False
        for spec, options in drafters.items():
            failed |= not agree(backend, spec, options, requests, max_new_tokens, gamma, watch)
    raise typer.Exit(int(failed))


def draft_options(backend: NativeBackend, folder: str, gamma: int) -> dict[str, Any]:
    """``generate``'s options for the same draft model at a fixed draft length."""
    assistant = backend._load_drafter_model(folder).model
    ignore_stops(assistant)
    assistant.generation_config.num_assistant_tokens = gamma
    assistant.generation_config.num_assistant_tokens_schedule = "constant"
    assistant.generation_config.assistant_confidence_threshold = 0.0
    return {"assistant_model": assistant}


def agree(
    backend: NativeBackend,
    spec: str,
    options: dict[str, Any],
    requests: list[Request],
    max_new_tokens: int,
    gamma: int,
    watch: Watch,
) -> bool:
    """Run both engines over the same prompts; print the comparison."""
    what = cell(spec, gamma, 1)
    backend.check([what])
    backend.begin_block(requests, [what], Limits(max_new_tokens))
    ours, room, theirs, outputs = [], [], [], []
    our_s = their_s = 0.0
    for request in requests:
        generation = run_cell(backend, what, [request], Limits(max_new_tokens))
        our_s += decode_seconds(generation)
        ours.append(generation.rounds["num_accepted"])
        room.append([max_new_tokens - done for done in generation.rounds["position"]])
        started = first_of(request, generation.outputs[0][0])
        ids = torch.tensor([list(started.token_ids)])
        mask = torch.ones_like(ids)
        watch.accepted.clear()
        begin = time.perf_counter()
        out = backend.target.model.generate(
            ids, attention_mask=mask, max_new_tokens=max_new_tokens - 1, do_sample=False, **options
        )
        their_s += time.perf_counter() - begin
        theirs.append(list(watch.accepted))
        begin = time.perf_counter()
        backend.target.model.generate(ids, attention_mask=mask, max_new_tokens=1, do_sample=False)
        their_s -= time.perf_counter() - begin
        outputs.append(out[0, ids.shape[1] - 1 :].tolist() == generation.outputs[0])
    equal, compared = compare(ours, theirs, room, gamma)
    alpha = sum(map(sum, ours)) / sum(len(rounds) for rounds in ours)
    label = spec if spec.startswith("ngram") else "model (first layers)"
    print(
        f"{label}: {equal} of {compared} rounds accept the same number of tokens "
        f"({alpha:.2f} per round), {sum(outputs)} of {len(outputs)} outputs equal, "
        f"{their_s / our_s:.2f} times Hugging Face's decode speed",
        flush=True,
    )
    return equal == compared


if __name__ == "__main__":
    typer.run(main)
