"""Heads of random weights, written as the projects that publish such checkpoints write them.

    folder = write_eagle(tmp_path / "head", target, seed=1)
    run_cell(target, f"eagle:{folder}", requests(3), gamma=2)

Names, shapes and files are spelled out here on their own, from the published formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from specbench.models.language_model import LanguageModel

HEADS, KEY_HEADS, HEAD_SIZE, FEED_FORWARD = 4, 2, 8, 40
"""The decoder layer of both EAGLE kinds, whatever the target's own sizes."""


def sizes(target: LanguageModel) -> tuple[int, int]:
    """Width of the last state and of the output layer."""
    return target.state_size, target.vocab_size


def draw(seed: int) -> Callable[..., Tensor]:
    """A source of weights whose outputs keep the size of their inputs."""
    generator = torch.Generator().manual_seed(seed)

    def weight(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator) / shape[-1] ** 0.5

    return weight


def write(
    folder: Path | str, config: Mapping[str, Any], tensors: Mapping[str, Tensor], file: str
) -> Path:
    """A checkpoint's folder: ``config.json`` and one file of weights."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if file.endswith(".safetensors"):
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / file)
    else:
        torch.save(dict(tensors), folder / file)
    return folder


def write_ranking(folder: Path, ids: Sequence[int]) -> Path:
    """The ranking of tokens beside a head."""
    ranking = torch.tensor(list(ids), dtype=torch.int32)
    save_file({"ranking": ranking}, folder / "token_ranking.safetensors")
    return folder


def medusa_tensors(
    target: LanguageModel, num_heads: int, num_layers: int, version: int, seed: int
) -> dict[str, Tensor]:
    hidden_size, vocab_size = sizes(target)
    weight, tensors = draw(seed), {}
    for head in range(num_heads):
        for layer in range(num_layers):
            tensors[f"{head}.{layer}.linear.weight"] = weight(hidden_size, hidden_size)
            tensors[f"{head}.{layer}.linear.bias"] = 0.1 * weight(hidden_size)
        if version == 1:
            tensors[f"{head}.{num_layers}.weight"] = 1.5 * weight(vocab_size, hidden_size)
    return tensors


def write_medusa(
    folder: Path,
    target: LanguageModel,
    *,
    num_heads: int = 4,
    num_layers: int = 1,
    version: int = 2,
    file: str = "medusa_lm_head.safetensors",
    seed: int = 1,
    **config: Any,
) -> Path:
    """Medusa heads; published configs say 2 heads for 5, and so does this one."""
    config = {
        "medusa_num_heads": 2,
        "medusa_num_layers": num_layers,
        "base_model_name_or_path": "lmsys/vicuna-7b-v1.3",
        **({"version": "2"} if version == 2 else {}),
        **config,
    }
    return write(folder, config, medusa_tensors(target, num_heads, num_layers, version, seed), file)


def layer_config(target: LanguageModel, **changes: Any) -> dict[str, Any]:
    """A Llama config as old releases wrote it."""
    hidden_size, vocab_size = sizes(target)
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": hidden_size,
        "intermediate_size": FEED_FORWARD,
        "max_position_embeddings": 128,
        "num_attention_heads": HEADS,
        "num_hidden_layers": 1,
        "num_key_value_heads": KEY_HEADS,
        "rms_norm_eps": 1e-5,
        "rope_theta": 5000.0,
        "vocab_size": vocab_size,
        **changes,
    }


def layer_tensors(
    prefix: str, hidden_size: int, input_size: int, weight: Callable[..., Tensor]
) -> dict[str, Tensor]:
    """One decoder layer's tensors that both EAGLE kinds have."""
    query, key = HEADS * HEAD_SIZE, KEY_HEADS * HEAD_SIZE
    return {
        f"{prefix}.self_attn.q_proj.weight": weight(query, input_size),
        f"{prefix}.self_attn.k_proj.weight": weight(key, input_size),
        f"{prefix}.self_attn.v_proj.weight": weight(key, input_size),
        f"{prefix}.self_attn.o_proj.weight": weight(hidden_size, query),
        f"{prefix}.mlp.gate_proj.weight": weight(FEED_FORWARD, hidden_size),
        f"{prefix}.mlp.up_proj.weight": weight(FEED_FORWARD, hidden_size),
        f"{prefix}.mlp.down_proj.weight": weight(hidden_size, FEED_FORWARD),
        f"{prefix}.post_attention_layernorm.weight": 1 + 0.1 * weight(hidden_size),
    }


def eagle_tensors(
    target: LanguageModel, *, bias: bool = True, embedding: bool = False, seed: int = 1
) -> dict[str, Tensor]:
    hidden_size, vocab_size = sizes(target)
    weight = draw(seed)
    tensors = {"fc.weight": weight(hidden_size, 2 * hidden_size)}
    if bias:
        tensors["fc.bias"] = 0.1 * weight(hidden_size)
    tensors |= layer_tensors("layers.0", hidden_size, hidden_size, weight)
    if embedding:
        tensors["embed_tokens.weight"] = 3 * weight(vocab_size, hidden_size)
    return tensors


def write_eagle(
    folder: Path,
    target: LanguageModel,
    *,
    bias: bool = True,
    embedding: bool = False,
    file: str = "pytorch_model.bin",
    seed: int = 1,
    **config: Any,
) -> Path:
    """An EAGLE head."""
    config = layer_config(target, **({} if bias else {"bias": False}), **config)
    tensors = eagle_tensors(target, bias=bias, embedding=embedding, seed=seed)
    return write(folder, config, tensors, file)


def eagle3_tensors(
    target: LanguageModel, ids: Sequence[int] | None, *, embedding: bool = False, seed: int = 1
) -> dict[str, Tensor]:
    """EAGLE-3's tensors; ``ids`` are the target's ids of the draft vocabulary, None all of them."""
    hidden_size, vocab_size = sizes(target)
    weight = draw(seed)
    tensors = layer_tensors("midlayer", hidden_size, 2 * hidden_size, weight)
    for norm in ("midlayer.hidden_norm", "midlayer.input_layernorm", "norm"):
        tensors[f"{norm}.weight"] = 1 + 0.1 * weight(hidden_size)
    tensors["fc.weight"] = weight(hidden_size, 3 * target.config.hidden_size)
    size = vocab_size if ids is None else len(ids)
    tensors["lm_head.weight"] = 1.5 * weight(size, hidden_size)
    if ids is not None:
        chosen = torch.tensor(list(ids))
        tensors["d2t"] = chosen - torch.arange(size)
        tensors["t2d"] = torch.zeros(vocab_size, dtype=torch.bool).index_fill(0, chosen, True)
    if embedding:
        tensors["embed_tokens.weight"] = 3 * weight(vocab_size, hidden_size)
    return tensors


def write_eagle3(
    folder: Path,
    target: LanguageModel,
    *,
    ids: Sequence[int] | None = None,
    embedding: bool = False,
    file: str = "pytorch_model.bin",
    seed: int = 1,
    **config: Any,
) -> Path:
    """An EAGLE-3 head in its authors' format."""
    tensors = eagle3_tensors(target, ids, embedding=embedding, seed=seed)
    size = len(tensors["lm_head.weight"])
    config = layer_config(target, draft_vocab_size=size, **config)
    return write(folder, config, tensors, file)


def write_speculators(
    folder: Path,
    target: LanguageModel,
    *,
    ids: Sequence[int] | None = None,
    algorithm: str = "eagle3",
    seed: int = 1,
    **config: Any,
) -> Path:
    """An EAGLE-3 head in speculators' format."""
    tensors = {
        name.replace("midlayer.", "layers.0."): tensor
        for name, tensor in eagle3_tensors(target, ids, seed=seed).items()
    }
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": algorithm,
        "speculators_config": {
            "algorithm": algorithm,
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": 5}],
            "verifier": {
                "architectures": ["LlamaForCausalLM"],
                "name_or_path": "meta-llama/Llama-3.1-8B-Instruct",
            },
        },
        "draft_vocab_size": len(tensors["lm_head.weight"]),
        "transformer_layer_config": layer_config(target),
        **config,
    }
    return write(folder, config, tensors, "model.safetensors")
