"""An EAGLE head on the target's last state (``eagle:PATH,vocab=8192``, a folder or a hub name).

One decoder layer continues the target's states and reads its own guesses from the second draft
token on; the target's output layer turns them into tokens. EAGLE-2 is the same head with a tree:
``eagle:PATH,tree=60,topk=10``; ``eagle:shape`` has random weights. (Li et al. 2024, arXiv
2401.15077 and 2406.16858.)
"""

from __future__ import annotations

from torch import Tensor

from specbench.drafters._output import Output, make_output, num_bytes
from specbench.drafters._shipped import check_shipped
from specbench.drafters._states import StateDrafter
from specbench.drafters.base import Host
from specbench.drafters.spec import DrafterSpec
from specbench.heads.checkpoint import LoadedHead, load_eagle
from specbench.heads.eagle import EagleHead
from specbench.heads.random_heads import random_eagle
from specbench.models.language_model import LanguageModel
from specbench.weights.shipped import drafter_name


class EagleDrafter(StateDrafter):
    """Drafts with an :class:`EagleHead` and the target's output layer."""

    OPTIONS = ("vocab", *StateDrafter.OPTIONS)

    def __init__(
        self,
        loaded: LoadedHead[EagleHead],
        output: Output,
        target: LanguageModel,
        spec: DrafterSpec,
    ) -> None:
        weight_bytes = num_bytes(loaded.head) + output.weight_bytes
        super().__init__(loaded, target, output.ids, spec, weight_bytes)
        (self._layer,) = loaded.layers
        (self._output,) = output.layers
        self.modules = (*self.modules, self._output)

    @classmethod
    def check(cls, spec: DrafterSpec) -> None:
        super().check(spec)
        check_shipped(spec)
        spec.integer("vocab", 8192)

    @classmethod
    def build(cls, spec: DrafterSpec, host: Host) -> EagleDrafter:
        if spec.has_random_weights:
            loaded = random_eagle(host.target)
        else:
            loaded = load_eagle(drafter_name(spec, host.target), host.target)
        output = make_output(spec, loaded.checkpoint, host.target, [])
        return cls(loaded, output, host.target, spec)

    def _features(self, hidden: dict[int, Tensor]) -> Tensor:
        return hidden[self._layer]

    def _enter(self, features: Tensor) -> Tensor:
        return features

    def _logits(self, outputs: Tensor) -> Tensor:
        return self._output(outputs)


DRAFTER = EagleDrafter
