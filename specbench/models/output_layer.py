"""A model's output layer: its sizes are the model's, and it may be quantised like any other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from specbench.errors import SpecbenchError
from specbench.weights.stored import is_packed, is_plain


def head_sizes(model: Any) -> tuple[int, int]:
    """V and H: the logits that the output layer gives, and the width of the states it reads."""
    head = model.get_output_embeddings()
    if is_packed(head):
        return head.out_features, head.in_features
    rows, columns = head.weight.shape
    return rows, columns


def where_it_computes(model: Any) -> tuple[torch.device, torch.dtype]:
    """The device of a model's logits, and the dtype that its states have between layers."""
    head = model.get_output_embeddings()
    candidates = [*head.parameters(), *model.parameters()]
    weight = next(weight for weight in candidates if is_plain(weight))
    return weight.device, weight.dtype


def plain_output_weight(model: Any, name: str, purpose: str) -> Tensor:
    """The output layer's matrix [V, H], for those who read more of it than its products.

    Args:
        model: a transformers model.
        name: how messages call it.
        purpose: what can't be done without it.

    Raises:
        SpecbenchError: it is quantised.
    """
    head = model.get_output_embeddings()
    if is_packed(head):
        raise SpecbenchError(
            f"the output layer of {name} is quantised ({type(head).__name__}): {purpose} needs its"
            " plain weights",
            "Take a model that leaves its output layer as it is",
        )
    weight: Tensor = head.weight
    return weight
