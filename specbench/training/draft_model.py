"""Training a small stand-alone language model whose embedding starts as a low rank of the target's.

It sees tokens only. Embedding and output layer are one matrix [V, d], the first d singular
directions of the target's head, so that words that are alike for the target are alike from the
start and the few layers can spend themselves on context. Saved as an ordinary Hugging Face folder.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from specbench.errors import SpecbenchError
from specbench.heads.decoder import layer_config
from specbench.models.language_model import LanguageModel
from specbench.models.support import require_rollback
from specbench.models.vocabulary import require_same_vocabulary
from specbench.training.batches import Batch
from specbench.training.output_layer import require_plain_head
from specbench.training.trainee import Acceptance, Guess, Trainee
from specbench.weights.loading import load_causal_lm
from specbench.weights.quiet import quiet_transformers
from specbench.weights.stored import packed_layers

NUM_RARE = 1024
"""Rows outside the frequent ones that each batch draws, so that rare tokens learn to stay low."""


class DraftModelTrainee(Trainee):
    """A Llama of a third of the target's width and a few layers."""

    kind = "model"
    num_steps = 1
    num_layers = 4
    uses_ranking = False

    def __init__(self, target: LanguageModel, ids: Tensor) -> None:
        super().__init__(target, ids)
        size = max(16, target.config.hidden_size // 3 // 16 * 16)  # d
        heads = max(1, size // 48)
        while size % heads or (size // heads) % 2:
            heads -= 1
        config = layer_config(
            target,
            hidden_size=size,
            intermediate_size=size * 8 // 3,
            num_hidden_layers=self.num_layers,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            tie_word_embeddings=True,
            bos_token_id=target.config.bos_token_id,
            eos_token_id=target.config.eos_token_id,
            pad_token_id=target.config.pad_token_id,
        )
        self.module = LlamaForCausalLM(config).to(self.device)
        with torch.no_grad():
            left, values, _ = torch.svd_lowrank(self.head, q=size, niter=4)
            factor = left * values.sqrt()
            self.module.get_input_embeddings().weight.copy_(factor / factor.std() * 0.5)
        self.module.model.norm.weight.data.fill_(size**-0.5 * 4)
        self._draw_from(self.columns)

    def _draw_from(self, frequent: Tensor) -> None:
        """Take the model's ids that are not ``frequent`` for the rare ones; a padded target has
        ids that its draft model may lack."""
        self._num_ids = min(len(self.head), len(self.module.get_input_embeddings().weight))
        self._frequent = frequent[frequent < self._num_ids]
        is_rare = torch.ones(self._num_ids, dtype=torch.bool)
        is_rare[self._frequent.cpu()] = False
        self._rare = is_rare.nonzero().squeeze(1)

    def start_from(self, name: str) -> None:
        loaded = load_causal_lm(
            name, dtype="float32", device=str(self.device), check=require_rollback
        )
        if packed_layers(loaded.model):
            raise SpecbenchError(
                f"draft model {name!r} is quantised, and integers can't be trained",
                "Start from the model that it was quantised from",
            )
        # a copy, because a LanguageModel may change how its model computes
        drafter = LanguageModel(copy.deepcopy(loaded.model), loaded.tokenizer, name)
        require_same_vocabulary(self.target, drafter)
        require_plain_head(drafter, "draft model")
        self.module = loaded.model.requires_grad_(True)
        self._draw_from(self._frequent)
        self.goes_on = True

    def loss(self, batch: Batch) -> Tensor:
        """Over the frequent tokens and a draw of the rare ones."""
        drawn = self._rare[torch.randperm(len(self._rare))[:NUM_RARE]]
        self.use_columns(torch.cat((self._frequent, drawn.to(self.device))))
        return super().loss(batch)

    def acceptance(self, batches: Sequence[Batch]) -> Acceptance:
        self.use_columns(torch.arange(self._num_ids))
        return super().acceptance(batches)

    def guesses(self, batch: Batch) -> list[Guess]:
        tokens = batch.tokens[:, :-1].clamp(max=self._num_ids - 1)
        outputs = self.module.base_model(input_ids=tokens, use_cache=False)
        rows, starts = self.drafts(batch, 1)
        layer = self.module.get_output_embeddings()
        bias = getattr(layer, "bias", None)
        logits = nn.functional.linear(
            outputs.last_hidden_state[rows, starts + 1],
            layer.weight[self.columns],
            None if bias is None else bias[self.columns],
        )
        return [Guess(logits, rows, starts)]

    def save(self, folder: Path) -> None:
        with quiet_transformers():
            copy.deepcopy(self.module).bfloat16().save_pretrained(folder)
        if self.target.tokenizer is not None:
            self.target.tokenizer.save_pretrained(folder)
