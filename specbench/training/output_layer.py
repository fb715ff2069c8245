"""Models whose logits are their output layer's on the last state, and nothing more."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel

_LARGEST = 1000.0
"""Logits that every cap cuts, however wide."""


@torch.inference_mode()
def require_plain_head(model: LanguageModel, role: str = "target") -> None:
    """Refuse a model whose logits are more than that.

    Known logits are put in the place of the output layer's: what is done to them afterwards shows
    whatever the weights are, where on the layer's own small logits a cap would hardly be seen.

    Args:
        model: to be looked at.
        role: what it is in the training, for the message.

    Raises:
        SpecbenchError: it scales or caps them, or the states that its output layer reads.
    """
    layer = model.config.num_hidden_layers
    tokens = torch.arange(min(4, model.vocab_size), device=model.device)[None]
    states: list[Tensor] = []
    known: list[Tensor] = []

    def replace(module: nn.Module, inputs: tuple[Any, ...], logits: Tensor) -> Tensor:
        states.append(inputs[0])
        ramp = torch.linspace(-_LARGEST, _LARGEST, logits.shape[-1]).to(logits)
        known.append(ramp.expand_as(logits))
        return known[-1]

    hook = model.model.get_output_embeddings().register_forward_hook(replace)
    try:
        output = model.forward(tokens, model.new_cache(1, 4), [0], hidden_layers=[layer])
    finally:
        hook.remove()
    for what, found, plain in (
        ("logits behind", output.logits, known[0]),
        ("states before", states[0], output.hidden[layer]),
    ):
        if not torch.allclose(found.float(), plain.float(), rtol=1e-3, atol=1e-6):
            raise SpecbenchError(
                f"{role} {model.name} scales or caps its {what} its output layer",
                f"A {role} of this kind can't be trained with",
            )
