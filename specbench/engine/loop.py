"""The loop around the rounds: fill slots, commit, cut, refill.

A finished row's slot takes the next prompt, in the baseline too, so that a batch does not wait for
its slowest row. Prefill happens before: a prompt enters its slot by copying the K/V of a prefill
that all cells of a block share. A round is timed from its begin to the commit of its tokens;
recording and refilling lie outside.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

import torch

from specbench.drafters.base import Drafter, Session
from specbench.engine.autoregressive import choose
from specbench.engine.recorder import Recorder
from specbench.engine.request import Generation, Limits, Request
from specbench.engine.round import Round
from specbench.measure.clock import Clock
from specbench.measure.watch import UNWATCHED, Watch
from specbench.models.language_model import Prefill
from specbench.models.rows import Row, up_to_stop


class Decoder(Protocol):
    """Autoregressive or speculative: what does one round."""

    session: Session
    clock: Clock

    @property
    def drafter(self) -> Drafter | None: ...

    def rehearse(self, prompt_lengths: Sequence[int]) -> None: ...

    def round(self) -> Round: ...


@torch.inference_mode()
def decode(
    decoder: Decoder,
    requests: Sequence[Request],
    prefills: Mapping[str, Prefill],
    limits: Limits,
    watch: Watch = UNWATCHED,
) -> Generation:
    """Continue every request to its end, as many at once as the session has slots.

    Args:
        decoder: its session's slots must be empty.
        requests: served in order.
        prefills: by prompt id.
        limits: where outputs end.
        watch: told when decoding goes on and when it is interrupted, to let a prompt into a slot.
    """
    rows = decoder.session.rows
    recorder = Recorder(list(requests), decoder.clock)
    owners: list[int | None] = [None] * len(rows)
    queue = deque(range(len(requests)))

    def refill(slot: int) -> None:
        owners[slot] = None
        rows.slots[slot] = Row()
        while queue and owners[slot] is None:
            index = queue.popleft()
            _admit(decoder, slot, requests[index], prefills, recorder, index)
            reason = _stop_reason(rows[slot], limits)
            if reason is None:
                owners[slot] = index
            else:
                recorder.end(index, rows[slot], reason)
                rows.slots[slot] = Row()

    if decoder.drafter is not None:
        decoder.drafter.start(decoder.session)
    for slot in range(len(rows)):
        refill(slot)
    while rows.num_active:
        watch.resume()
        result = decoder.round()
        emitted = [
            _commit(row, tokens, limits)
            for row, tokens in zip(rows.slots, result.committed, strict=True)
        ]
        recorder.add(rows, owners, result, emitted, decoder.clock.mark())
        for slot, owner in enumerate(owners):
            reason = _stop_reason(rows[slot], limits)
            if owner is not None and reason is not None:
                watch.pause()
                recorder.end(owner, rows[slot], reason)
                refill(slot)
    generation = recorder.generation()
    generation.notes = decoder.drafter.notes() if decoder.drafter else []
    return generation


def _admit(
    decoder: Decoder,
    slot: int,
    request: Request,
    prefills: Mapping[str, Prefill],
    recorder: Recorder,
    index: int,
) -> None:
    """Put a prefilled prompt and its first token into a slot; the drafter reads the prompt."""
    session, clock = decoder.session, decoder.clock
    prefill = prefills[request.prompt_id]
    session.target_cache.restore(slot, prefill.snapshot)
    session.rows.uniforms.begin(slot, session.seed, session.repeat, request.prompt_id)

    begin = clock.mark()
    context, source = prefill.layout
    uniforms = None
    if not session.sampling.greedy:
        uniforms = session.rows.uniforms.at("residual", [len(context)] * len(session.rows))[slot]
    first = choose(prefill.logits[None], session.sampling, uniforms).item()
    session.rows.slots[slot] = Row(
        tokens=[*context, int(first)],
        prompt_length=len(context),
        source=list(source),
        prompt_id=request.prompt_id,
        reference=list(request.reference),
        active=True,
    )
    chosen = clock.mark()
    if decoder.drafter is not None:
        decoder.drafter.begin(slot, prefill.hidden)
    ready = clock.mark()
    recorder.begin(
        index, prefill.seconds, clock.seconds(begin, chosen), clock.seconds(chosen, ready)
    )


def _commit(row: Row, tokens: list[int], limits: Limits) -> int:
    """Append a round's tokens up to a stop token or the length limit; returns how many stayed."""
    if not row.active:
        return 0
    room = limits.max_new_tokens - len(row.output)
    kept = up_to_stop(tokens[:room], limits.stop_tokens)
    row.tokens.extend(kept)
    return len(kept)


def _stop_reason(row: Row, limits: Limits) -> str | None:
    """Why the row is complete, or None."""
    if not row.active:
        return None
    if row.tokens[-1] in limits.stop_tokens:
        return "stop"
    return "length" if len(row.output) >= limits.max_new_tokens else None
