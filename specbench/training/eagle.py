"""Training EAGLE heads, with the draft unrolled over several steps.

Input s of step j is the embedding of token s + 1 beside a state for token s: the target's own in
step 1, the head's output of the step before from then on. Its output stands for the target's state
of token s + 1 and so guesses token s + 2.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import LlamaConfig

from specbench.heads.eagle import EagleHead
from specbench.models.target import LanguageModel
from specbench.training.batches import Batch
from specbench.training.trainee import Guess, Trainee
from specbench.training.unrolled import UnrolledKeys, unrolled_mask

STATE_WEIGHT = 0.2


class EagleTrainee(Trainee):
    """One decoder layer on the target's last state."""

    kind = "eagle"
    num_steps = 2

    def __init__(self, target: LanguageModel, ids: Tensor) -> None:
        super().__init__(target, ids)
        self.config = layer_config(target)
        self.module = EagleHead(self.config)
        nn.init.zeros_(self.module.fc.bias)

    def guesses(self, batch: Batch) -> list[Guess]:
        states = batch.states[self.last_layer]  # [B, S - 1, H]
        width = states.shape[1] - 1  # the last state has nothing after it to be compared with
        embeddings = nn.functional.embedding(batch.tokens[:, 1 : width + 1], self.embedding).float()
        positions = torch.arange(width)[None].expand(len(states), -1)
        keys = UnrolledKeys()
        inputs, found = states[:, :width], []
        for step in range(1, self.num_steps + 1):
            outputs = self.module(embeddings, inputs, positions, keys, unrolled_mask(width, step))
            asked = batch.is_answer[:, 2:].clone()
            asked[:, : step - 1] = False  # these drafts would have begun before the sequence
            rows, places = asked.nonzero(as_tuple=True)
            guessed, truth = outputs[rows, places], states[rows, places + 1]
            state_loss = STATE_WEIGHT * nn.functional.smooth_l1_loss(guessed, truth)
            logits = guessed @ self.head_rows.T
            found.append(Guess(logits, rows, places + 1, places - (step - 1), state_loss))
            inputs = torch.cat((outputs[:, :1], outputs[:, :-1]), dim=1)
        return found

    def save(self, folder: Path) -> None:
        weights = {
            name: tensor.bfloat16().contiguous()
            for name, tensor in self.module.state_dict().items()
            if "rotary" not in name
        }
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        write_config(folder, self.config, {"draft_vocab_size": len(self.columns)})


def layer_config(target: LanguageModel, **changes: Any) -> LlamaConfig:
    """The config of one Llama layer of the target's width, with its rotary settings if it has any.

    Args:
        target: any architecture; heads and MLP width are taken over where the config names them.
        changes: fields to set.
    """
    config = target.config
    heads = config.num_attention_heads
    fields = {
        "vocab_size": target.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        "num_hidden_layers": 1,
        "num_attention_heads": heads,
        "num_key_value_heads": getattr(config, "num_key_value_heads", None) or heads,
        "max_position_embeddings": config.max_position_embeddings,
        "rms_norm_eps": getattr(config, "rms_norm_eps", 1e-5),
        "rope_parameters": getattr(config, "rope_parameters", None),
        "tie_word_embeddings": False,
    }
    return LlamaConfig(**(fields | changes))


def write_config(folder: Path, config: LlamaConfig, more: dict[str, Any]) -> None:
    """``config.json``: a Llama config with a few keys more."""
    values = {**config.to_diff_dict(), **more}
    (folder / "config.json").write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
