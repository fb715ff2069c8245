"""Described architectures against loaded modules: parameters, caches, and who is not believed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from specbench.backends._costs import target_costs
from specbench.models import description
from specbench.models.description import architecture_of, experts_of, held_bytes, traffic_of
from specbench.models.language_model import LanguageModel
from specbench.theory.traffic import Experts
from tests.families import FAMILIES, tiny
from tests.tiny import ARCHITECTURES, config, random_model

DESCRIBED = ("llama", "qwen2", "qwen3", "mistral", "phi3", "gemma")
MIXTURE = {
    "vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 24,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "num_experts": 8, "num_experts_per_tok": 2, "mlp_only_layers": [0],
    "max_position_embeddings": 128, "pad_token_id": None, "tie_word_embeddings": False,
}  # fmt: skip


def module(kind: str, **fields: Any) -> nn.Module:
    """A model of transformers with weights that nobody looks at."""
    import transformers

    made = transformers.CONFIG_MAPPING[kind](**fields)
    models = (transformers.AutoModelForCausalLM, transformers.AutoModelForSeq2SeqLM)
    return models[kind == "t5"].from_config(made)


def count(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


@pytest.mark.parametrize("kind", DESCRIBED)
@pytest.mark.parametrize("tied", [False, True])
def test_a_dense_model_has_the_described_parameters_and_bytes(kind: str, tied: bool):
    model = random_model(kind, tie_word_embeddings=tied)
    architecture = architecture_of(model.config, bits=32)
    assert architecture.parameters == count(model)
    traffic, seen = traffic_of(model), LanguageModel(model)
    assert traffic == architecture.traffic()
    assert traffic.weight_bytes == seen.weight_bytes
    cache = seen.new_cache(1, 4)
    seen.prefill([1, 2, 3], cache)
    assert traffic.kv_bytes_per_token == cache.bytes_per_token


@pytest.mark.parametrize("changes", [{"attention_bias": True}, {"mlp_bias": True}])
def test_biases_are_counted(changes: dict[str, bool]):
    model = random_model("llama", **changes)
    assert architecture_of(model.config, 32).parameters == count(model)


def test_a_mixture_with_a_dense_layer():
    model = module("qwen3_moe", **MIXTURE)
    architecture = architecture_of(model.config, bits=32)
    assert architecture.parameters == count(model)
    traffic = traffic_of(model)
    experts = [weight for name, weight in model.named_parameters() if ".experts." in name]
    assert traffic.experts == (traffic.experts.__class__)(
        4 * sum(weight.numel() for weight in experts), 8, 2
    )
    assert traffic.weight_bytes + traffic.experts.num_bytes == LanguageModel(model).weight_bytes


def test_mixtral_has_experts_as_wide_as_a_dense_layer():
    fields = {**MIXTURE, "num_local_experts": 4}
    for name in ("moe_intermediate_size", "num_experts", "mlp_only_layers"):
        del fields[name]
    model = module("mixtral", **fields)
    assert architecture_of(model.config, 32).parameters == count(model)


def test_latent_attention():
    model = module(
        "deepseek_v3", vocab_size=61, hidden_size=32, intermediate_size=48,
        moe_intermediate_size=16, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=4, n_shared_experts=1, n_routed_experts=8, n_group=1, topk_group=1,
        num_experts_per_tok=2, first_k_dense_replace=1, kv_lora_rank=16, q_lora_rank=24,
        qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8, pad_token_id=None,
        max_position_embeddings=128,
    )  # fmt: skip
    assert architecture_of(model.config, 32).parameters == count(model)


@pytest.mark.parametrize("projection", ["relu", "gated-gelu"])
def test_an_encoder_decoder(projection: str):
    model = module(
        "t5", vocab_size=61, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_decoder_layers=3,
        num_heads=4, feed_forward_proj=projection, decoder_start_token_id=0,
    )  # fmt: skip
    architecture = architecture_of(model.config, bits=32)
    assert architecture.parameters == count(model)
    assert architecture.weight_bytes == 4 * count(model)
    # what a decoding step multiplies with: everything of the decoder but cached K/V, once
    decoder = [
        weight
        for name, weight in model.named_parameters()
        if name.startswith("decoder.block")
        and not any(part in name for part in ("EncDecAttention.k.", "EncDecAttention.v."))
    ]
    read = sum(weight.numel() for weight in decoder) + count_of(model, "decoder.final")
    head = model.get_output_embeddings().weight.numel()
    assert traffic_of(model).weight_bytes == 4 * (read + head)
    assert traffic_of(model).source_kv_bytes == 4 * 3 * 2 * 32


def count_of(model: nn.Module, prefix: str) -> int:
    return sum(w.numel() for name, w in model.named_parameters() if name.startswith(prefix))


@pytest.mark.parametrize("kind", sorted(set(ARCHITECTURES) - {*DESCRIBED}))
def test_a_family_that_is_not_described_has_no_traffic(kind: str):
    assert traffic_of(random_model(kind)) is None


def test_a_description_that_misses_a_weight_is_not_believed():
    model = random_model("llama")
    model.model.layers[0].mlp.extra = nn.Parameter(torch.zeros(1))
    assert traffic_of(model) is None


def test_weights_of_several_sizes_are_not_described():
    model = random_model("llama")
    model.model.norm = model.model.norm.half()
    assert traffic_of(model) is None


def test_a_window_is_read_from_the_config_where_it_is_used():
    sliding = config("mistral", sliding_window=16)
    assert {layer.attention.window for layer in architecture_of(sliding).layers} == {16}
    assert {layer.attention.window for layer in architecture_of(config("mistral")).layers} == {None}


def test_bytes_that_are_held_count_what_is_shared_once():
    tied = random_model("llama", tie_word_embeddings=True)
    buffers = sum(b.numel() * b.element_size() for b in tied.buffers())
    unique = {b.data_ptr(): b.numel() * b.element_size() for b in tied.buffers()}
    assert held_bytes([tied]) == 4 * count(tied) + sum(unique.values()) <= 4 * count(tied) + buffers
    assert held_bytes([tied, tied]) == held_bytes([tied])
    assert held_bytes([tied.model, nn.Linear(3, 5, bias=False)], beyond=tied) == 4 * 15


@pytest.mark.parametrize("kind", ["olmoe", "granitemoe", "gpt_oss", "mixtral", "deepseek_v3"])
def test_experts_are_found_in_families_that_are_not_described(kind: str):
    target = tiny(next(family for family in FAMILIES if family.kind == kind))
    experts = experts_of(target.model)
    own = [weight for name, weight in target.model.named_parameters() if ".experts." in name]
    assert experts == Experts(4 * sum(weight.numel() for weight in own), 4, 2)
    assert 0 < experts.num_bytes < target.weight_bytes


def test_a_dense_model_has_no_experts_and_an_unknown_mixture_none_that_could_be_counted(
    monkeypatch,
):
    assert experts_of(random_model("llama")) == Experts()
    model = module("qwen3_moe", **MIXTURE)
    monkeypatch.setattr(description, "_EXPERT_COUNTS", ("experts_by_another_name",))
    assert experts_of(model) is None


def test_what_a_forward_of_an_undescribed_mixture_reads():
    found = target_costs(1000.0, None, Experts(800, 8, 2))
    assert (found["weight_bytes"], found["expert_bytes"]) == (1000.0, 800)
    assert (found["num_experts"], found["active_experts"]) == (8, 2)
    assert target_costs(1000.0, None, None) == {"weight_bytes": None}
    assert target_costs(1000.0, None, Experts())["expert_bytes"] == 0
