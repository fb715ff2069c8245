"""Drafting with heads, step by step, against whole sequences without any cache.

Before each round the draft's logits are recomputed by the plain forwards of the papers from the
target's own states of the committed text. So a hole, a stale guess or a pair of the wrong token and
state in the drafter's cache shows up.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from specbench.drafters._states import StateDrafter
from specbench.drafters.base import Drafter
from specbench.engine.loop import decode
from specbench.engine.request import Limits
from specbench.engine.round import Round
from specbench.models.cache import RowCache
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams, warp
from tests.tiny import (
    make_decoder,
    make_drafter,
    make_session,
    requests,
    run_cell,
    shared_prefills,
)
from tests.unit.heads.plain import PlainHead

EQUAL = 1e-5


class Stepwise:
    """A decoder that recomputes every draft.

    Attributes:
        gap: the largest difference of logits seen, in units of the draft's largest logit.
        compared: drafted tokens compared.
        uneven: rounds in which rows had accepted different numbers before.
    """

    def __init__(self, decoder: Any, plain_head: PlainHead) -> None:
        self.inner, self.plain = decoder, plain_head
        self.session, self.clock, self.drafter = decoder.session, decoder.clock, decoder.drafter
        self.gap, self.compared, self.uneven = 0.0, 0, 0
        self._steps: list[Tensor] = []
        self._watch(decoder.drafter)

    def _watch(self, drafter: Drafter) -> None:
        if isinstance(drafter, StateDrafter):
            sound = drafter._logits

            def logits(outputs: Tensor) -> Tensor:
                self._steps.append(sound(outputs)[:, -1])
                return self._steps[-1][:, None]

            drafter._logits = logits
        else:
            sound = drafter.output.logits

            class Watched:
                ids = None

                @staticmethod
                def logits(states: Tensor) -> Tensor:
                    found = sound(states)
                    self._steps.extend(found)
                    return found

            drafter.output = Watched()

    def round(self) -> Round:
        self._steps.clear()
        texts = [list(row.tokens) if row.active else None for row in self.session.rows.slots]
        propose, kept = self.drafter.propose, []
        self.drafter.propose = lambda gamma: kept.append(propose(gamma)) or kept[-1]
        try:
            result = self.inner.round()
        finally:
            self.drafter.propose = propose
        for slot, text in enumerate(texts):
            if text is not None:
                self._compare(slot, text, kept[0].tokens[slot].tolist())
        self.uneven += len(set(result.num_accepted)) > 1
        return result

    def _compare(self, slot: int, text: list[int], drafted: list[int]) -> None:
        expected = self.plain.logits(text, drafted)
        ours = torch.stack([step[slot] for step in self._steps[: len(drafted)]])
        gap = (ours - expected).abs().max() / expected.abs().max()
        self.gap = max(self.gap, gap.item())
        self.compared += len(drafted)


def stepwise(
    target: LanguageModel, head: Path, batch_size: int, gamma: int, sampling: SamplingParams
) -> Stepwise:
    batch = requests(batch_size + 3)
    drafter = make_drafter(target, f"{head.name}:{head}")
    session = make_session(
        target, batch, gamma=gamma, batch_size=batch_size, sampling=sampling, max_new_tokens=14
    )
    watched = Stepwise(make_decoder(target, drafter, session), PlainHead(target.model, head))
    decode(watched, batch, shared_prefills(target, batch, drafter), Limits(14))
    return watched


@pytest.mark.parametrize("kind", ["medusa", "eagle", "eagle3"])
@pytest.mark.parametrize(("batch_size", "gamma"), [(1, 1), (1, 4), (3, 2), (3, 4)])
@pytest.mark.parametrize("sampling", [SamplingParams(), SamplingParams(0.7)], ids=["0", "0.7"])
def test_every_step_is_the_papers_forward(target, folder, kind, batch_size, gamma, sampling):
    watched = stepwise(target, folder / kind, batch_size, gamma, sampling)
    assert watched.compared > 20
    assert batch_size == 1 or watched.uneven > 2
    assert watched.gap < EQUAL


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_states_one_position_off_are_seen(target, folder, monkeypatch, kind):
    """The planted fault: each token is paired with the state before the right one."""
    keep, begin = StateDrafter._keep, StateDrafter.begin

    def shifted(self, features, slots):
        keep(self, features.roll(1, dims=1), slots)

    def prompt_shifted(self, slot, hidden):
        begin(self, slot, {layer: states.roll(1, dims=0) for layer, states in hidden.items()})

    for name, faulty in (("_keep", shifted), ("begin", prompt_shifted)):
        with monkeypatch.context() as patched:
            patched.setattr(StateDrafter, name, faulty)
            assert stepwise(target, folder / kind, 3, 2, SamplingParams()).gap > 0.01


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_guesses_left_in_the_cache_are_seen(target, folder, monkeypatch, kind):
    """Another fault: accepted tokens keep the pairs that were guessed while drafting."""
    sound = StateDrafter.commit

    def lazy(self, num_accepted, hidden=None):
        sound(self, num_accepted, hidden)
        last = torch.tensor(num_accepted)
        rows = torch.arange(len(last))
        self._unread[:, 0] = self._unread[rows, last]
        self._num_unread = [1] * len(num_accepted)

    monkeypatch.setattr(StateDrafter, "commit", lazy)
    assert stepwise(target, folder / kind, 3, 4, SamplingParams()).gap > 1e-3


@torch.inference_mode()
def fresh_cache(drafter: StateDrafter, target: LanguageModel, text: list[int]) -> RowCache:
    """The head's K/V of all pairs of a text, read at once."""
    length = len(text) - 1
    tokens = torch.tensor([text])
    layers = drafter.needs_hidden_layers
    output = target.forward(tokens, target.new_cache(1, len(text)), [0], hidden_layers=layers)
    features = drafter._features({k: states[:, :-1] for k, states in output.hidden.items()})
    cache = RowCache(1, length)
    drafter._read(tokens[:, 1:], drafter._enter(features), [0], cache)
    return cache


@pytest.mark.parametrize("tree", ["", ",tree=12,topk=3"], ids=["chain", "tree"])
@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_the_heads_cache_after_a_round_is_a_fresh_prefills(target, folder, kind, tree):
    """K/V of every pair that has been read, before every round, in every slot."""
    batch = requests(6)
    drafter = make_drafter(target, f"{kind}:{folder / kind}{tree}")
    session = make_session(target, batch, gamma=3, batch_size=3, max_new_tokens=12, drafter=drafter)
    decoder = make_decoder(target, drafter, session)
    gaps: list[float] = []

    class Watch:
        session, clock, drafter = decoder.session, decoder.clock, decoder.drafter

        def round(self) -> Round:
            for slot, row in enumerate(session.rows.slots):
                known = len(row.tokens) - 1 - drafter._num_unread[slot]
                if row.active and known > 0:
                    fresh = fresh_cache(drafter, target, row.tokens[: known + 1])
                    for ours, theirs in (
                        (drafter.cache.keys[0], fresh.keys[0]),
                        (drafter.cache.values[0], fresh.values[0]),
                    ):
                        gap = (ours[slot, :, :known] - theirs[0]).abs().max()
                        gaps.append(gap.item())
            return decoder.round()

    decode(Watch(), batch, shared_prefills(target, batch, drafter), Limits(12))
    assert len(gaps) > 20
    assert max(gaps) < EQUAL


@pytest.mark.parametrize("kind", ["medusa", "eagle", "eagle3"])
def test_drafted_tokens_are_drawn_from_the_q_that_is_returned(target, folder, kind):
    """Recomputed by the plain forward and warped."""
    sampling = SamplingParams(0.9, top_k=12, top_p=0.9)
    batch = requests(3)
    drafter = make_drafter(target, f"{kind}:{folder / kind}")
    drafts = []
    propose = drafter.propose
    texts = []

    def keep(gamma):
        texts.append([list(row.tokens) for row in drafter.rows.slots])
        drafts.append(propose(gamma))
        return drafts[-1]

    drafter.propose = keep
    run_cell(target, drafter, batch, gamma=3, batch_size=3, sampling=sampling, max_new_tokens=5)
    head = PlainHead(target.model, folder / kind)
    for slot in range(3):
        tokens = drafts[0].tokens[slot].tolist()
        q = warp(head.logits(texts[0][slot], tokens), sampling)
        assert torch.allclose(drafts[0].probs[slot], q, atol=1e-4)
        assert (q.gather(1, drafts[0].tokens[slot][:, None]) > 0).all()
