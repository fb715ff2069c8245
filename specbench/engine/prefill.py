"""Reading prompts: once per prompt, shared by every cell that continues it."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from specbench.engine.request import Request
from specbench.measure.clock import Clock
from specbench.models.target import LanguageModel, Prefill


@torch.inference_mode()
def prefill_all(
    target: LanguageModel, requests: Iterable[Request], clock: Clock
) -> dict[str, Prefill]:
    """Prefill every request alone; returns snapshots, last logits and seconds by prompt id."""
    prefills = {}
    for request in requests:
        length = len(request.token_ids)
        cache = target.new_cache(1, length)
        begin = clock.mark()
        logits = target.prefill(request.token_ids, cache)
        end = clock.mark()
        seconds = clock.seconds(begin, end)
        prefills[request.prompt_id] = Prefill(cache.snapshot(0, length), logits, seconds)
    return prefills
