"""Training EAGLE-3 heads: features from three depths of the target, an output layer of its own.

Nothing pulls the head's outputs towards the target's states: only its guesses count, so that it may
say whatever serves its next step (Li et al. 2025, arXiv 2503.01840).
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from specbench.heads.checkpoint import load_eagle3
from specbench.heads.decoder import layer_config
from specbench.heads.eagle3 import Eagle3Head, usual_layers
from specbench.models.language_model import LanguageModel
from specbench.training.batches import Batch
from specbench.training.head_files import require_no_embedding, save_head
from specbench.training.unrolled import UnrolledTrainee


def feature_layers(num_layers: int) -> tuple[int, int, int]:
    """The layers whose entering states are read: the usual ones, as far as there are such.

    In a target of fewer than six layers some of the three coincide.

    >>> feature_layers(30), feature_layers(2)
    ((2, 15, 27), (2, 1, 1))
    """
    early, middle, late = (min(max(layer, 1), num_layers) for layer in usual_layers(num_layers))
    return early, middle, late


class Eagle3Trainee(UnrolledTrainee):
    """One decoder layer on three of the target's states; guesses among its own ids only."""

    kind = "eagle3"
    uses_ranking = False

    def __init__(self, target: LanguageModel, ids: Tensor) -> None:
        super().__init__(target, ids.sort().values)  # draft ids in the order of the target's
        self.config = layer_config(target)
        self.feature_layers: tuple[int, ...] = feature_layers(target.config.num_hidden_layers)
        self.module = Eagle3Head(self.config, len(ids)).to(self.device)
        with torch.no_grad():
            self.module.lm_head.weight.copy_(self.head_rows)
            norm = getattr(target.model.base_model, "norm", None)
            if norm is not None and not isinstance(norm, nn.LayerNorm):
                # the output layer expects states of the target's norm; ones show its gains
                ones = torch.ones(1, target.config.hidden_size).to(self.device, target.dtype)
                self.module.norm.weight.copy_(norm(ones)[0])

    def start_from(self, name: str) -> None:
        loaded = load_eagle3(name, self.target)
        require_no_embedding(loaded, self.target)
        every = torch.arange(self.target.vocab_size)
        self.use_columns(every if loaded.ids is None else loaded.ids)
        self.config = loaded.config
        self.feature_layers = loaded.layers
        self.module = Eagle3Head(self.config, len(self.columns)).to(self.device)
        self.module.load_state_dict(loaded.head.state_dict())
        self.goes_on = True

    def layers(self) -> tuple[int, ...]:
        return tuple(sorted({*self.feature_layers, self.last_layer}))

    def enter(self, batch: Batch) -> Tensor:
        features = torch.cat([batch.states[layer] for layer in self.feature_layers], dim=-1)
        return self.module.combine(features)

    def logits(self, outputs: Tensor) -> Tensor:
        return self.module.logits(outputs)

    def save(self, folder: Path) -> None:
        size, vocab_size = len(self.columns), self.target.vocab_size
        facts = {
            "draft_vocab_size": size,
            "target_hidden_size": self.target.config.hidden_size,
            "eagle_aux_hidden_state_layer_ids": list(self.feature_layers),
            "base_model_name_or_path": self.target.name,
        }
        mapping = {}
        if size < vocab_size:
            ids = self.columns.cpu()
            mapped = torch.zeros(vocab_size, dtype=torch.bool)
            mapped[ids] = True
            mapping = {"d2t": ids - torch.arange(size), "t2d": mapped}
        save_head(folder, self.module, self.config, facts, mapping)
