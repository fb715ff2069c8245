"""What is written at the end: the checkpoint, its token ranking, its card."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from specbench.errors import SpecbenchError
from specbench.heads.files import RANKING
from specbench.training.reasons import reason
from specbench.training.source import OUTPUTS, Source
from specbench.training.state import Progress
from specbench.training.trainee import Trainee

MARK = "config.json"
"""A folder that has it holds a checkpoint: it is the last file that gets there."""
_LONGEST_RANKING = 16384


@dataclass(frozen=True)
class Origin:
    """Where a trained drafter comes from, for its card.

    Attributes:
        target: name, source and hash of the target.
        corpus: number of samples, of greedy ones, of answer tokens, of samples kept out, of those
            measured on; and ``sources``, the fields of each Source with its number of ``answers``.
        budget: the fields of the training's Budget.
        licence: of the target, and so of the weights; None where it is not known.
        start: the checkpoint that the training began from; None if it began anew.
    """

    target: dict[str, Any]
    corpus: dict[str, Any]
    budget: dict[str, Any]
    licence: str | None
    start: str | None = None


def write_checkpoint(
    folder: Path, trainee: Trainee, ranking: Tensor, progress: Progress, origin: Origin
) -> None:
    """Weights, config, ranking, history of the training, and a card for people; all or nothing.

    Args:
        folder: exists.
        trainee: trained.
        ranking: [V] ids, most frequent in the target's output first.
        progress: of the finished training.
        origin: for the card.

    Raises:
        SpecbenchError: the disk is full, or the folder cannot be written.
    """
    facts = {
        "kind": trainee.kind,
        "target": origin.target,
        "corpus": origin.corpus,
        "budget": origin.budget,
        "seed": origin.budget["seed"],
        "start": origin.start,
        "earlier": _earlier(origin.start),
        "steps": progress.step,
        "seconds": round(progress.seconds, 1),
        "parameters": sum(p.numel() for p in trainee.module.parameters()),
        "checks": progress.checks,
    }
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as name:
            part = Path(name)
            trainee.save(part)
            if trainee.uses_ranking:
                ids = ranking[: max(_LONGEST_RANKING, len(trainee.columns))]
                tensor = ids.to(torch.int32).contiguous()
                save_file({"ranking": tensor}, part / RANKING, {"format": "pt"})
            _write(part / "training.json", json.dumps(facts, indent=1) + "\n")
            _write(part / "README.md", _card(trainee, facts, origin))
            for file in sorted(part.iterdir(), key=lambda file: (file.name == MARK, file.name)):
                file.replace(folder / file.name)
    except (OSError, SafetensorError) as error:
        raise SpecbenchError(
            f"cannot write the checkpoint to {folder}: {reason(error, 'the disk is full')}",
            "Make room and type the same command again: the training itself is kept",
        ) from error


def _earlier(start: str | None) -> dict[str, Any] | None:
    """What the checkpoint that a training began from says of its own training, if it does."""
    try:
        facts = json.loads((Path(start or "") / "training.json").read_text(encoding="utf-8"))
        return {key: facts.get(key) for key in ("corpus", "steps", "seconds", "start", "earlier")}
    except (OSError, ValueError, AttributeError):
        return None


def _write(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8")


def _card(trainee: Trainee, facts: dict[str, Any], origin: Origin) -> str:
    corpus, name = origin.corpus, origin.target.get("name")
    front = f"license: {origin.licence}\n" if origin.licence else ""
    first, last = facts["checks"][0], facts["checks"][-1]
    columns = [check[what] for what in ("greedy", "overlap") for check in (first, last)]
    rows = "\n".join(
        f"| {step} | {' | '.join(map(format_rate, rates))} |"
        for step, rates in enumerate(zip(*columns, strict=True), 1)
    )
    before, begun = "untrained", "anew"
    if origin.start is not None:
        before, begun = "before", f"from `{Path(origin.start).name}`"
        if facts["earlier"]:
            begun += f", which had {facts['earlier']['steps']} steps"
    return f"""---
{front}base_model: {name}
---

# Drafter of kind {trainee.kind} for {name}

Proposes tokens for speculative decoding with this target; trained with `specbench train-drafter`.

- Target: {name}, served from {origin.target.get("served_from")}, SHA-256
  `{origin.target.get("sha256")}`
- Data: {corpus["samples"]} answers of two tokens or more, {corpus["greedy"]} of them greedy, with
  {corpus["tokens"]:,} tokens; {corpus["kept_out"]} kept out of training
{_sources(corpus["sources"])}
- Training: {facts["steps"]} steps in {_minutes(facts["seconds"])} minutes, seed {facts["seed"]}
- Begun: {begun}
- Size: {facts["parameters"]:,} parameters, draft vocabulary of {len(trainee.columns):,} tokens
- Licence: {origin.licence or "that of the target"}

Chance that a token is accepted on kept-out prompts, by draft step, given that the steps before it
were: greedy, and the overlap of the two distributions at temperature 1. Measured on
{corpus["checked"]} of the kept-out answers, with the weights as they are saved.

| step | greedy, {before} | greedy | overlap, {before} | overlap |
|---|---|---|---|---|
{rows}
"""


def _sources(facts: list[dict[str, Any]]) -> str:
    """A line of the card for each place that answers come from."""
    lines = []
    for fact in facts:
        source = Source(fact["kind"], fact["file"], fact["sha256"])
        if source.kind == OUTPUTS:
            told = f"from {source.words}, taken on trust as the target's"
        else:
            told = f"of the target's own answers to {source.words}"
        lines.append(f"- Corpus: {fact['answers']} {told}")
    return "\n".join(lines)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f}" if seconds >= 600 else f"{seconds / 60:.1f}"


def format_rate(rate: float | None) -> str:
    """A chance with three digits, ``-`` where there is none."""
    return "-" if rate is None else f"{rate:.3f}"
