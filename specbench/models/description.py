"""From a transformers config to :class:`specbench.theory.architecture.Architecture`.

A config says how wide things are, not which norms and biases there are: that is told here, family
by family. So that no family is told wrongly, :func:`traffic_of` believes a description only if it
has exactly as many parameters as the loaded module.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from specbench.models.reading import read_by_forward
from specbench.theory.architecture import Architecture
from specbench.theory.layers import Attention, Latent, Layer, Mixture, Mlp, Stored
from specbench.theory.traffic import NO_EXPERTS, Experts, Traffic
from specbench.weights.stored import (
    count_weights,
    is_plain,
    num_bytes,
    packed_layers,
    stored_tensors,
)

_EXPERT_COUNTS = ("num_experts", "num_local_experts", "n_routed_experts")
_HEAD_NORMS = {"qwen3", "qwen3_moe"}  # norms of a head's width on queries and keys
_QUERY_BIASES = {"qwen2", "qwen2_moe"}  # on queries, keys and values, but not on the output
_LIKE_LLAMA = {"llama", "mistral", "mixtral", "phi3", "gemma", *_HEAD_NORMS, "qwen2"}


def architecture_of(config: Any, bits: int = 16) -> Architecture | None:
    """What a config describes; None for a family that is not told here.

    Args:
        config: of a transformers model.
        bits: of every weight and of every number in the cache.
    """
    text = config.get_text_config(decoder=True)
    kind = text.model_type
    if kind == "t5":
        return _t5(text, bits)
    if kind == "deepseek_v3":
        layers = tuple(_latent_layer(text, index) for index in range(text.num_hidden_layers))
    elif kind in _LIKE_LLAMA:
        layers = tuple(_layer(text, index) for index in range(text.num_hidden_layers))
    else:
        return None
    return Architecture(
        hidden=text.hidden_size,
        vocabulary=text.vocab_size,
        layers=layers,
        tied=bool(config.tie_word_embeddings),
        vectors=text.hidden_size,
        stored=Stored(bits),
        kv_bits=bits,
    )


def traffic_of(model: nn.Module) -> Traffic | None:
    """What a loaded model's forwards move and compute, quantised weights by their real bytes.

    Returns:
        None where the config's description does not account for every weight of the module.
    """
    plain = [weight for weight in model.parameters() if is_plain(weight)]
    sizes = {weight.element_size() for weight in plain}
    if len(sizes) != 1:
        return None
    architecture = architecture_of(model.config, 8 * sizes.pop())
    if architecture is None or architecture.parameters != count_weights(model):
        return None
    described = architecture.traffic()
    if not packed_layers(model):
        return described
    experts = _stored_experts(model)
    return replace(
        described,
        weight_bytes=num_bytes(read_by_forward(model), without=experts),
        experts=replace(described.experts, num_bytes=num_bytes(experts)),
    )


def experts_of(model: nn.Module) -> Experts | None:
    """The experts of a loaded module, whether or not its family is told here.

    Returns:
        None where there are some and the config does not say how many, and to how many a token is
        sent: then nobody knows what a forward reads.
    """
    stored, text = _stored_experts(model), model.config.get_text_config()
    if not stored:
        return NO_EXPERTS
    counts = (getattr(text, name, None) for name in _EXPERT_COUNTS)
    count, active = next(filter(None, counts), None), getattr(text, "num_experts_per_tok", None)
    return Experts(num_bytes(stored), count, active) if count and active else None


def _stored_experts(model: nn.Module) -> dict[int, Tensor]:
    return stored_tensors(*(m for path, m in model.named_modules() if path.endswith(".experts")))


def held_bytes(modules: Iterable[nn.Module], beyond: nn.Module | None = None) -> int:
    """Bytes that the parameters and buffers of modules take in memory, shared ones once.

    Args:
        beyond: what is shared with this one is not counted.
    """
    own = stored_tensors(*modules, working=True)
    shared = stored_tensors(beyond, working=True) if beyond is not None else {}
    return num_bytes(own, without=shared)


def _layer(config: Any, index: int) -> Layer:
    """A layer of Llama or of one that differs in biases, norms on heads, or experts."""
    hidden, heads = config.hidden_size, config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or hidden // heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    attention = Attention(heads, kv_heads, head_dim, _window(config, index))
    vectors = 2 * hidden
    if config.model_type in _HEAD_NORMS:
        vectors += 2 * head_dim
    if config.model_type in _QUERY_BIASES or getattr(config, "attention_bias", False):
        vectors += (heads + 2 * kv_heads) * head_dim
    if getattr(config, "attention_bias", False):
        vectors += hidden
    if getattr(config, "mlp_bias", False):
        vectors += 2 * config.intermediate_size + hidden
    return Layer(attention, _mlp(config, index), vectors)


def _window(config: Any, index: int) -> int | None:
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if kinds is not None and "sliding" not in kinds[index]:
        return None
    return window if getattr(config, "use_sliding_window", True) else None


def _mlp(config: Any, index: int) -> Mlp | Mixture:
    count = getattr(config, "num_experts", None) or getattr(config, "num_local_experts", None)
    sparse_every = getattr(config, "decoder_sparse_step", 1)
    dense = index in (getattr(config, "mlp_only_layers", None) or ())
    if not count or dense or (index + 1) % sparse_every:
        return Mlp(config.intermediate_size)
    width = getattr(config, "moe_intermediate_size", None) or config.intermediate_size
    return Mixture(count, config.num_experts_per_tok, width)


def _latent_layer(config: Any, index: int) -> Layer:
    """A layer of DeepSeek-V3, dense at first and of experts from some layer on."""
    kind = Latent(
        config.kv_lora_rank,
        config.qk_rope_head_dim,
        config.qk_nope_head_dim,
        config.v_head_dim,
        config.q_lora_rank,
    )
    heads = config.num_attention_heads
    vectors = 2 * config.hidden_size + kind.rank + (kind.query_rank or 0)
    mlp: Mlp | Mixture = Mlp(config.intermediate_size)
    if index >= config.first_k_dense_replace:
        width = config.moe_intermediate_size
        shared = config.n_shared_experts * width
        mlp = Mixture(config.n_routed_experts, config.num_experts_per_tok, width, shared)
    return Layer(Attention(heads, heads, kind.value_dim, latent=kind), mlp, vectors)


def _t5(config: Any, bits: int) -> Architecture:
    """Encoder and decoder of T5; one table of position biases each, in the first layer."""
    hidden, heads = config.d_model, config.num_heads
    attention = Attention(heads, heads, config.d_kv)
    mlp = Mlp(config.d_ff, matrices=3 if config.is_gated_act else 2)
    tables = config.relative_attention_num_buckets * heads
    return Architecture(
        hidden=hidden,
        vocabulary=config.vocab_size,
        layers=(Layer(attention, mlp, 3 * hidden, cross=attention),) * config.num_decoder_layers,
        encoder=(Layer(attention, mlp, 2 * hidden),) * config.num_layers,
        tied=bool(config.tie_word_embeddings),
        vectors=hidden + tables,
        encoder_vectors=hidden + tables,
        stored=Stored(bits),
        kv_bits=bits,
    )
