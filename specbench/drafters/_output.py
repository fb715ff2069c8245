"""The target's output layer as a head uses it: whole, or cut to the most frequent tokens.

A draft step reads little else than this layer, so ``vocab=K`` makes it cheaper in proportion; ids
that it lacks are never drafted, and q is 0 there. The file ``token_ranking.safetensors`` beside the
head says which tokens are frequent.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from specbench.drafters.spec import DrafterSpec
from specbench.errors import SpecbenchError
from specbench.heads.files import RANKING, Checkpoint
from specbench.models.few_rows import use_fast_order
from specbench.models.language_model import LanguageModel
from specbench.models.output_layer import plain_output_weight
from specbench.weights import stored


@dataclass(frozen=True)
class Output:
    """Output layers over one set of ids.

    Attributes:
        layers: each maps states [..., H] to logits [..., V_draft].
        ids: [V_draft] the target's ids of the logits, or None: all V, in order.
    """

    layers: list[nn.Module]
    ids: Tensor | None

    @property
    def weight_bytes(self) -> int:
        return sum(map(num_bytes, self.layers))

    def logits(self, states: Tensor) -> Tensor:
        """States [N, ..., H] to logits [N, ..., V_draft]: of one layer in one product, else each
        of the N with a layer of its own."""
        if len(self.layers) == 1:
            return self.layers[0](states)
        pairs = zip(self.layers, states, strict=False)
        return torch.stack([layer(state) for layer, state in pairs])


def make_output(
    spec: DrafterSpec, checkpoint: Checkpoint, target: LanguageModel, own: list[nn.Linear]
) -> Output:
    """The head's own output layers or else the target's, cut as ``vocab=`` or its config say.

    Raises:
        SpecbenchError: no ranking to cut by, more ids than it ranks, or a quantised output layer.
    """
    layers = own or [target.model.get_output_embeddings()]
    size = spec.integer("vocab", checkpoint.integer("draft_vocab_size") or target.vocab_size)
    if size == target.vocab_size:
        return Output(layers, None)
    ids = _most_frequent(size, checkpoint, target).to(target.device)
    if not own:
        plain_output_weight(target.model, target.name, f"vocab={size}")
    return Output([_cut(layer, ids) for layer in layers], ids)


def _most_frequent(size: int, checkpoint: Checkpoint, target: LanguageModel) -> Tensor:
    ranking = checkpoint.ranking()
    if ranking is None:
        raise SpecbenchError(
            f"a draft vocabulary of {size} tokens needs their ranking, and {checkpoint.name} has"
            f" no {RANKING}",
            f"Write vocab={target.vocab_size} to draft among all",
        )
    ids = ranking.long()
    if ids.dim() != 1 or len(ids.unique()) != len(ids) or not _in_range(ids, target.vocab_size):
        raise SpecbenchError(
            f"the ranking in {checkpoint.name}/{RANKING} is no list of different ids below"
            f" {target.vocab_size}"
        )
    if size > len(ids):
        raise SpecbenchError(
            f"vocab={size} is more than the {len(ids)} tokens that {checkpoint.name}/{RANKING}"
            " ranks",
            f"Write vocab={len(ids)} or less",
        )
    return ids[:size]


def _in_range(ids: Tensor, vocab_size: int) -> bool:
    return len(ids) > 0 and int(ids.min()) >= 0 and int(ids.max()) < vocab_size


def _cut(layer: nn.Module, ids: Tensor) -> nn.Module:
    """The rows of an output layer for some ids."""
    bias = getattr(layer, "bias", None)
    size, width = len(ids), layer.weight.shape[1]
    cut = nn.Linear(width, size, bias=bias is not None, device="meta")
    cut.weight = nn.Parameter(layer.weight.detach()[ids], requires_grad=False)
    if bias is not None:
        cut.bias = nn.Parameter(bias.detach()[ids], requires_grad=False)
    use_fast_order(cut)
    return cut


def num_bytes(module: nn.Module) -> int:
    """Bytes of a module's weights, as they are stored."""
    return stored.num_bytes(stored.stored_tensors(module))
