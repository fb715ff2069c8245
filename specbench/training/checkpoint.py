"""What is written at the end: the checkpoint, its token ranking, its card."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from specbench.training.loop import Progress
from specbench.training.trainee import Trainee

RANKING_FILE = "token_ranking.safetensors"
_LONGEST_RANKING = 16384


@dataclass(frozen=True)
class Origin:
    """Where a trained drafter comes from, for its card.

    Attributes:
        target: name, source and hash of the target.
        corpus: number of samples and of answer tokens, of which kept out.
        budget: minutes, steps, seed.
        licence: of the target, and so of the weights; None where it is not known.
    """

    target: dict[str, Any]
    corpus: dict[str, Any]
    budget: dict[str, Any]
    licence: str | None


def write_checkpoint(
    folder: Path, trainee: Trainee, ranking: Tensor, progress: Progress, origin: Origin
) -> None:
    """Weights, config, ranking, history of the training, and a card for people.

    Args:
        folder: exists.
        trainee: trained.
        ranking: [V] ids, most frequent in the target's output first.
        progress: of the finished training.
        origin: for the card.
    """
    trainee.save(folder)
    if trainee.kind != "model":
        ids = ranking[:_LONGEST_RANKING].to(torch.int32).contiguous()
        save_file({"ranking": ids}, folder / RANKING_FILE, {"format": "pt"})
    facts = {
        "kind": trainee.kind,
        "target": origin.target,
        "corpus": origin.corpus,
        "budget": origin.budget,
        "seed": origin.budget["seed"],
        "steps": progress.step,
        "seconds": round(progress.seconds, 1),
        "parameters": sum(p.numel() for p in trainee.module.parameters()),
        "checks": progress.checks,
    }
    (folder / "training.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(_card(trainee, facts, origin), encoding="utf-8")


def _card(trainee: Trainee, facts: dict[str, Any], origin: Origin) -> str:
    corpus, name = origin.corpus, origin.target.get("name")
    front = f"license: {origin.licence}\n" if origin.licence else ""
    columns = [
        column
        for check in (facts["checks"][0], facts["checks"][-1])
        for column in (check["greedy"], check["overlap"])
    ]
    rows = "\n".join(
        f"| {step} | {greedy_before:.3f} | {greedy:.3f} | {overlap_before:.3f} | {overlap:.3f} |"
        for step, (greedy_before, overlap_before, greedy, overlap) in enumerate(
            zip(*columns, strict=True), 1
        )
    )
    return f"""---
{front}base_model: {name}
---

# Drafter of kind {trainee.kind} for {name}

Proposes tokens for speculative decoding with this target; trained with `specbench train-drafter`.

- Target: {name}, served from {origin.target.get("served_from")}, SHA-256
  `{origin.target.get("sha256")}`
- Data: {corpus["samples"]} of the target's own answers, greedy and sampled, with
  {corpus["tokens"]:,} tokens; {corpus["kept_out"]} answers kept out of training
- Training: {facts["steps"]} steps in {facts["seconds"] / 60:.0f} minutes, seed {facts["seed"]}
- Size: {facts["parameters"] / 1e6:.2f} million parameters, draft vocabulary of
  {len(trainee.columns):,} tokens
- Licence: {origin.licence or "that of the target"}

Chance that a token is accepted on kept-out prompts, by draft step, given that the steps before it
were: greedy, and the overlap of the two distributions at temperature 1.

| step | greedy, untrained | greedy | overlap, untrained | overlap |
|---|---|---|---|---|
{rows}
"""
