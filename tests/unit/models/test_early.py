"""The first layers of a model equal a model that has only those."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from specbench.errors import SpecbenchError
from specbench.models.early import first_layers
from specbench.models.language_model import LanguageModel
from tests.tiny import language_model, random_model

IDS = torch.tensor([[5, 17, 3, 44, 8, 21, 9]])


@pytest.mark.parametrize("kind", ["llama", "qwen3", "gpt2", "opt", "phi", "phi3", "gemma", "olmo2"])
@torch.inference_mode()
def test_it_equals_a_model_made_with_fewer_layers(kind):
    target = language_model(kind, num_hidden_layers=4)
    short = random_model(kind, seed=99, num_hidden_layers=2)
    weights = target.model.state_dict()
    short.load_state_dict({name: weights[name] for name in short.state_dict()})
    exit_ = first_layers(target, 2)
    assert torch.equal(exit_.model(IDS).logits, short(IDS).logits)
    cache = exit_.new_cache(1, 7)
    assert torch.allclose(
        exit_.prefill(IDS[0].tolist(), cache), short(IDS).logits[0, -1], atol=1e-5
    )
    assert len(cache.keys) == 2


@torch.inference_mode()
def test_the_target_is_left_as_it_was():
    target = language_model("llama", num_hidden_layers=4)
    before = target.model(IDS).logits
    exit_ = first_layers(target, 1)
    assert torch.equal(target.model(IDS).logits, before)
    assert target.config.num_hidden_layers == target.model.config.num_hidden_layers == 4
    assert exit_.config.num_hidden_layers == 1
    ours = {p.data_ptr() for p in exit_.model.parameters()}
    assert ours < {p.data_ptr() for p in target.model.parameters()}
    assert exit_.weight_bytes < target.weight_bytes


def test_layer_types_are_cut_too():
    target = language_model("qwen2", num_hidden_layers=3)
    assert len(first_layers(target, 2).config.layer_types) == 2
    assert len(target.config.layer_types) == 3


@pytest.mark.parametrize("count", [0, -1, 4, 5])
def test_the_bounds_are_named(count):
    target = language_model("llama", num_hidden_layers=4)
    with pytest.raises(SpecbenchError) as raised:
        first_layers(target, count)
    assert f"early-exit:{count} needs a number of layers from 1 to 3" in str(raised.value)
    assert "tiny-llama has 4 layers" in raised.value.hint


def test_a_model_without_a_list_of_layers_is_refused():
    target = LanguageModel(random_model("llama"), name="odd")
    target.model.model.layers = nn.Sequential(*target.model.model.layers)
    with pytest.raises(SpecbenchError, match="no list of 2 layers in LlamaForCausalLM"):
        first_layers(target, 1)
