"""An EAGLE-3 head on states of three depths of the target (``eagle3:PATH,tree=60,topk=10``).

The head has an output layer of its own, mostly over a smaller vocabulary, so a draft step reads
none of the target's weights. It takes EAGLE-3's own checkpoints and those in speculators' format;
``eagle3:shape`` has random weights.
(Li et al. 2025, arXiv 2503.01840.)
"""

from __future__ import annotations

import torch
from torch import Tensor

from specbench.drafters._output import num_bytes
from specbench.drafters._shipped import check_shipped
from specbench.drafters._states import StateDrafter
from specbench.drafters.base import Host
from specbench.drafters.spec import DrafterSpec
from specbench.heads.checkpoint import LoadedHead, load_eagle3
from specbench.heads.eagle3 import Eagle3Head
from specbench.heads.random_heads import random_eagle3
from specbench.models.language_model import LanguageModel
from specbench.weights.shipped import drafter_name


class Eagle3Drafter(StateDrafter):
    """Drafts with an :class:`Eagle3Head`."""

    def __init__(
        self, loaded: LoadedHead[Eagle3Head], target: LanguageModel, spec: DrafterSpec
    ) -> None:
        super().__init__(loaded, target, loaded.ids, spec, num_bytes(loaded.head))
        self._layers = loaded.layers

    @classmethod
    def check(cls, spec: DrafterSpec) -> None:
        super().check(spec)
        check_shipped(spec)

    @classmethod
    def build(cls, spec: DrafterSpec, host: Host) -> Eagle3Drafter:
        if spec.has_random_weights:
            loaded = random_eagle3(host.target)
        else:
            loaded = load_eagle3(drafter_name(spec, host.target), host.target)
        return cls(loaded, host.target, spec)

    def _features(self, hidden: dict[int, Tensor]) -> Tensor:
        return torch.cat([hidden[layer] for layer in self._layers], dim=-1)

    def _enter(self, features: Tensor) -> Tensor:
        return self.head.combine(features)

    def _logits(self, outputs: Tensor) -> Tensor:
        return self.head.logits(outputs)


DRAFTER = Eagle3Drafter
