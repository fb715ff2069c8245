"""One way to run a cell of tiny models through captured steps, as a backend does it.

generation, capturing = run_captured(target, "model:d", batch, gamma=4, models=models)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from specbench.drafters.base import Session
from specbench.engine.loop import decode
from specbench.engine.prefill import prefill_all
from specbench.engine.request import Generation, Limits, Request
from specbench.measure.clock import Clock, HostClock
from specbench.models.capture import Capture, Capturing
from specbench.models.kept_caches import Caches
from specbench.models.language_model import LanguageModel
from specbench.models.rows import Rows
from specbench.sampling.warp import SamplingParams
from tests.tape import TapeCapture
from tests.tiny import GREEDY, make_decoder, make_drafter


def run_captured(
    target: LanguageModel,
    spec: str | None,
    batch: Sequence[Request],
    *,
    gamma: int = 0,
    batch_size: int = 1,
    sampling: SamplingParams = GREEDY,
    max_new_tokens: int = 16,
    stop_tokens: Sequence[int] = (),
    models: Mapping[str, LanguageModel] | None = None,
    by: Capture | None = None,
    clock: Clock | None = None,
    wrap: Any = lambda decoder: decoder,
) -> tuple[Generation, Capturing]:
    """Rehearse a cell with capturing open, then run it with capturing closed.

    Args:
        by: who captures; a tape if nobody is named.
        clock: of the run itself.
        wrap: around the decoder of the run itself.
    """
    capturing = Capturing(by or TapeCapture())
    caches = Caches(capturing)
    drafter = make_drafter(target, spec, models) if spec else None
    layers = drafter.needs_hidden_layers if drafter else ()
    lengths = [len(request.token_ids) for request in batch]
    longest = max(lengths) + max_new_tokens
    drafted = drafter.most_drafted(gamma) if drafter else 0
    capacity = longest + gamma + 1

    def session() -> Session:
        rows = Rows(batch_size, capacity, target.device)
        cache = caches.take(target, batch_size, longest + drafted + 1)
        return Session(rows, cache, sampling, capacity, gamma, 0, 0, caches)

    with capturing.opened():
        prefill_all(target, batch, HostClock(), layers, caches)
        decoder = make_decoder(target, drafter, session())
        if drafter is not None:
            drafter.start(decoder.session)
        with torch.inference_mode():
            decoder.rehearse(lengths)
    prefills = prefill_all(target, batch, HostClock(), layers, caches)
    decoder = wrap(make_decoder(target, drafter, session(), clock))
    limits = Limits(max_new_tokens, frozenset(stop_tokens))
    return decode(decoder, batch, prefills, limits), capturing
