"""Training a drafter from start to end: target, corpus, training, checkpoint."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from specbench.errors import SpecbenchError
from specbench.measure.device import resolve
from specbench.models.support import require_rollback
from specbench.models.target import LanguageModel
from specbench.training import generate
from specbench.training.batches import Split
from specbench.training.checkpoint import MARK, Origin, write_checkpoint
from specbench.training.corpus import Corpus, Sample, read_outputs
from specbench.training.draft_model import DraftModelTrainee
from specbench.training.eagle import EagleTrainee
from specbench.training.eagle3 import Eagle3Trainee, feature_layers
from specbench.training.loop import Budget, train
from specbench.training.medusa import MedusaTrainee
from specbench.training.output_layer import require_plain_head
from specbench.training.prompts import PROMPTS_FILE, PromptGrammar
from specbench.training.state import Progress, forget_state
from specbench.training.trainee import Trainee
from specbench.weights.loading import load_causal_lm
from specbench.weights.progress import Progress as LoadProgress
from specbench.weights.shapes import is_shape

KINDS: dict[str, type[Trainee]] = {
    kind.kind: kind for kind in (EagleTrainee, Eagle3Trainee, MedusaTrainee, DraftModelTrainee)
}
LONGEST_SAMPLE = 448
EMBEDDED_LICENCE = "apache-2.0"


@dataclass(frozen=True)
class Order:
    """What to train.

    Attributes:
        kind: a key of KINDS.
        target: as for ``specbench run``; None for the embedded default.
        start: checkpoint of this kind to go on from, a folder or a hub name; None for a new one.
        out: folder of the checkpoint; must not hold one yet.
        corpus: folder of the target's output, made or extended.
        tokens: answer tokens that the corpus must have.
        outputs: answers collected elsewhere, added to the corpus first.
        prompts: file with the grammar of the prompts.
        vocab: tokens of the draft vocabulary.
        max_new_tokens, batch_size: of the answers.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.
        budget: when training ends.
    """

    kind: str
    out: Path
    corpus: Path
    target: str | None = None
    start: str | None = None
    tokens: int = 300_000
    outputs: Path | None = None
    prompts: Path = PROMPTS_FILE
    vocab: int = 4096
    max_new_tokens: int = 192
    batch_size: int = 48
    device: str = "auto"
    budget: Budget = field(default_factory=Budget)


class Listener:
    """Hears how far things are; the command line overrides it with bars."""

    def collecting(self, tokens: int, wanted: int) -> None: ...

    def training(self, progress: Progress, share: float) -> None: ...

    def message(self, text: str) -> None: ...


def train_drafter(order: Order, loading: LoadProgress, listener: Listener) -> Progress:
    """Do it all; a killed call goes on where it was when it is made again.

    Raises:
        SpecbenchError: the target cannot be had, the folders belong to something else or cannot be
            written, or the corpus is too small.
    """
    made = _claim(order.out)
    try:
        return _train(order, loading, listener)
    except SpecbenchError:
        if made:
            with contextlib.suppress(OSError):
                order.out.rmdir()  # only if it is empty: nothing was begun
        raise


def _train(order: Order, loading: LoadProgress, listener: Listener) -> Progress:
    if is_shape(order.target):
        raise SpecbenchError(
            f"--target {order.target!r} has random weights, and nothing can be learned from those",
            "Name a model with weights",
        )
    grammar = PromptGrammar.read(order.prompts)
    outputs = read_outputs(order.outputs) if order.outputs is not None else []
    device = resolve(order.device)
    loaded = load_causal_lm(
        order.target, dtype="float32" if device == "cpu" else "auto", device=device,
        attention="auto", progress=loading, check=require_rollback,
    )  # fmt: skip
    if loaded.model.config.is_encoder_decoder:
        raise SpecbenchError(
            f"--target {order.target!r} is an encoder-decoder, and none is trained for those",
            "Draft with model:NAME, a smaller model of its family",
        )
    target = LanguageModel(loaded.model, loaded.tokenizer, loaded.source.name)
    require_plain_head(target)
    if order.start is not None:  # what is wrong with it is said before answers are collected
        KINDS[order.kind](target, torch.arange(1)).start_from(order.start)
    identity = {key: loaded.provenance.get(key) for key in ("served_from", "sha256")}
    corpus = collect(order, target, grammar, outputs, identity["sha256"], listener)
    counts = corpus.token_counts(target.vocab_size)
    ranking = counts.argsort(descending=True, stable=True)
    torch.manual_seed(order.budget.seed)
    trainee = KINDS[order.kind](target, ranking[: order.vocab])
    if order.start is not None:
        trainee.start_from(order.start)
    split = Split.of(corpus, trainee.layers(), min(LONGEST_SAMPLE, target.context_limit))
    listener.message(
        f"{len(split.training)} answers to learn from, {len(split.kept_out)} kept out; "
        f"{sum(p.numel() for p in trainee.module.parameters()):,} parameters"
    )
    progress = train(trainee, split, order.out, order.budget, listener.training, order.start)
    origin = Origin(
        target={"name": target.name, **identity},
        corpus={
            "samples": len(split.training) + len(split.kept_out),
            "tokens": int(counts.sum()),
            "kept_out": len(split.kept_out),
            "checked": len(split.checked),
        },
        budget=asdict(order.budget),
        start=order.start,
        licence=EMBEDDED_LICENCE if order.target is None else None,
    )
    write_checkpoint(order.out, trainee, ranking, progress, origin)
    forget_state(order.out)
    return progress


def collect(
    order: Order,
    target: LanguageModel,
    grammar: PromptGrammar,
    outputs: Sequence[Sample],
    sha256: object,
    listener: Listener,
) -> Corpus:
    """The corpus with enough tokens, its states those that any kind of drafter reads."""
    depth = target.config.num_hidden_layers
    layers = tuple(sorted({*feature_layers(depth), depth}))
    about = {"target": target.name, "layers": list(layers), "sha256": sha256}
    corpus = Corpus(order.corpus, about)
    before, begin = set(corpus.shards()), time.monotonic()

    def report(tokens: int) -> None:
        listener.collecting(tokens, order.tokens)

    if outputs:
        generate.adopt(corpus, target, outputs, layers, report=report)
    plan = generate.Plan(
        seed=order.budget.seed,
        batch_size=order.batch_size,
        max_new_tokens=min(order.max_new_tokens, target.context_limit // 2),
        layers=layers,
    )
    generate.extend(corpus, target, grammar, plan, order.tokens, report=report)
    made = set(corpus.shards()) - before
    if made:
        tokens = sum(len(sample.answer) for sample in corpus.samples(paths=sorted(made)))
        minutes = (time.monotonic() - begin) / 60
        listener.message(f"collected {tokens:,} tokens in {minutes:.1f} minutes")
    return corpus


def _claim(folder: Path) -> bool:
    """Make the folder of the checkpoint; returns whether it was not there before."""
    if (folder / MARK).exists():
        raise SpecbenchError(f"{folder} holds a checkpoint already", "Give another --out")
    try:
        made = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecbenchError(f"cannot make the folder {folder}: {error.strerror}") from error
    return made
