"""Queries of a group as further queries of one head: the same attention, and no copies."""

from __future__ import annotations

import copy

import pytest
import torch

from specbench.models import grouped
from specbench.models.grouped import group_queries
from specbench.models.language_model import LanguageModel
from tests.lossless import greedy_faults
from tests.tiny import (
    hugging_face_greedy,
    language_model,
    noisy_copy,
    random_model,
    requests,
    run_cell,
)


@pytest.mark.parametrize("width", [1, 5])
@pytest.mark.parametrize("kind", ["llama", "qwen3", "mistral", "phi3", "gemma", "olmo2"])
def test_logits_are_those_of_the_usual_attention(kind, width):
    plain = LanguageModel(random_model(kind))
    packed = LanguageModel(copy.deepcopy(plain.model))
    assert group_queries(packed.model)
    tokens = torch.randint(0, 61, (3, 9 + width))
    for model in (plain, packed):
        model.cache = model.new_cache(3, 20)
        model.forward(tokens[:, :9], model.cache, [0, 0, 0])
        model.logits = model.forward(tokens[:, 9:], model.cache, [9, 4, 7]).logits
    assert torch.allclose(plain.logits, packed.logits, atol=1e-5)
    assert not torch.equal(plain.logits, plain.logits.roll(1, dims=0))


def test_no_key_or_value_is_copied(monkeypatch):
    packed = LanguageModel(random_model("llama"))
    group_queries(packed.model)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the usual way")

    monkeypatch.setattr(grouped, "sdpa_attention_forward", refuse)
    cache = packed.new_cache(2, 20)
    packed.forward(torch.ones(2, 3, dtype=torch.long), cache, [0, 0])
    monkeypatch.setattr(grouped, "MOST_TOKENS", 2)
    with pytest.raises(AssertionError, match="the usual way"):
        packed.forward(torch.ones(2, 3, dtype=torch.long), cache, [0, 0])


def test_whole_cells_say_what_generate_says():
    target = LanguageModel(random_model("llama"), name="packed")
    near = {"near": noisy_copy(target, 0.15)}
    batch = requests(5)
    expected = hugging_face_greedy(target, batch, 12)
    group_queries(target.model)
    for spec, gamma in ((None, 0), ("model:near", 4), ("model:near,tree=12,topk=3", 3)):
        generation = run_cell(
            target, spec, batch, gamma=gamma, batch_size=3, max_new_tokens=12, models=near
        )
        assert greedy_faults(generation.outputs, expected) == []


@pytest.mark.parametrize("beyond", ["position_bias", "softcap", "mask per head"])
def test_what_the_kernel_cannot_share_goes_the_usual_way(monkeypatch, beyond):
    asked: list[str] = []
    monkeypatch.setattr(grouped, "sdpa_attention_forward", lambda *_, **__: asked.append(beyond))
    heads = 4 if beyond == "mask per head" else 1
    options = {} if beyond == "mask per head" else {beyond: 1.0}
    query, key = torch.zeros(1, 4, 2, 8), torch.zeros(1, 2, 6, 8)
    grouped.grouped_attention(
        torch.nn.Identity(), query, key, key, torch.zeros(1, heads, 2, 6), **options
    )
    assert asked == [beyond]


@pytest.mark.parametrize("kind", ["gpt2", "phi", "opt"])
def test_models_whose_heads_share_nothing_stay_as_they_are(kind):
    assert not group_queries(language_model(kind).model)


def test_eager_attention_stays_eager():
    model = random_model("llama", attn_implementation="eager")
    assert not group_queries(model)
    assert model.config._attn_implementation == "eager"
