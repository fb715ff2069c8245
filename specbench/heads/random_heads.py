"""Heads with random weights in a target's dimensions, for their time alone (``eagle:shape``).

An EAGLE head is a decoder layer like the target's own, as published ones are. EAGLE-3's output
layer has 32,000 ids, as those for Llama 3 have, or the target's if they are fewer. Medusa heads are
one residual block each before the target's output layer (version 2 of their format).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig

from specbench.heads.checkpoint import Head, LoadedHead
from specbench.heads.decoder import layer_config
from specbench.heads.eagle import EagleHead
from specbench.heads.eagle3 import Eagle3Head, usual_layers
from specbench.heads.files import Checkpoint
from specbench.heads.medusa import MedusaHeads
from specbench.models.few_rows import use_fast_order
from specbench.models.language_model import LanguageModel
from specbench.weights.random_model import SEED, seeded
from specbench.weights.room import require_room

EAGLE3_IDS = 32_000
MEDUSA_HEADS = 5


@dataclass(frozen=True)
class NoCheckpoint(Checkpoint):
    """What stands for a checkpoint where there is none."""

    vocab_size: int = 0

    @property
    def provenance(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "served_from": f"random weights, seed {SEED}",
            "sha256": None,
            "files": {},
            "revision": None,
        }

    def ranking(self) -> Tensor:
        """No id is more frequent than another."""
        return torch.arange(self.vocab_size)


def random_medusa(target: LanguageModel, num_heads: int) -> LoadedHead[MedusaHeads]:
    """Medusa heads.

    Raises:
        SpecbenchError: the device has no room for them.
    """
    return _loaded("medusa", target, lambda: MedusaHeads(target.state_size, num_heads), None)


def random_eagle(target: LanguageModel) -> LoadedHead[EagleHead]:
    """An EAGLE head.

    Raises:
        SpecbenchError: the device has no room for it.
    """
    config = _layer_config(target)
    return _loaded("eagle", target, lambda: EagleHead(config), config)


def random_eagle3(target: LanguageModel) -> LoadedHead[Eagle3Head]:
    """An EAGLE-3 head.

    Raises:
        SpecbenchError: the device has no room for it.
    """
    config, size = _layer_config(target), min(EAGLE3_IDS, target.vocab_size)
    ids = None if size == target.vocab_size else torch.arange(size, device=target.device)
    total = target.config.num_hidden_layers
    layers = tuple(min(max(layer, 0), total) for layer in usual_layers(total))
    return _loaded("eagle3", target, lambda: Eagle3Head(config, size), config, ids, layers)


def _loaded(
    kind: str,
    target: LanguageModel,
    make: Callable[[], Head],
    config: LlamaConfig | None,
    ids: Tensor | None = None,
    layers: tuple[int, ...] = (),
) -> LoadedHead[Head]:
    name = f"{kind}:shape"
    return LoadedHead(
        head=_made(make, target, name),
        checkpoint=NoCheckpoint(name, Path(), {}, {}, {}, None, target.vocab_size),
        config=config,
        embedding=target.model.get_input_embeddings(),
        ids=ids,
        layers=layers or (target.config.num_hidden_layers,),
        notes=(),
    )


def _made(make: Callable[[], Head], target: LanguageModel, name: str) -> Head:
    """The head on the target's device, in its dtype; only the rotary frequencies stay float32."""
    with torch.device("meta"):
        size = sum(weight.numel() for weight in make().parameters())
    require_room(size * target.dtype.itemsize, target.device, name)
    before = torch.get_default_dtype()
    torch.set_default_dtype(target.dtype)
    try:
        with target.device, seeded(target.device):
            head = make()
            for weight in head.parameters():
                if weight.dim() > 1:
                    nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
    finally:
        torch.set_default_dtype(before)
    head.eval().requires_grad_(False)
    use_fast_order(head)
    return head


def _layer_config(target: LanguageModel) -> LlamaConfig:
    """A decoder layer like the target's own, with heads of its size."""
    own = target.config
    head_dim = getattr(own, "head_dim", None) or own.hidden_size // own.num_attention_heads
    return layer_config(target, head_dim=head_dim, max_position_embeddings=target.context_limit)
