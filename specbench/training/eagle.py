"""Training EAGLE heads: the head goes on from the target's last state, and its outputs are pulled
towards the states that they stand for, as the target's output layer reads both."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from specbench.heads.checkpoint import load_eagle
from specbench.heads.decoder import layer_config
from specbench.heads.eagle import EagleHead
from specbench.models.language_model import LanguageModel
from specbench.training.batches import Batch
from specbench.training.head_files import require_no_embedding, save_head
from specbench.training.unrolled import UnrolledTrainee

STATE_WEIGHT = 0.2


class ColumnGain(nn.Module):
    """A weight whose columns are learned in units of their own: weight = learned * gain."""

    def __init__(self, gain: Tensor) -> None:
        super().__init__()
        self.register_buffer("gain", gain, persistent=False)

    def forward(self, learned: Tensor) -> Tensor:
        return learned * self.gain

    def right_inverse(self, weight: Tensor) -> Tensor:
        return weight / self.gain


class EagleTrainee(UnrolledTrainee):
    """One decoder layer on the target's last state."""

    kind = "eagle"

    def __init__(self, target: LanguageModel, ids: Tensor) -> None:
        super().__init__(target, ids)
        self.config = layer_config(target)
        self.module = EagleHead(self.config).to(self.device)
        nn.init.zeros_(self.module.fc.bias)

    def start_from(self, name: str) -> None:
        loaded = load_eagle(name, self.target)
        require_no_embedding(loaded, self.target)
        self.config = loaded.config
        self.module = EagleHead(self.config).to(self.device)
        self.module.load_state_dict(loaded.head.state_dict())
        self.goes_on = True

    def prepare(self, batch: Batch) -> None:
        """Start from the mean state, and let embeddings be heard as loudly as states.

        Embeddings are often ten times smaller; under Adam, which moves all weights alike, the token
        that was just drawn would hardly count for a long time.
        """
        states = self.enter(batch)
        states = states[(states != 0).any(dim=-1)]  # padding left out
        fc, size = self.module.fc, self.config.hidden_size
        ratio = float(states.std() / self.embed(batch.tokens).std())
        gain = torch.ones(2 * size, device=self.device)
        gain[:size] = 2.0 ** round(math.log2(ratio))  # a power of two keeps roundings the same
        if not self.goes_on:
            with torch.no_grad():
                fc.bias.copy_(states.mean(dim=0))
                fc.weight.mul_(gain)
        parametrize.register_parametrization(fc, "weight", ColumnGain(gain))

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
        learned = "fc.parametrizations.weight.original"
        weights = {k: t for k, t in self.module.state_dict().items() if k != learned}
        plain = EagleHead(self.config)
        plain.load_state_dict({**weights, "fc.weight": self.module.fc.weight})
        save_head(folder, plain, self.config, facts, {})
