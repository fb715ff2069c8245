"""K/V after a rollback equals a fresh prefill's, for the target's cache and the drafter's own.

Caches are compared before every round, so after every rejection, in every slot of a ragged batch,
refilled slots included.
"""

from __future__ import annotations

import functools

import pytest
import torch

from specbench.engine.prefill import prefill_all
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams
from tests.clocks import FakeClock
from tests.lossless import cache_gap, watch_caches
from tests.tiny import alpha, language_model, noisy_copy, requests, with_references

EQUAL = 1e-5
SAMPLED = SamplingParams(0.4, top_k=20)


@functools.cache
def models() -> dict[str, LanguageModel]:
    target = language_model("llama")
    other = language_model("gpt2", seed=3)
    return {"near": noisy_copy(target, 0.2), "same": target, "gpt2": other}


def watched(spec: str, gamma: int, batch_size: int, sampling: SamplingParams, kind: str = "llama"):
    target = language_model(kind)
    batch = requests(batch_size + 2)
    if spec.startswith("synthetic"):
        batch = with_references(target, batch, 12 + gamma + 1)
    return watch_caches(
        target,
        spec,
        batch,
        gamma=gamma,
        batch_size=batch_size,
        sampling=sampling,
        models=models(),
    )


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("gamma", [1, 2, 5])
@pytest.mark.parametrize("sampling", [SamplingParams(), SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("spec", ["ngram", "model:near", "early-exit:1"])
def test_caches_are_right_before_every_round(spec, sampling, gamma, batch_size):
    watch, generation = watched(spec, gamma, batch_size, sampling)
    assert 0 < alpha(generation) < 1
    assert watch.checked > 10
    assert watch.target_gap < EQUAL
    assert watch.drafter_gap < EQUAL


@pytest.mark.parametrize("gamma", [1, 4])
@pytest.mark.parametrize("spec", ["model:same", "synthetic:1", "synthetic:0", "synthetic:0.5"])
def test_full_acceptance_and_none(spec, gamma):
    watch, _ = watched(spec, gamma, 3, SamplingParams())
    assert watch.checked > 5
    assert watch.target_gap < EQUAL
    assert watch.drafter_gap < EQUAL


def test_the_drafter_lacks_at_most_the_last_two_tokens():
    """One after a rejection; two after full acceptance, whose last token it never read."""
    assert watched("model:same", 3, 3, SamplingParams())[0].behind == 2
    assert watched("model:gpt2", 3, 3, SamplingParams())[0].behind in (1, 2)


@pytest.mark.parametrize("kind", ["gpt2", "opt", "phi", "qwen3", "olmo2"])
def test_other_architectures(kind):
    watch, _ = watched("early-exit:1", 3, 3, SAMPLED, kind)
    assert watch.checked > 10
    assert watch.target_gap < EQUAL


def test_a_drafter_of_another_architecture():
    watch, _ = watched("model:gpt2", 3, 3, SAMPLED)
    assert watch.drafter_gap < EQUAL
    assert watch.target_gap < EQUAL


def test_early_exit_leaves_its_layers_as_the_target_writes_them():
    """Between drafting and verifying, the shared layers hold what the target would write."""
    target = language_model("llama", num_hidden_layers=3)
    seen = []

    class Watched(LanguageModel):
        def forward(self, tokens, cache, starts, **options):
            if cache.num_rows > 1 and tokens.shape[1] > 1:
                ids = tokens[0].tolist()
                prefix = rows[0].tokens[:-1]
                seen.append(first_layers_gap(cache, [*prefix, *ids[:-1]], 2))
            return super().forward(tokens, cache, starts, **options)

    def first_layers_gap(cache, tokens, layers):
        fresh = target.new_cache(1, len(tokens))
        target.prefill(tokens, fresh)
        return max(
            (ours[layer][0, :, : len(tokens)] - theirs[layer][0]).abs().max().item()
            for ours, theirs in ((cache.keys, fresh.keys), (cache.values, fresh.values))
            for layer in range(layers)
        )

    from specbench.engine.loop import decode
    from specbench.engine.request import Limits
    from tests.tiny import make_decoder, make_drafter, make_session, shared_prefills

    watched_target = Watched(target.model, name="watched")
    batch = requests(2)
    session = make_session(target, batch, gamma=3, batch_size=2)
    rows = session.rows
    decoder = make_decoder(watched_target, make_drafter(target, "early-exit:2"), session)
    decode(decoder, batch, shared_prefills(target, batch), Limits(8))
    assert len(seen) > 3
    assert max(seen) < EQUAL


@torch.inference_mode()
def test_snapshots_fill_a_used_slot_as_a_prefill_would():
    target = language_model("llama")
    long, short = (list(range(1, 15)), [7, 8, 9])
    cache = target.new_cache(2, 20)
    tokens = torch.tensor([long, long])
    target.forward(tokens, cache, [0, 0])
    alone = target.new_cache(1, len(short))
    target.prefill(short, alone)
    snapshot = alone.snapshot(0, len(short))
    cache.restore(1, snapshot)
    alone.keys[0].zero_()
    assert cache_gap(target, cache, 1, short) == 0
    assert cache_gap(target, cache, 0, long) < EQUAL
    following = torch.tensor([[1, 2], [1, 2]])
    ours = target.forward(following, cache, [len(long), len(short)]).logits[1]
    theirs = target.model(torch.tensor([[*short, 1, 2]])).logits[0, -2:]
    assert torch.allclose(ours, theirs, atol=1e-5)


@torch.inference_mode()
def test_prefill_is_the_models_own_forward():
    target = language_model("llama")
    batch = requests(3)
    prefills = prefill_all(target, batch, FakeClock(tick_s=0.5))
    for request in batch:
        prefill = prefills[request.prompt_id]
        logits = target.model(torch.tensor([list(request.token_ids)])).logits[0, -1]
        assert torch.allclose(prefill.logits, logits, atol=1e-5)
        assert prefill.snapshot.keys[0].shape[2] == len(request.token_ids)
        assert prefill.seconds == 0.5
