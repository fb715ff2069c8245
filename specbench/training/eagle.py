"""Training EAGLE heads: the head goes on from the target's last state, and its outputs are pulled
towards the states that they stand for, as the target's output layer reads both."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from specbench.heads.eagle import EagleHead
from specbench.models.target import LanguageModel
from specbench.training.batches import Batch
from specbench.training.head_files import layer_config, save_head
from specbench.training.unrolled import UnrolledTrainee

STATE_WEIGHT = 0.2


class EagleTrainee(UnrolledTrainee):
    """One decoder layer on the target's last state."""

    kind = "eagle"

    def __init__(self, target: LanguageModel, ids: Tensor) -> None:
        super().__init__(target, ids)
        self.config = layer_config(target)
        self.module = EagleHead(self.config).to(self.device)
        nn.init.zeros_(self.module.fc.bias)

    def enter(self, batch: Batch) -> Tensor:
        return batch.states[self.last_layer]

    def logits(self, outputs: Tensor) -> Tensor:
        return self.head_logits(outputs)

    def extra_loss(self, outputs: Tensor, states: Tensor) -> Tensor:
        return STATE_WEIGHT * nn.functional.smooth_l1_loss(outputs, states)

    def save(self, folder: Path) -> None:
        facts = {
            "draft_vocab_size": len(self.columns),
            "base_model_name_or_path": self.target.name,
        }
        save_head(folder, self.module, self.config, facts, {})
