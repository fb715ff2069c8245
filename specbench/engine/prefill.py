"""Reading prompts: once per prompt, shared by every cell that continues it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

from specbench.engine.request import Request
from specbench.engine.shared_prefix import SharedPrefix
from specbench.measure.clock import Clock
from specbench.models.kept_caches import Caches
from specbench.models.language_model import LanguageModel, Prefill


@torch.inference_mode()
def prefill_all(
    target: LanguageModel,
    requests: Iterable[Request],
    clock: Clock,
    hidden_layers: Sequence[int] = (),
    caches: Caches | None = None,
    prefix: SharedPrefix | None = None,
) -> dict[str, Prefill]:
    """Prefill every request alone.

    A prompt that is asked several times is read once.

    Args:
        hidden_layers: whose states to keep for drafters, as in :meth:`LanguageModel.forward`.
        caches: to read into; without, every prompt gets a cache of its own length.
        prefix: what all prompts begin with, which is not read again. It was read with layers and a
            cache of its own, so with one ``hidden_layers`` and ``caches`` count for nothing.

    Returns:
        by prompt id; ``logits`` [V] of the last token, ``hidden`` [P, H] per layer.
    """
    caches = caches or Caches()
    prefills: dict[str, Prefill] = {}
    read: dict[tuple[int, ...], Prefill] = {}
    for request in requests:
        if (known := read.get(tuple(request.token_ids))) is not None:
            prefills[request.prompt_id] = known
            continue
        if prefix is not None:
            found = prefix.prefill(target, request.token_ids, clock)
            prefills[request.prompt_id] = read[tuple(request.token_ids)] = found
            continue
        layout = target.layout(request.token_ids)
        length = len(layout.context)
        cache = caches.for_prompt(target, length, target.context_limit, target.cache_kind)
        begin = clock.mark()
        output = target.read_prompt(request.token_ids, cache, hidden_layers)
        end = clock.mark()
        prefills[request.prompt_id] = read[tuple(request.token_ids)] = Prefill(
            layout=layout,
            snapshot=cache.snapshot(0, length),
            logits=output.logits[0, -1],
            seconds=clock.seconds(begin, end),
            hidden={layer: states[0] for layer, states in output.hidden.items()},
        )
    return prefills
