"""Tiny random encoder-decoders, and what Hugging Face's own ``generate`` says of them.

target = encoder_decoder("t5")
generation = run_cell(target, "ngram", requests(4), gamma=4)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from specbench.engine.request import Request
from specbench.models.encoder_decoder import EncoderDecoder
from specbench.models.language_model import LanguageModel
from tests.tiny import VOCAB, noisy_copy
from tests.unit.weights.tiny import write_folder

START = {"t5": 0, "flan-t5": 0, "mt5": 0, "bart": 2, "marian": 3, "mbart": 4}
KINDS = tuple(START)

_T5 = {
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "relative_attention_num_buckets": 8,  # of 16 tokens apart: every distance in a test counts
    "relative_attention_max_distance": 16,
}
_BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
}
_CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "t5": ("t5", {**_T5, "feed_forward_proj": "relu"}),
    "flan-t5": ("t5", {**_T5, "feed_forward_proj": "gated-gelu"}),
    "mt5": ("mt5", {**_T5, "feed_forward_proj": "gated-gelu"}),
    "bart": ("bart", {**_BART, "scale_embedding": False}),
    "marian": ("marian", {**_BART, "decoder_vocab_size": VOCAB, "scale_embedding": True}),
    "mbart": ("mbart", {**_BART, "scale_embedding": True}),
}


def random_encoder_decoder(
    kind: str, *, seed: int = 0, spread: float = 1.5, vocab_size: int = VOCAB, **changes: Any
) -> nn.Module:
    """A transformers encoder-decoder with seeded weights and no stop token, float32, in eval mode.

    Args:
        kind: of KINDS.
        seed: of the weights.
        spread: standard deviation of the logits, roughly.
        changes: fields of the config.
    """
    from transformers import CONFIG_MAPPING, AutoModelForSeq2SeqLM

    model_type, sizes = _CONFIGS[kind]
    start = min(START[kind], vocab_size - 1)
    special = {
        "pad_token_id": None if model_type.endswith("t5") else 1,
        "bos_token_id": None,
        "eos_token_id": None,
        "forced_eos_token_id": None,
        "decoder_start_token_id": start,
    }
    sizes = {**sizes, "vocab_size": vocab_size, **special, **changes}
    if kind == "marian":
        sizes["decoder_vocab_size"] = vocab_size
    model = AutoModelForSeq2SeqLM.from_config(CONFIG_MAPPING[model_type](**sizes)).eval()
    head = model.get_output_embeddings()
    head.weight = nn.Parameter(head.weight.detach().clone())  # T5 ties it, whatever one says
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("relative_attention_bias.weight"):
                weight.normal_(0, 2, generator=generator)
            elif "embed_positions" in name and model_type == "marian":
                continue  # sinusoidal
            elif weight.dim() > 1:
                weight.normal_(0, 1 / weight.shape[-1] ** 0.5, generator=generator)
            elif name.endswith("bias"):
                weight.normal_(0, 0.1, generator=generator)
        head.weight.mul_(spread)
        if model_type.endswith("t5") and model.config.tie_word_embeddings:
            head.weight.mul_(model.config.d_model**0.5)  # it scales states for a tied layer
    model.generation_config.decoder_start_token_id = start
    return model


@functools.cache
def encoder_decoder(kind: str = "t5", **options: Any) -> EncoderDecoder:
    """:func:`random_encoder_decoder` as the engine sees it, made once per set of options."""
    return EncoderDecoder(random_encoder_decoder(kind, **options), name=f"tiny-{kind}")


def generate_greedily(
    target: LanguageModel,
    batch: Sequence[Request],
    length: int,
    stop_tokens: Sequence[int] = (),
    use_cache: bool = True,
) -> list[list[int]]:
    """What transformers' own ``generate`` says, one source at a time, without the start tokens."""
    outputs = []
    for request in batch:
        source = torch.tensor([list(request.token_ids)])
        generated = target.model.generate(
            source,
            attention_mask=torch.ones_like(source),
            max_new_tokens=length,
            do_sample=False,
            use_cache=use_cache,
            eos_token_id=list(stop_tokens) or None,
            pad_token_id=0,
        )
        outputs.append(generated[0, 1:].tolist())
    return outputs


def write_encoder_decoder(
    folder: Path, kind: str = "t5", *, noise: float = 0.0, **options: Any
) -> Path:
    """Write a model folder with a tokenizer of one token per byte, 259 in all.

    Args:
        noise: of a drafter that agrees with the model of noise 0 often, not always.
        options: of :func:`random_encoder_decoder`.
    """
    write_folder(folder)  # its tokenizer stays, its model is overwritten
    target = encoder_decoder(kind, vocab_size=259, **options)
    model = noisy_copy(target, noise).model if noise else target.model
    model.save_pretrained(folder)
    return folder
