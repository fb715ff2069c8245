"""Models whose logits are their output layer's on the last state, and nothing more."""

from __future__ import annotations

import torch

from specbench.errors import SpecbenchError
from specbench.models.target import LanguageModel


@torch.inference_mode()
def require_plain_head(model: LanguageModel, role: str = "target") -> None:
    """Refuse a model whose logits are more than that.

    Args:
        model: to be looked at.
        role: what it is in the training, for the message.

    Raises:
        SpecbenchError: it scales or caps them.
    """
    layer = model.config.num_hidden_layers
    tokens = torch.arange(min(4, model.vocab_size), device=model.device)[None]
    output = model.forward(tokens, model.new_cache(1, 4), [0], hidden_layers=[layer])
    plain = model.model.get_output_embeddings()(output.hidden[layer])
    if not torch.allclose(plain.float(), output.logits.float(), rtol=1e-2, atol=1e-2):
        raise SpecbenchError(
            f"{role} {model.name} scales or caps its logits behind its output layer",
            f"A {role} of this kind can't be trained with",
        )
