"""Which of a model's weights one forward of decoding reads, and their bytes as they are stored."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from specbench.weights.stored import stored_tensors

MADE_ONCE = (
    "EncDecAttention.k",
    "EncDecAttention.v",
    "encoder_attn.k_proj",
    "encoder_attn.v_proj",
)
"""Modules of a decoder that make keys and values of a source, and are not read again."""


def read_by_forward(model: Any) -> dict[int, Tensor]:
    """The plain tensors that a forward reads, by where they lie: each once, tied ones too.

    An untied input embedding is a lookup of a few rows and is left out; so is an encoder, and what
    makes keys and values of a source.
    """
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if not model.config.is_encoder_decoder:
        read, unread = stored_tensors(model), stored_tensors(embedding)
    else:
        decoder = model.get_decoder()
        once = [part for path, part in decoder.named_modules() if path.endswith(MADE_ONCE)]
        read, unread = stored_tensors(decoder, head), stored_tensors(embedding, *once)
    left_out = unread.keys() - stored_tensors(head).keys()
    return {place: tensor for place, tensor in read.items() if place not in left_out}
