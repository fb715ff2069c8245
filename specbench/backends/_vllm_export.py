"""A draft model as vLLM takes it: with a head size that its attention has.

vLLM's kernels exist for some head sizes; its CPU build has none for 48, the drafter that comes with
specbench. Heads are widened with zeros, which changes no output: queries are scaled up for the
smaller 1 / sqrt(head size), and only the former part is rotated. In float32, exact but for
rounding.
"""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specbench.backends._vllm_cache import made_in_cache
from specbench.weights.source import ModelSource

HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
"""Those of vLLM's CPU attention (``v1/attention/backends/cpu_attn.py``); GPUs have these too."""


def for_vllm(source: ModelSource) -> Path:
    """A draft model's folder, or an exported one in the cache where its head size is missing.

    Whatever else vLLM may not take is left to vLLM to say.
    """
    config = json.loads((source.path / "config.json").read_text(encoding="utf-8"))
    file = source.path / "model.safetensors"
    if config.get("model_type") != "llama" or not file.is_file():
        return source.path
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    wide = next((known for known in HEAD_SIZES if known >= size), size)
    if wide == size or config.get("attention_bias") or config.get("rope_scaling"):
        return source.path

    def write(folder: Path) -> None:
        for other in source.path.glob("*"):
            if other.suffix in (".json", ".jinja") and other.name != "config.json":
                shutil.copyfile(other, folder / other.name)
        tensors = {name: _widened(name, t, size, wide) for name, t in load_file(file).items()}
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        text = json.dumps(_wide_config(config, size, wide), indent=1)
        (folder / "config.json").write_text(text, encoding="utf-8")

    return made_in_cache(source.provenance["sha256"], f"heads-of-{wide}", config, write)


def _widened(name: str, tensor: Tensor, size: int, wide: int) -> Tensor:
    """One tensor; the projections to and from heads [heads * size, H] and [H, heads * size]."""
    tensor = tensor.float()
    if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight")):
        heads = tensor.view(-1, size, tensor.shape[1])
        if name.endswith("q_proj.weight"):
            heads = heads * math.sqrt(wide / size)
        padded = torch.nn.functional.pad(heads, (0, 0, 0, wide - size))
        return padded.reshape(-1, tensor.shape[1]).contiguous()
    if name.endswith("o_proj.weight"):
        heads = tensor.view(tensor.shape[0], -1, size)
        padded = torch.nn.functional.pad(heads, (0, wide - size))
        return padded.reshape(tensor.shape[0], -1).contiguous()
    return tensor


def _wide_config(config: dict[str, Any], size: int, wide: int) -> dict[str, Any]:
    rope = config.get("rope_parameters") or {
        "rope_type": "default",
        "rope_theta": config.get("rope_theta", 10_000.0),
    }
    rope = {**rope, "partial_rotary_factor": size / wide}
    return {**config, "head_dim": wide, "rope_parameters": rope, "dtype": "float32"}
