"""A checkpoint in each published layout loads, and computes what its paper says.

Compared with forwards that share no code with specbench, in float32.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from specbench.heads.checkpoint import load_eagle, load_eagle3, load_medusa
from specbench.models.language_model import LanguageModel
from tests import published
from tests.tiny import language_model
from tests.unit.heads import plain

EQUAL = {"atol": 1e-5, "rtol": 1e-5}
IDS = tuple(range(2, 61, 3))
THREE = {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}


@pytest.fixture(scope="module")
def target() -> LanguageModel:
    return language_model("llama")


@pytest.fixture
def head(tmp_path) -> Path:
    return tmp_path / "head"


def config_of(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text(encoding="utf-8"))


def text(target: LanguageModel, length: int = 9) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Tokens [S] and the target's states [S, H] entering each layer."""
    tokens = torch.randint(0, 61, (length,), generator=torch.Generator().manual_seed(3))
    found = target.model(tokens[None], output_hidden_states=True, use_cache=False)
    return tokens, tuple(states[0] for states in found.hidden_states)


def embed(weight: Tensor, tokens: Tensor) -> Tensor:
    return weight[tokens]


def positions(length: int) -> Tensor:
    return torch.arange(length)[None]


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("file", ["medusa_lm_head.safetensors", "medusa_lm_head.pt"])
@torch.inference_mode()
def test_medusa_of_version_2(target, head, file, num_layers):
    published.write_medusa(head, target, num_heads=5, num_layers=num_layers, file=file)
    loaded = load_medusa(str(head), target).head
    assert len(loaded) == 5, "the config says 2, the tensors 5"
    tensors = published.medusa_tensors(target, 5, num_layers, 2, seed=1)
    states = text(target)[1][-1]
    expected = plain.medusa_states(tensors, states, 5, num_layers)
    lm_head = target.model.get_output_embeddings()
    assert loaded.lm_heads == []
    assert torch.allclose(lm_head(loaded(states)), lm_head(expected), **EQUAL)


@pytest.mark.parametrize("num_layers", [1, 2])
@torch.inference_mode()
def test_medusa_of_version_1_has_output_layers_of_its_own(target, head, num_layers):
    published.write_medusa(head, target, num_layers=num_layers, version=1)
    loaded = load_medusa(str(head), target).head
    tensors = published.medusa_tensors(target, 4, num_layers, 1, seed=1)
    states = text(target)[1][-1]
    ours = loaded(states)
    theirs = plain.medusa_states(tensors, states, 4, num_layers)
    for index, layer in enumerate(loaded.lm_heads):
        expected = theirs[index] @ tensors[f"{index}.{num_layers}.weight"].T
        assert torch.allclose(layer(ours[index]), expected, **EQUAL)
    assert len(loaded.lm_heads) == 4


@pytest.mark.parametrize("kind", ["gpt2", "opt", "gemma", "qwen3"])
@torch.inference_mode()
def test_the_last_state_is_what_the_output_layer_reads(kind):
    """Medusa and EAGLE-1 feed what stands for it to the same layer."""
    target = language_model(kind)
    tokens = torch.tensor([[3, 1, 4, 1, 5]])
    output = target.forward(
        tokens, target.new_cache(1, 5), [0], hidden_layers=[target.config.num_hidden_layers]
    )
    state = output.hidden[target.config.num_hidden_layers]
    assert torch.allclose(target.model.get_output_embeddings()(state), output.logits, **EQUAL)


@pytest.mark.parametrize("file", ["pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("embedding", [True, False])
@torch.inference_mode()
def test_eagle(target, head, bias, embedding, file):
    published.write_eagle(head, target, bias=bias, embedding=embedding, file=file)
    loaded = load_eagle(str(head), target)
    tensors = published.eagle_tensors(target, bias=bias, embedding=embedding)
    own = tensors.get("embed_tokens.weight", target.model.get_input_embeddings().weight)
    tokens, states = text(target)
    embedded = embed(own, tokens[1:])
    expected = plain.eagle_outputs(tensors, config_of(head), embedded, states[-1][:-1])
    ours = loaded.head(loaded.embedding(tokens[1:])[None], states[-1][None, :-1], positions(8))[0]
    assert torch.allclose(ours, expected, **EQUAL)
    assert (loaded.embedding is target.model.get_input_embeddings()) == (not embedding)
    assert loaded.layers == (2,)


@torch.inference_mode()
def test_eagle_whose_projections_have_biases(target, head):
    """As in heads for Qwen2."""
    tensors = published.eagle_tensors(target)
    for name in "qkv":
        size = len(tensors[f"layers.0.self_attn.{name}_proj.weight"])
        tensors[f"layers.0.self_attn.{name}_proj.bias"] = torch.linspace(-1, 1, size)
    config = published.layer_config(target)
    published.write(head, config, tensors, "model.safetensors")
    loaded = load_eagle(str(head), target)
    tokens, states = text(target)
    embedded = loaded.embedding(tokens[1:])
    expected = plain.eagle_outputs(tensors, config, embedded, states[-1][:-1])
    ours = loaded.head(embedded[None], states[-1][None, :-1], positions(8))[0]
    assert torch.allclose(ours, expected, **EQUAL)


def test_embeddings_equal_to_the_targets_are_not_kept_twice(target, head):
    tensors = published.eagle_tensors(target)
    tensors["embed_tokens.weight"] = target.model.get_input_embeddings().weight.detach().clone()
    published.write(head, published.layer_config(target), tensors, "pytorch_model.bin")
    embedding = load_eagle(str(head), target).embedding
    assert embedding is target.model.get_input_embeddings()


def test_a_checkpoint_in_shards(target, head):
    tensors = published.eagle_tensors(target)
    names = sorted(tensors)
    shards = {
        "pytorch_model-00001-of-00002.bin": names[:4],
        "pytorch_model-00002-of-00002.bin": names[4:],
    }
    for file, own in shards.items():
        part = {name: tensors[name] for name in own}
        published.write(head, published.layer_config(target), part, file)
    table = {name: file for file, own in shards.items() for name in own}
    (head / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": table}))
    state = load_eagle(str(head), target).head.state_dict()
    assert all(torch.equal(state[name], tensors[name]) for name in tensors)


def test_safetensors_are_preferred(target, head):
    published.write_eagle(head, target, seed=1, file="pytorch_model.bin")
    published.write_eagle(head, target, seed=2, file="model.safetensors")
    weight = load_eagle(str(head), target).head.fc.weight
    assert torch.equal(weight, published.eagle_tensors(target, seed=2)["fc.weight"])


@pytest.mark.parametrize("layout", ["own", "speculators"])
@pytest.mark.parametrize("ids", [IDS, None], ids=["d2t", "all"])
@pytest.mark.parametrize("norm_before_residual", [True, False])
@torch.inference_mode()
def test_eagle3(target, head, ids, layout, norm_before_residual):
    write = published.write_eagle3 if layout == "own" else published.write_speculators
    write(head, target, ids=ids, norm_before_residual=norm_before_residual, **THREE)
    loaded = load_eagle3(str(head), target)
    tensors = published.eagle3_tensors(target, ids)
    config = published.layer_config(target)
    tokens, states = text(target)
    features = torch.cat([states[layer][:-1] for layer in (0, 1, 2)], dim=-1)
    embedded = loaded.embedding(tokens[1:])
    first = features @ tensors["fc.weight"].T
    expected = plain.eagle3_outputs(tensors, config, embedded, first, norm_before_residual)
    ours = loaded.head(embedded[None], loaded.head.combine(features)[None], positions(8))
    assert torch.allclose(ours[0], expected, **EQUAL)
    logits = plain.eagle3_logits(tensors, config, expected)
    assert torch.allclose(loaded.head.logits(ours)[0], logits, **EQUAL)
    assert loaded.ids is None if ids is None else loaded.ids.tolist() == list(ids)
    assert loaded.notes == ()


def test_eagle3_reads_three_depths_by_default(head):
    target = language_model("llama", num_hidden_layers=8)
    published.write_eagle3(head, target)
    assert load_eagle3(str(head), target).layers == (2, 4, 5)


def test_eagle3_with_embeddings_of_its_own(target, head):
    published.write_eagle3(head, target, embedding=True, **THREE)
    own = published.eagle3_tensors(target, None, embedding=True)["embed_tokens.weight"]
    assert torch.equal(load_eagle3(str(head), target).embedding.weight, own)


def test_eagle3_without_its_mask_of_ids(target, head):
    """``t2d`` says nothing that ``d2t`` does not."""
    tensors = published.eagle3_tensors(target, IDS)
    del tensors["t2d"]
    config = published.layer_config(target, draft_vocab_size=len(IDS), **THREE)
    published.write(head, config, tensors, "pytorch_model.bin")
    assert load_eagle3(str(head), target).ids.tolist() == list(IDS)


def test_what_speculators_leave_open_is_said(target, head):
    published.write_speculators(head, target, **THREE)
    loaded = load_eagle3(str(head), target)
    assert not loaded.head.midlayer.norm_before_residual
    assert ["norm_before_residual" in note and "False" in note for note in loaded.notes] == [True]


def test_a_head_takes_the_targets_dtype_but_its_positions_stay_exact(target, head):
    import copy

    half = LanguageModel(copy.deepcopy(target.model).to(torch.bfloat16), name="half")
    published.write_eagle(head, half, embedding=True)
    loaded = load_eagle(str(head), half)
    assert {weight.dtype for weight in loaded.head.parameters()} == {torch.bfloat16}
    assert loaded.embedding.weight.dtype == torch.bfloat16
    assert loaded.head.layers[0].rotary.inv_freq.dtype == torch.float32
    assert not any(weight.requires_grad for weight in loaded.head.parameters())


def test_eagle3_layers_may_stand_in_a_config_of_their_own(target, head):
    published.write_eagle3(head, target, eagle_config=THREE)
    assert load_eagle3(str(head), target).layers == (0, 1, 2)
