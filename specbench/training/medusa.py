"""Training Medusa heads: head i reads the state at t and guesses the token at t + 2 + i."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save_file
from torch import Tensor

from specbench.errors import SpecbenchError
from specbench.heads.checkpoint import load_medusa
from specbench.heads.medusa import MedusaHeads
from specbench.models.language_model import LanguageModel
from specbench.training.batches import Batch
from specbench.training.head_files import write_config
from specbench.training.trainee import Guess, Trainee


class MedusaTrainee(Trainee):
    """Residual blocks; the target's own head turns their outputs into logits."""

    kind = "medusa"
    num_steps = 4

    def __init__(self, target: LanguageModel, ids: Tensor) -> None:
        super().__init__(target, ids)
        self.module = MedusaHeads(self.head.shape[1], self.num_steps).to(self.device)

    def start_from(self, name: str) -> None:
        heads = load_medusa(name, self.target).head
        if heads.lm_heads:
            raise SpecbenchError(
                f"the Medusa heads of {name!r} have output layers of their own",
                "Only heads that share the target's can be trained further",
            )
        self.num_steps = len(heads)
        self.module = MedusaHeads(self.head.shape[1], self.num_steps, heads.num_layers)
        self.module.to(self.device).load_state_dict(heads.state_dict())
        self.goes_on = True

    def guesses(self, batch: Batch) -> list[Guess]:
        states = batch.states[self.last_layer]  # [B, S - 1, H]
        found = []
        for step, head in enumerate(self.module, 1):
            rows, starts = self.drafts(batch, step)
            logits = self.head_logits(head(states[rows, starts]))
            found.append(Guess(logits, rows, starts))
        return found

    def save(self, folder: Path) -> None:
        weights = {name: t.cpu().bfloat16() for name, t in self.module.state_dict().items()}
        save_file(weights, folder / "medusa_lm_head.safetensors", {"format": "pt"})
        config = {
            "medusa_num_heads": self.num_steps,
            "medusa_num_layers": self.module.num_layers,
            "base_model_name_or_path": self.target.name,
            "version": "2",
            "draft_vocab_size": len(self.columns),
        }
        write_config(folder, config)
