"""Training a drafter from start to end: target, corpus, training, checkpoint."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from specbench.errors import SpecbenchError
from specbench.models.target import LanguageModel
from specbench.training import generate
from specbench.training.batches import Split
from specbench.training.checkpoint import Origin, write_checkpoint
from specbench.training.corpus import Corpus, read_outputs
from specbench.training.draft_model import DraftModelTrainee
from specbench.training.eagle import EagleTrainee
from specbench.training.loop import Budget, Progress, train
from specbench.training.medusa import MedusaTrainee
from specbench.training.prompts import PROMPTS_FILE, PromptGrammar
from specbench.training.trainee import Trainee
from specbench.weights.loading import load_causal_lm
from specbench.weights.progress import Progress as LoadProgress

KINDS: dict[str, type[Trainee]] = {
    kind.kind: kind for kind in (EagleTrainee, MedusaTrainee, DraftModelTrainee)
}
LONGEST_SAMPLE = 448
EMBEDDED_LICENCE = "apache-2.0"


@dataclass(frozen=True)
class Order:
    """What to train.

    Attributes:
        kind: a key of KINDS.
        target: as for ``specbench run``; None for the embedded default.
        out: folder of the checkpoint; must not hold one yet.
        corpus: folder of the target's output, made or extended.
        tokens: answer tokens that the corpus must have.
        outputs: answers collected elsewhere, added to the corpus first.
        prompts: grammar of the prompts.
        vocab: tokens of the draft vocabulary.
        max_new_tokens, batch_size: of the answers.
        budget: when training ends.
    """

    kind: str
    out: Path
    corpus: Path
    target: str | None = None
    tokens: int = 300_000
    outputs: Path | None = None
    prompts: Path = PROMPTS_FILE
    vocab: int = 4096
    max_new_tokens: int = 192
    batch_size: int = 48
    budget: Budget = field(default_factory=Budget)


class Listener:
    """Hears how far things are; the command line overrides it with bars."""

    def collecting(self, tokens: int, wanted: int) -> None: ...

    def training(self, progress: Progress, share: float) -> None: ...

    def message(self, text: str) -> None: ...


def train_drafter(order: Order, loading: LoadProgress, listener: Listener) -> Progress:
    """Do it all; a killed call goes on where it was when it is made again.

    Raises:
        SpecbenchError: the target cannot be had, the folders belong to something else, or the
            corpus is too small.
    """
    if (order.out / "config.json").exists():
        raise SpecbenchError(f"{order.out} holds a checkpoint already", "Give another --out")
    try:
        order.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecbenchError(f"cannot make the folder {order.out}: {error.strerror}") from error
    loaded = load_causal_lm(
        order.target, dtype="float32", device="cpu", attention="auto", progress=loading
    )
    target = LanguageModel(loaded.model, loaded.tokenizer, loaded.source.name)
    target.model.requires_grad_(False)
    corpus = collect(order, target, listener)
    counts = corpus.token_counts(target.vocab_size)
    ranking = counts.argsort(descending=True, stable=True)
    torch.manual_seed(order.budget.seed)
    trainee = KINDS[order.kind](target, ranking[: order.vocab])
    split = Split.of(corpus, trainee.layers_of(target), min(LONGEST_SAMPLE, target.context_limit))
    listener.message(
        f"{len(split.training)} answers to learn from, {len(split.kept_out)} kept out; "
        f"{sum(p.numel() for p in trainee.module.parameters()) / 1e6:.1f} million parameters"
    )
    progress = train(trainee, split, order.out, order.budget, listener.training)
    origin = Origin(
        target={"name": target.name, **_identity(loaded.provenance)},
        corpus={
            "samples": len(split.training) + len(split.kept_out),
            "tokens": int(counts.sum()),
            "kept_out": len(split.kept_out),
        },
        budget=asdict(order.budget),
        licence=EMBEDDED_LICENCE if order.target is None else None,
    )
    write_checkpoint(order.out, trainee, ranking, progress, origin)
    return progress


def collect(order: Order, target: LanguageModel, listener: Listener) -> Corpus:
    """The corpus with enough tokens, its states those that any kind of drafter reads."""
    depth = target.config.num_hidden_layers
    features = {layer for layer in (2, depth // 2, depth - 3) if 0 <= layer < depth}  # EAGLE-3's
    layers = (*sorted(features), depth)
    corpus = Corpus(order.corpus, {"target": target.name, "layers": list(layers)})

    def report(tokens: int) -> None:
        listener.collecting(tokens, order.tokens)

    if order.outputs is not None:
        generate.adopt(corpus, target, read_outputs(order.outputs), layers, report=report)
    plan = generate.Plan(
        seed=order.budget.seed,
        batch_size=order.batch_size,
        max_new_tokens=min(order.max_new_tokens, target.context_limit // 2),
        layers=layers,
    )
    grammar = PromptGrammar.read(order.prompts)
    generate.extend(corpus, target, grammar, plan, order.tokens, report=report)
    return corpus


def _identity(provenance: dict[str, object]) -> dict[str, object]:
    return {key: provenance.get(key) for key in ("served_from", "sha256")}
