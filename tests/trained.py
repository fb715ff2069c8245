"""Heads trained for a moment on a tiny target's own outputs, so that some of their draft is right.

folder = train_eagle(tmp_path / "head", target, requests(6))
0 < alpha(run_cell(target, f"eagle:{folder}", requests(6), gamma=4)) < 1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig

from specbench.engine.request import Request
from specbench.heads.eagle import EagleHead
from specbench.heads.eagle3 import Eagle3Head
from specbench.heads.medusa import MedusaHeads
from specbench.models.language_model import LanguageModel
from tests.published import layer_config, sizes, write
from tests.tiny import run_cell

STEPS, LENGTH = 80, 24


class Texts:
    """Prompts with the target's greedy output, and its states: all that training reads.

    Attributes:
        tokens: [B, T], padded at the end.
        hidden: per layer [B, T, H].
        choices: [B, T] the target's own next token, -100 where there is padding.
    """

    @torch.no_grad()
    def __init__(self, target: LanguageModel, batch: Sequence[Request]) -> None:
        outputs = run_cell(target, None, batch, max_new_tokens=LENGTH).outputs
        texts = [[*r.token_ids, *output] for r, output in zip(batch, outputs, strict=True)]
        width = max(map(len, texts))
        self.tokens = torch.tensor([text + [0] * (width - len(text)) for text in texts])
        found = target.model(self.tokens, output_hidden_states=True)
        self.hidden = found.hidden_states
        ends = torch.tensor([len(text) for text in texts])[:, None]
        self.choices = found.logits.argmax(-1).masked_fill(torch.arange(width) >= ends, -100)
        self.positions = torch.arange(width).expand_as(self.tokens)


def fit(module: nn.Module, loss: Callable[[], Tensor], steps: int) -> None:
    """Minimise a loss, always in the same way."""
    optimizer = torch.optim.Adam(module.parameters(), lr=5e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


def right(logits: Tensor, choices: Tensor) -> Tensor:
    """Cross entropy of logits [..., V] with ids [...]."""
    return nn.functional.cross_entropy(logits.flatten(0, -2), choices.flatten(), ignore_index=-100)


def train_medusa(
    folder: Path, target: LanguageModel, batch: Sequence[Request], steps: int = STEPS
) -> Path:
    """Four heads, written as version 2."""
    torch.manual_seed(0)
    texts, heads = Texts(target, batch), MedusaHeads(sizes(target)[0], 4)
    lm_head = target.model.get_output_embeddings()

    def loss() -> Tensor:
        logits = lm_head(heads(texts.hidden[-1]))
        return sum(
            (
                right(logits[head, :, : -1 - head], texts.choices[:, 1 + head :])
                for head in range(4)
            ),
            torch.zeros(()),
        )

    fit(heads, loss, steps)
    config = {"medusa_num_heads": 4, "medusa_num_layers": 1, "version": "2"}
    return write(folder, config, heads.state_dict(), "medusa_lm_head.safetensors")


def train_eagle(
    folder: Path, target: LanguageModel, batch: Sequence[Request], steps: int = STEPS
) -> Path:
    """An EAGLE head."""
    torch.manual_seed(0)
    texts, config = Texts(target, batch), layer_config(target)
    head = EagleHead(LlamaConfig(**config))
    embedded = target.model.get_input_embeddings()(texts.tokens)[:, 1:].detach()
    lm_head = target.model.get_output_embeddings()

    def loss() -> Tensor:
        outputs = head(embedded, texts.hidden[-1][:, :-1], texts.positions[:, :-1])
        close = nn.functional.smooth_l1_loss(outputs, texts.hidden[-1][:, 1:])
        return right(lm_head(outputs), texts.choices[:, 1:]) + close

    fit(head, loss, steps)
    return write(folder, config, head.state_dict(), "model.safetensors")


def train_eagle3(
    folder: Path,
    target: LanguageModel,
    batch: Sequence[Request],
    layers: Sequence[int] = (0, 1, 2),
    steps: int = STEPS,
) -> Path:
    """An EAGLE-3 head over all ids."""
    torch.manual_seed(0)
    texts = Texts(target, batch)
    config: dict[str, Any] = layer_config(target, eagle_aux_hidden_state_layer_ids=list(layers))
    head = Eagle3Head(LlamaConfig(**config), sizes(target)[1])
    embedded = target.model.get_input_embeddings()(texts.tokens)[:, 1:].detach()
    features = torch.cat([texts.hidden[layer] for layer in layers], dim=-1)[:, :-1]

    def loss() -> Tensor:
        outputs = head(embedded, head.combine(features), texts.positions[:, :-1])
        return right(head.logits(outputs), texts.choices[:, 1:])

    fit(head, loss, steps)
    return write(folder, config, head.state_dict(), "model.safetensors")
