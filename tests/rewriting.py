"""A toy rewriting task, and tiny T5s that learn it in seconds.

A source is a row of letters behind a task token; its rewriting is the same row with some letters
replaced by others, then a stop token: mostly a copy, as summaries and corrections are. A smaller
model drafts for a larger one: they agree often, not always.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from specbench.engine.request import Request
from specbench.models.encoder_decoder import EncoderDecoder

PAD, STOP, TASK = 0, 1, 2
LETTERS = range(3, 15)
SWAPPED = {3: 14, 7: 4, 11: 9}
VOCAB = 16
LONGEST = 6


def rewritten(source: list[int]) -> list[int]:
    """What a model is to say of a source."""
    return [SWAPPED.get(letter, letter) for letter in source[1:-1]] + [STOP]


def sources(count: int, seed: int) -> list[list[int]]:
    """Rows of 2 to LONGEST letters."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    for _ in range(count):
        length = int(torch.randint(2, LONGEST + 1, (1,), generator=generator))
        letters = torch.randint(LETTERS[0], LETTERS[-1] + 1, (length,), generator=generator)
        found.append([TASK, *letters.tolist(), STOP])
    return found


@functools.cache
def trained_t5(width: int, steps: int, seed: int = 0) -> EncoderDecoder:
    """A T5 of one layer on each side that has seen ``steps`` batches of 32 sources."""
    from transformers import T5Config, T5ForConditionalGeneration

    settings: dict[str, Any] = {"num_layers": 1, "num_decoder_layers": 1, "num_heads": 4}
    config = T5Config(
        vocab_size=VOCAB,
        d_model=width,
        d_kv=width // 4,
        d_ff=2 * width,
        dropout_rate=0.0,
        pad_token_id=PAD,
        eos_token_id=STOP,
        decoder_start_token_id=PAD,
        **settings,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = T5ForConditionalGeneration(config).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0)
        for step in range(steps):
            batch = sources(32, seed=1000 + step)
            inputs, mask = _padded(batch, PAD)
            labels, known = _padded([rewritten(source) for source in batch], -100)
            begun = torch.cat([torch.zeros_like(labels[:, :1]), labels[:, :-1]], dim=1)
            logits = model(
                input_ids=inputs,
                attention_mask=mask,
                decoder_input_ids=begun.clamp(min=0),
            ).logits
            loss = torch.nn.functional.cross_entropy(logits[known > 0], labels[known > 0])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    model.generation_config.decoder_start_token_id = PAD
    return EncoderDecoder(model.eval().requires_grad_(False), name=f"t5-{width}")


def _padded(rows: list[list[int]], filler: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows behind which a filler stands, and 1 where it does not."""
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [filler] * (longest - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
    return tokens, mask


def unseen(count: int) -> list[Request]:
    """Sources that no model was trained on, but for chance."""
    return [Request(f"r{i}", f"r{i}", source) for i, source in enumerate(sources(count, seed=7))]
