"""Bytes to the byte: three published architectures counted by hand, and what differs from them."""

from __future__ import annotations

import numpy as np
import pytest

from specbench.theory.architecture import Architecture
from specbench.theory.layers import Attention, Latent, Layer, Mixture, Mlp, Stored
from specbench.theory.traffic import Experts, Window
from tests.forwards import flops, forward


def llama_8b() -> Architecture:
    """Llama-3.1-8B: dense, four query heads share a key and value head."""
    layer = Layer(Attention(heads=32, kv_heads=8, head_dim=128), Mlp(14336), vectors=2 * 4096)
    return Architecture(hidden=4096, vocabulary=128256, layers=(layer,) * 32, vectors=4096)


def qwen_30b_a3b() -> Architecture:
    """Qwen3-30B-A3B: 8 of 128 experts; norms on queries and keys."""
    layer = Layer(
        Attention(heads=32, kv_heads=4, head_dim=128),
        Mixture(count=128, active=8, width=768),
        vectors=2 * 2048 + 2 * 128,
    )
    return Architecture(hidden=2048, vocabulary=151936, layers=(layer,) * 48, vectors=2048)


def t5_xxl() -> Architecture:
    """T5 v1.1 XXL: an encoder-decoder with its own output layer and tables of position biases."""
    attention, mlp = Attention(heads=64, kv_heads=64, head_dim=64), Mlp(10240)
    return Architecture(
        hidden=4096,
        vocabulary=32128,
        layers=(Layer(attention, mlp, 3 * 4096, cross=attention),) * 24,
        encoder=(Layer(attention, mlp, 2 * 4096),) * 24,
        vectors=4096 + 32 * 64,
        encoder_vectors=4096 + 32 * 64,
    )


@pytest.mark.parametrize(
    ("architecture", "parameters"),
    [(llama_8b(), 8_030_261_248), (qwen_30b_a3b(), 30_532_122_624), (t5_xxl(), 11_135_332_352)],
)
def test_parameters_are_the_published_numbers(architecture: Architecture, parameters: int):
    assert architecture.parameters == parameters
    assert architecture.weight_bytes == 2 * parameters


def test_dense_with_grouped_queries_by_hand():
    """Per layer 16,777,216 for queries and as many for the output, 8,388,608 for keys and values,
    176,160,768 in the MLP, 8,192 in norms: 218,112,000. Output layer 525,336,576, last norm 4,096.
    """
    traffic = llama_8b().traffic()
    weights = 2 * (32 * 218_112_000 + 525_336_576 + 4_096)
    assert weights == 15_009_849_344
    kv = 32 * 2 * 8 * 128 * 2  # layers, K and V, heads, width, bytes
    assert traffic.kv_bytes_per_token == kv == 131_072
    step = forward(traffic, [1000])
    assert step == (weights, 2 * 4096, 1000 * kv, kv)
    assert step.total == 15_141_060_608
    verify = forward(traffic, [1000, 500], new=5)  # weights once, K/V by each row's own length
    assert verify == (weights, 10 * 2 * 4096, 1500 * kv, 10 * kv)
    assert verify.total == 15_207_849_984


def test_a_mixture_of_experts_by_hand():
    """Per layer 16,777,216 + 2,097,152 in attention, 262,144 in the router, 4,352 in norms, and
    128 experts of 4,718,592 each; output layer 311,164,928, last norm 2,048."""
    traffic = qwen_30b_a3b().traffic()
    common = 2 * (48 * (16_777_216 + 2_097_152 + 262_144 + 4_352) + 311_164_928 + 2_048)
    experts = 2 * 48 * 128 * 4_718_592
    kv = 48 * 2 * 4 * 128 * 2
    step = forward(traffic, [100])
    assert step == (common + experts * 8 // 128, 2 * 2048, 100 * kv, kv)
    assert step.total == 6_093_668_352
    # ten tokens touch 128 (1 - (15/16)^10) = 60.9 experts of a layer, were routing uniform
    verify = forward(traffic, [100, 100], new=5)
    touched = experts * (16**10 - 15**10) / 16**10
    assert verify.weights == pytest.approx(common + touched, abs=1.0)
    assert forward(traffic, [0] * 10_000).weights == pytest.approx(common + experts)


def test_an_encoder_decoder_by_hand():
    """A decoder layer reads 67,108,864 for its own attention, of cross-attention only queries and
    output, 33,554,432, since the source's keys and values are cached, 125,829,120 in the MLP and
    12,288 in norms. The encoder is not read."""
    traffic = t5_xxl().traffic()
    layer = 67_108_864 + 33_554_432 + 125_829_120 + 12_288
    weights = 2 * (24 * layer + 131_596_288 + 4_096 + 2_048)
    assert weights == 11_135_430_656
    kv = 24 * 2 * 64 * 64 * 2
    step = forward(traffic, [10], source=[300])
    assert step == (weights, 2 * 4096, 10 * kv + 300 * kv, kv)
    assert step.total == 11_257_729_024


def test_a_tied_embedding_is_read_as_output_layer_and_not_looked_up():
    layer = Layer(Attention(2, 1, 4), Mlp(16), vectors=16)
    untied = Architecture(8, 50, (layer,))
    tied = Architecture(8, 50, (layer,), tied=True)
    assert untied.parameters - tied.parameters == 400
    assert forward(untied.traffic(), [1]).weights == forward(tied.traffic(), [1]).weights
    assert (untied.traffic().lookup_bytes, tied.traffic().lookup_bytes) == (16, 0)


def test_a_window_reads_its_last_tokens_only():
    full, near = (Layer(Attention(2, 1, 4, window=w), Mlp(16), 16) for w in (None, 8))
    traffic = Architecture(8, 50, (full, near, near)).traffic()
    assert traffic.windows == (Window(8, 2 * 16),)
    # a token sees itself and the 7 before it
    assert forward(traffic, [100]).kv_read == 100 * 16 + 7 * 32
    assert forward(traffic, [5]).kv_read == 5 * 48
    assert forward(traffic, [100], new=3).kv_written == 3 * 48


def test_latent_attention_caches_one_vector():
    """DeepSeek-V3: 512 numbers and a rotated key of 64 per token and layer."""
    latent = Latent(rank=512, rope_dim=64, nope_dim=128, value_dim=128, query_rank=1536)
    attention = Attention(heads=128, kv_heads=128, head_dim=128, latent=latent)
    vectors = 2 * 7168 + 1536 + 512
    dense = Layer(attention, Mlp(18432), vectors)
    sparse = Layer(attention, Mixture(256, 8, 2048, shared_width=2048), vectors)
    model = Architecture(7168, 129280, (dense,) * 3 + (sparse,) * 58, vectors=7168)
    routing_biases = 58 * 256  # published with the weights; added to scores, never multiplied
    assert model.parameters + routing_biases == 671_026_419_200
    assert model.traffic().kv_bytes_per_token == 61 * (512 + 64) * 2


def test_quantised_weights_count_their_scales():
    """4 bits, and a 16-bit scale and zero point for every 128 weights."""
    layer = Layer(Attention(2, 2, 64), Mlp(256), vectors=256)
    matrices = 4 * 128 * 128 + 3 * 128 * 256
    model = Architecture(128, 100, (layer,), matrices=Stored(4, group=128, scale_bits=32))
    packed = matrices // 2 + matrices // 128 * 4
    assert model.traffic().weight_bytes == packed + 2 * (256 + 12_800)
    assert model.weight_bytes == packed + 2 * (256 + 2 * 12_800)
    assert model.traffic().kv_bytes == 2 * 2 * 64 * 2  # the cache is not quantised
    assert Stored(4, group=128, scale_bits=32).num_bytes(129) == 73  # part of a byte, two scales


def test_operations_of_a_dense_forward_by_hand():
    traffic = llama_8b().traffic()
    multiplied = 32 * 218_103_808 + 525_336_576  # matrices, not norms nor the looked-up embedding
    pair = 32 * 4 * 32 * 128  # per layer and head: a score and a share of the value
    # five tokens see 1001 to 1005 tokens
    assert flops(traffic, [1000], new=5) == 2 * multiplied * 5 + pair * 5015


def test_a_token_is_multiplied_with_its_own_experts_only():
    common = 16_777_216 + 2_097_152 + 262_144
    active = 8 * 4_718_592
    assert qwen_30b_a3b().traffic().multiplied == 48 * (common + active) + 311_164_928


def test_touched_experts_rise_and_saturate():
    experts = Experts(128.0, count=128, active=8)
    read = experts.read(np.array([1, 2, 10, 1000]))
    assert read[:2] == pytest.approx([8.0, 8.0 + 8.0 * 15 / 16])
    assert np.all(np.diff(read) > 0)
    assert read[-1] == pytest.approx(128.0)
    assert Experts().read(5) == 0


def test_layers_that_route_differently_are_not_one_number():
    layers = tuple(Layer(Attention(1, 1, 4), Mixture(4, active, 8), 8) for active in (1, 2))
    with pytest.raises(ValueError, match="routed differently"):
        Architecture(4, 10, layers).traffic()
