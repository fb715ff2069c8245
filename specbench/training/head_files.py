"""How a head is written, and what it must not have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import LlamaConfig

from specbench.errors import SpecbenchError
from specbench.heads.checkpoint import LoadedHead
from specbench.models.language_model import LanguageModel

_ALWAYS_WRITTEN = (
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings",
)  # fmt: skip
"""Also where they are transformers' defaults: readers of heads know no defaults."""


def require_no_embedding(loaded: LoadedHead, target: LanguageModel) -> None:
    """Refuse a head that was trained with embeddings of its own.

    Raises:
        SpecbenchError: its embeddings are not the target's.
    """
    if loaded.embedding is not target.model.get_input_embeddings():
        raise SpecbenchError(
            f"{loaded.checkpoint.name!r} has token embeddings of its own",
            "Only heads that share the target's can be trained further",
        )


def save_head(
    folder: Path,
    module: nn.Module,
    config: LlamaConfig,
    facts: Mapping[str, Any],
    more: Mapping[str, Tensor],
) -> None:
    """Write ``model.safetensors`` and ``config.json``.

    Args:
        folder: exists.
        module: its weights are written in bfloat16, under their names.
        config: of its decoder layer.
        facts: what else ``config.json`` says.
        more: further tensors, as they are.
    """
    weights = {
        name: tensor.cpu().bfloat16().contiguous() for name, tensor in module.state_dict().items()
    }
    save_file({**weights, **more}, folder / "model.safetensors", {"format": "pt"})
    sizes = {key: getattr(config, key) for key in _ALWAYS_WRITTEN}
    write_config(folder, {**config.to_diff_dict(), **sizes, **facts})


def write_config(folder: Path, config: Mapping[str, Any]) -> None:
    """``config.json``."""
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
