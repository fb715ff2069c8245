"""Whether a checkpoint's tensors are those of a head for this target, and putting them into it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from specbench.errors import SpecbenchError
from specbench.heads.files import Checkpoint
from specbench.models.few_rows import use_fast_order
from specbench.models.language_model import LanguageModel
from specbench.weights.stored import is_plain


def fill(
    head: nn.Module, checkpoint: Checkpoint, tensors: Mapping[str, Tensor], target: LanguageModel
) -> None:
    """Give a head the checkpoint's tensors, on the target's device and in its dtype.

    Args:
        head: made as the config and the target say.
        checkpoint: whose tensors they are, for messages.
        tensors: must be the head's own, by name and shape.

    Raises:
        SpecbenchError: naming the first tensor that is missing, too much, of another shape or not
            finite.
    """
    tensors = {k: v for k, v in tensors.items() if not k.endswith("rotary_emb.inv_freq")}
    expected = {name: tuple(weight.shape) for name, weight in head.state_dict().items()}
    for name in sorted(expected.keys() - tensors.keys()):
        raise SpecbenchError(
            f"{checkpoint.name!r} lacks the tensor {name!r} {list(expected[name])}",
            "Its other tensors or its config.json ask for it; is the download complete?",
        )
    for name in sorted(tensors.keys() - expected.keys()):
        raise SpecbenchError(
            f"{checkpoint.name!r} has a tensor {name!r} {list(tensors[name].shape)} that the head"
            " has no place for",
            "Does its config.json belong to it?",
        )
    for name, shape in expected.items():
        if tuple(tensors[name].shape) != shape:
            raise SpecbenchError(
                f"tensor {name!r} of {checkpoint.name!r} is {list(tensors[name].shape)}; its"
                f" config.json and target {target.name} make it {list(shape)}",
                made_for(checkpoint),
            )
    for name in expected:
        if not torch.isfinite(tensors[name]).all():
            raise SpecbenchError(
                f"tensor {name!r} of {checkpoint.name!r} holds values that are no numbers",
                "Was its training broken off by an overflow?",
            )
    # by assignment, so that the rotary frequencies stay float32
    moved = {name: tensors[name].to(target.device, target.dtype) for name in expected}
    head.load_state_dict(moved, assign=True)
    head.to(target.device).eval().requires_grad_(False)
    use_fast_order(head)


def made_for(checkpoint: Checkpoint) -> str:
    """A hint that a head belongs to another target, by name where the config says it."""
    base = checkpoint.config.get("base_model_name_or_path")
    return f"The head was made for {base}" if base else "The head was made for another target"


def require_equal(
    checkpoint: Checkpoint, target: LanguageModel, what: str, theirs: int, ours: int
) -> None:
    """Raises SpecbenchError where a size of the head is not the target's."""
    if theirs != ours:
        raise SpecbenchError(
            f"{checkpoint.name!r} has {what} {theirs} where target {target.name} has {ours}",
            made_for(checkpoint),
        )


def embedding_of(
    checkpoint: Checkpoint, target: LanguageModel, hidden_size: int
) -> tuple[nn.Module, dict[str, Tensor]]:
    """Token embeddings, the checkpoint's own where they differ, and the tensors without them.

    Raises:
        SpecbenchError: they are not ``hidden_size`` wide, or of other ids than the target's.
    """
    tensors = dict(checkpoint.tensors)
    ours = target.model.get_input_embeddings()
    theirs = tensors.pop("embed_tokens.weight", None)
    if theirs is None:
        require_equal(checkpoint, target, "hidden_size", hidden_size, ours.weight.shape[1])
        return ours, tensors
    if tuple(theirs.shape) != (target.vocab_size, hidden_size):
        raise SpecbenchError(
            f"tensor 'embed_tokens.weight' of {checkpoint.name!r} is {list(theirs.shape)}; its"
            f" config.json and target {target.name} make it {[target.vocab_size, hidden_size]}",
            made_for(checkpoint),
        )
    theirs = theirs.to(target.device, target.dtype)
    if is_plain(ours.weight) and torch.equal(theirs, ours.weight):
        return ours, tensors
    return nn.Embedding.from_pretrained(theirs), tensors
