"""The heads' forwards as the papers give them: whole sequences, no cache, no batch, plain torch.

Tensors come in by their published names; nothing of specbench is used. Sequences are [S, H].
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

Tensors = Mapping[str, Tensor]


def medusa_states(tensors: Tensors, states: Tensor, num_heads: int, num_layers: int) -> Tensor:
    """[S, H] to each head's last state, [heads, S, H]: x + SiLU(Wx + b) per layer."""
    found = []
    for head in range(num_heads):
        x = states
        for layer in range(num_layers):
            y = x @ tensors[f"{head}.{layer}.linear.weight"].T
            y = y + tensors[f"{head}.{layer}.linear.bias"]
            x = x + y / (1 + torch.exp(-y))
        found.append(x)
    return torch.stack(found)


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    return weight * x / torch.sqrt((x * x).mean(-1, keepdim=True) + epsilon)


def rotate(x: Tensor, theta: float) -> Tensor:
    """Rotary positions 0, 1, ... on [S, heads, D]: pairs are (i, i + D / 2)."""
    length, _, width = x.shape
    half = width // 2
    frequency = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency  # [S, D / 2]
    cos, sin = angle.cos().float()[:, None], angle.sin().float()[:, None]
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def attention(tensors: Tensors, prefix: str, x: Tensor, config: Mapping[str, Any]) -> Tensor:
    """Causal grouped-query attention over [S, input]."""
    length, num_heads = len(x), config["num_attention_heads"]
    groups = num_heads // config["num_key_value_heads"]

    def project(name: str) -> Tensor:
        y = x @ tensors[f"{prefix}.self_attn.{name}_proj.weight"].T
        if f"{prefix}.self_attn.{name}_proj.bias" in tensors:
            y = y + tensors[f"{prefix}.self_attn.{name}_proj.bias"]
        return y

    query = project("q").view(length, num_heads, -1)
    width = query.shape[-1]
    key, value = (project(name).view(length, -1, width) for name in "kv")
    query, key = (rotate(y, config["rope_theta"]) for y in (query, key))
    outputs = []
    for head in range(num_heads):
        k, v = key[:, head // groups], value[:, head // groups]
        scores = query[:, head] @ k.T / width**0.5
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        outputs.append(torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1) @ v)
    return torch.cat(outputs, dim=-1) @ tensors[f"{prefix}.self_attn.o_proj.weight"].T


def feed_forward(tensors: Tensors, prefix: str, x: Tensor) -> Tensor:
    gate = x @ tensors[f"{prefix}.mlp.gate_proj.weight"].T
    up = x @ tensors[f"{prefix}.mlp.up_proj.weight"].T
    return (gate / (1 + torch.exp(-gate)) * up) @ tensors[f"{prefix}.mlp.down_proj.weight"].T


def after_attention(tensors: Tensors, prefix: str, x: Tensor, config: Mapping[str, Any]) -> Tensor:
    norm = tensors[f"{prefix}.post_attention_layernorm.weight"]
    return x + feed_forward(tensors, prefix, rms_norm(x, norm, config["rms_norm_eps"]))


def eagle_outputs(
    tensors: Tensors, config: Mapping[str, Any], embeddings: Tensor, states: Tensor
) -> Tensor:
    """EAGLE on pairs of embeddings of x_{t+1} and states h_t: what stands for h_{t+1}."""
    x = torch.cat((embeddings, states), dim=-1) @ tensors["fc.weight"].T
    x = x + tensors.get("fc.bias", 0)
    x = x + attention(tensors, "layers.0", x, config)
    return after_attention(tensors, "layers.0", x, config)


def eagle3_outputs(
    tensors: Tensors,
    config: Mapping[str, Any],
    embeddings: Tensor,
    states: Tensor,
    norm_before_residual: bool = False,
) -> Tensor:
    """EAGLE-3 on pairs of embeddings of x_{t+1} and states that ``fc`` or the head itself gave."""
    epsilon = config["rms_norm_eps"]
    normed = rms_norm(states, tensors["midlayer.hidden_norm.weight"], epsilon)
    embedded = rms_norm(embeddings, tensors["midlayer.input_layernorm.weight"], epsilon)
    x = attention(tensors, "midlayer", torch.cat((embedded, normed), dim=-1), config)
    x = x + (normed if norm_before_residual else states)
    return after_attention(tensors, "midlayer", x, config)


def eagle3_logits(tensors: Tensors, config: Mapping[str, Any], outputs: Tensor) -> Tensor:
    normed = rms_norm(outputs, tensors["norm.weight"], config["rms_norm_eps"])
    return normed @ tensors["lm_head.weight"].T


class PlainHead:
    """A trained head's drafts, from whole sequences.

    Args:
        target: the transformers model whose states it reads.
        folder: of the head; its name says the kind.
    """

    def __init__(self, target: nn.Module, folder: Path) -> None:
        self.model = target
        self.kind = folder.name
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text())
        (file,) = folder.glob("*.safetensors")
        self.tensors = load_file(file)

    @torch.inference_mode()
    def logits(self, text: list[int], drafted: list[int]) -> Tensor:
        """Logits [N, V] that led to each of the drafted tokens, after a committed text."""
        tokens = torch.tensor(text)
        model = self.model
        found = model(tokens[None], output_hidden_states=True, use_cache=False).hidden_states
        lm_head = model.get_output_embeddings().weight
        if self.kind == "medusa":
            state = found[-1][0, -2:-1]  # the last committed token has none yet
            return medusa_states(self.tensors, state, 4, 1)[: len(drafted), 0] @ lm_head.T
        if self.kind == "eagle":
            states = found[-1][0, :-1]
        else:
            layers = self.config["eagle_aux_hidden_state_layer_ids"]
            features = torch.cat([found[layer][0, :-1] for layer in layers], dim=-1)
            states = features @ self.tensors["fc.weight"].T
        forward = eagle_outputs if self.kind == "eagle" else eagle3_outputs
        following = tokens[1:]
        logits = []
        for token in drafted:
            embedded = model.get_input_embeddings().weight[following]
            outputs = forward(self.tensors, self.config, embedded, states)
            if self.kind == "eagle":
                logits.append(outputs[-1] @ lm_head.T)
            else:
                logits.append(eagle3_logits(self.tensors, self.config, outputs[-1]))
            states = torch.cat([states, outputs[-1:]])
            following = torch.cat([following, torch.tensor([token])])
        return torch.stack(logits)
