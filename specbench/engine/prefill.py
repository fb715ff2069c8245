"""Reading prompts: once per prompt, shared by every cell that continues it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from specbench.engine.request import Request
from specbench.measure.clock import Clock
from specbench.models.target import LanguageModel, Prefill


@torch.inference_mode()
def prefill_all(
    target: LanguageModel,
    requests: Iterable[Request],
    clock: Clock,
    hidden_layers: Sequence[int] = (),
) -> dict[str, Prefill]:
    """Prefill every request alone; returns what was read by prompt id.

    Args:
        hidden_layers: whose states to keep for drafters, as in :meth:`LanguageModel.forward`.
    """
    prefills = {}
    for request in requests:
        length = len(request.token_ids)
        cache = target.new_cache(1, length)
        begin = clock.mark()
        tokens = torch.tensor([list(request.token_ids)], device=target.device)
        output = target.forward(tokens, cache, [0], last_only=True, hidden_layers=hidden_layers)
        end = clock.mark()
        prefills[request.prompt_id] = Prefill(
            snapshot=cache.snapshot(0, length),
            logits=output.logits[0, -1],
            seconds=clock.seconds(begin, end),
            hidden={layer: states[0] for layer, states in output.hidden.items()},
        )
    return prefills
