"""A shared prefix is read once, and everything behind it is as if each prompt was read whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from specbench.engine.prefill import prefill_all
from specbench.engine.shared_prefix import SharedPrefix, common_prefix
from specbench.measure.clock import HostClock
from tests.families import FAMILIES, WINDOW, tiny
from tests.tiny import language_model, noisy_copy, requests, run_cell

PREFIX = [5, 9, 2, 44, 17, 3, 5, 9, 60, 1]
LAYERS = (0, 2)


def prompts(count: int = 4):
    return [
        replace(request, token_ids=[*PREFIX, request.token_ids[0] + index, *request.token_ids])
        for index, request in enumerate(requests(count, vocab=50))
    ]


def both(target):
    """Prefills read whole, and behind the shared prefix."""
    batch = prompts()
    shared = common_prefix([request.token_ids for request in batch])
    prefix = SharedPrefix.read(target, shared, HostClock(), LAYERS)
    whole = prefill_all(target, batch, HostClock(), LAYERS)
    return whole, prefill_all(target, batch, HostClock(), LAYERS, prefix=prefix), prefix


@pytest.mark.parametrize(
    ("given", "shared"),
    [
        ([[1, 2, 3, 4], [1, 2, 3], [1, 2, 5]], [1, 2]),
        ([[1, 2, 3], [1, 2, 3]], [1, 2]),
        ([[1, 2, 3]], [1, 2]),
        ([[1, 2], [1]], []),
        ([[1, 2], [3, 4]], []),
        ([], []),
    ],
)
def test_the_common_prefix_leaves_every_prompt_a_token(given, shared):
    assert common_prefix(given) == shared


@pytest.mark.parametrize("kind", ["llama", "gpt2", "mistral", "gemma2", "deepseek_v3"])
def test_keys_values_logits_and_states_are_those_of_whole_prompts(kind):
    target = tiny(next(family for family in FAMILIES if family.kind == kind))
    assert len(PREFIX) > WINDOW
    whole, shared, prefix = both(target)
    assert list(prefix.token_ids) == PREFIX
    for name, expected in whole.items():
        found = shared[name]
        assert found.layout == expected.layout
        assert torch.allclose(found.logits, expected.logits, atol=1e-5)
        for ours, theirs in (
            (found.snapshot.keys, expected.snapshot.keys),
            (found.snapshot.values, expected.snapshot.values),
            ([found.hidden[n] for n in LAYERS], [expected.hidden[n] for n in LAYERS]),
        ):
            for one, other in zip(ours, theirs, strict=True):
                assert one.shape == other.shape
                assert torch.allclose(one, other, atol=1e-5)


def test_the_prefix_is_read_once_and_then_only_what_follows(monkeypatch):
    target, widths = language_model("llama"), []
    sound = type(target).forward

    def watched(self, tokens, *given, **options):
        widths.append(tokens.shape[1])
        return sound(self, tokens, *given, **options)

    monkeypatch.setattr(type(target), "forward", watched)
    batch = prompts()
    prefix = SharedPrefix.read(target, PREFIX, HostClock())
    prefill_all(target, batch, HostClock(), prefix=prefix)
    assert widths == [len(PREFIX), *(len(r.token_ids) - len(PREFIX) for r in batch)]


def test_outputs_are_the_same():
    target = language_model("llama")
    batch, near = prompts(), {"near": noisy_copy(target, 0.2)}
    _, shared, _ = both(target)
    options = {"gamma": 3, "batch_size": 3, "models": near}
    expected = run_cell(target, "model:near", batch, **options).outputs
    assert run_cell(target, "model:near", batch, prefills=shared, **options).outputs == expected
