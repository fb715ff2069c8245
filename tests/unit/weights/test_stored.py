"""Bytes of weights, counted by hand against what is stored, for every way to store them."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from specbench.models.description import architecture_of, held_bytes, traffic_of
from specbench.theory.layers import Stored
from specbench.weights.stored import (
    count_weights,
    num_bytes,
    packed_layers,
    quantised_part,
    stored_tensors,
)
from tests.quantised import PackedLinear, needs, quantised, wide_model

LAYERS = 2
MATRICES = {"q": (64, 64), "k": (32, 64), "v": (32, 64), "o": (64, 64),
            "gate": (96, 64), "up": (96, 64), "down": (64, 96)}  # fmt: skip
WEIGHTS = LAYERS * sum(rows * columns for rows, columns in MATRICES.values())  # 61,440
ROWS = LAYERS * sum(rows for rows, _ in MATRICES.values())  # 896
EMBEDDING = 61 * 64
NORMS = (2 * LAYERS + 1) * 64
FLOAT = 4


def bytes_of(module: nn.Module) -> int:
    return num_bytes(stored_tensors(module))


def test_a_plain_model():
    model = wide_model().model
    assert count_weights(model) == WEIGHTS + 2 * EMBEDDING + NORMS
    assert bytes_of(model) == FLOAT * count_weights(model)
    assert quantised_part(model) == {"layers": 0, "share_of_weights": 0.0}


def test_tied_weights_are_counted_once():
    layer = nn.Linear(64, 61, bias=False)
    embedding = nn.Embedding(61, 64)
    embedding.weight = layer.weight
    both = nn.ModuleList([layer, embedding])
    assert (count_weights(both), bytes_of(both)) == (EMBEDDING, FLOAT * EMBEDDING)


PACKED_BYTES = {
    # a byte per weight, a float32 scale and an int8 zero point per row
    "int8": WEIGHTS + ROWS * (FLOAT + 1),
    # half a byte per weight, scale and zero point in float32 per 32 weights
    "int4": WEIGHTS // 2 + WEIGHTS // 32 * 2 * FLOAT,
}


@needs("torchao")
@pytest.mark.parametrize("method", PACKED_BYTES)
def test_a_torchao_model_takes_what_its_integers_and_scales_take(method: str):
    model = quantised(wide_model(), method)
    plain = FLOAT * (EMBEDDING + NORMS)
    assert model.weight_bytes == PACKED_BYTES[method] + plain
    assert bytes_of(model.model) == PACKED_BYTES[method] + plain + FLOAT * EMBEDDING
    assert held_bytes([model.model]) - bytes_of(model.model) == held_bytes(
        [wide_model().model]
    ) - bytes_of(wide_model().model)  # tables of positions, as before
    assert count_weights(model.model) == count_weights(wide_model().model)
    share = WEIGHTS / (WEIGHTS + 2 * EMBEDDING + NORMS)
    assert quantised_part(model.model) == {"layers": 7 * LAYERS, "share_of_weights": share}


@needs("torchao")
def test_two_quantised_models_share_nothing_and_an_early_exit_everything():
    one, other = quantised(wide_model(), "int8"), quantised(wide_model(), "int8")
    assert held_bytes([one.model], beyond=other.model) == held_bytes([one.model])
    assert held_bytes([one.model.model.layers[0]], beyond=one.model) == 0


@needs("torchao")
@pytest.mark.parametrize("method", PACKED_BYTES)
def test_the_traffic_of_a_quantised_model_is_of_its_real_bytes(method: str):
    plain, packed = wide_model(), quantised(wide_model(), method)
    described, found = traffic_of(plain.model), traffic_of(packed.model)
    assert found.weight_bytes == packed.weight_bytes < plain.weight_bytes
    assert (found.multiplied, found.attention_flops) == (
        described.multiplied,
        described.attention_flops,
    )
    assert found.lookup_bytes == described.lookup_bytes == FLOAT * 64


@needs("torchao")
def test_theory_counts_the_same_bytes_of_int4():
    packed = quantised(wide_model(), "int4")
    plain = architecture_of(packed.model.config, bits=32)
    told = plain.__class__(**{**vars(plain), "matrices": Stored(4, group=32, scale_bits=2 * 32)})
    assert told.weight_bytes == bytes_of(packed.model)
    assert told.traffic().weight_bytes == packed.weight_bytes


def with_packed_layers() -> nn.Module:
    """The tiny model with GPTQ-like MLPs."""
    model = copy.deepcopy(wide_model().model)
    for layer in model.model.layers:
        for name in ("gate_proj", "up_proj"):
            setattr(layer.mlp, name, PackedLinear(64, 96))
    return model


def test_buffers_in_place_of_parameters_are_weights():
    model, plain = with_packed_layers(), wide_model().model
    packed = 64 * 96 // 2 + 2 * 96 // 2 + 2 * 96 * 2 + 64 * 4  # qweight, qzeros, scales, g_idx
    assert bytes_of(model) == bytes_of(plain) + 2 * LAYERS * (packed - FLOAT * 64 * 96)
    assert count_weights(model) == count_weights(plain)
    assert len(packed_layers(model)) == 2 * LAYERS
    assert traffic_of(model).multiplied == traffic_of(plain).multiplied
    assert (
        held_bytes([model]) - bytes_of(model)
        == held_bytes([plain]) - bytes_of(plain) + 2 * LAYERS * 32
    )  # the layers' own working buffers


def test_scales_in_attributes_are_weights():
    """As bitsandbytes keeps them: of 4 bits beside the weight, of 8 bits beside the layer."""
    four, eight = nn.Linear(64, 32, bias=False), nn.Linear(64, 32, bias=False)
    four.weight = nn.Parameter(torch.zeros(1024, 1, dtype=torch.uint8), requires_grad=False)
    nested = SimpleNamespace(absmax=torch.ones(1), code=torch.ones(256), state2=None)
    four.weight.quant_state = SimpleNamespace(
        absmax=torch.zeros(32, dtype=torch.uint8), code=torch.ones(16), state2=nested
    )
    assert bytes_of(four) == 1024 + 32 + 16 * FLOAT + (1 + 256) * FLOAT
    eight.weight = nn.Parameter(torch.zeros(32, 64, dtype=torch.int8), requires_grad=False)
    eight.state = SimpleNamespace(CB=eight.weight.data, SCB=torch.ones(32), threshold=6.0)
    assert bytes_of(eight) == 32 * 64 + 32 * FLOAT
    assert count_weights(four) == count_weights(eight) == 64 * 32


@needs("bitsandbytes")
def test_bitsandbytes_itself(tmp_path):
    from specbench.weights.loading import load_causal_lm
    from tests.unit.weights.tiny import write_folder

    folder = write_folder(tmp_path / "tiny")
    plain = load_causal_lm(str(folder), device="cpu")
    inside = 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 64 * 32)
    for method, packed in {
        "bnb-8bit": inside + 2 * (32 + 16 + 16 + 32 + 64 + 64 + 32) * FLOAT,
        "bnb-4bit": inside // 2 + inside // 64 * FLOAT + 14 * 16 * FLOAT,  # and a code per layer
    }.items():
        loaded = load_causal_lm(str(folder), device="cpu", quantization=method)
        expected = plain.weight_bytes - FLOAT * inside + packed
        assert loaded.weight_bytes == expected
        with torch.inference_mode():  # which moves the scales of 8 bits
            loaded.model(torch.tensor([[1, 2, 3]]))
        assert bytes_of(loaded.model) == expected
        assert loaded.parameters == plain.parameters
