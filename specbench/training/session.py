"""Training a drafter from start to end: target, corpus, training, checkpoint."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from specbench.errors import SpecbenchError
from specbench.measure.device import resolve
from specbench.models.language_model import LanguageModel
from specbench.models.support import require_rollback
from specbench.training.batches import Split
from specbench.training.checkpoint import MARK, Origin, write_checkpoint
from specbench.training.collecting import Collector
from specbench.training.corpus import Corpus
from specbench.training.draft_model import DraftModelTrainee
from specbench.training.eagle import EagleTrainee
from specbench.training.eagle3 import Eagle3Trainee
from specbench.training.loop import train
from specbench.training.medusa import MedusaTrainee
from specbench.training.order import Listener, Order
from specbench.training.output_layer import require_plain_head
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
    collector = Collector(order)
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
    corpus = collector.collect(target, identity["sha256"], listener)
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
        corpus=_corpus_facts(corpus, split, int(counts.sum())),
        budget=asdict(order.budget),
        start=order.start,
        licence=EMBEDDED_LICENCE if order.target is None else None,
    )
    write_checkpoint(order.out, trainee, ranking, progress, origin)
    forget_state(order.out)
    return progress


def _corpus_facts(corpus: Corpus, split: Split, num_tokens: int) -> dict[str, Any]:
    """What the card says of the answers."""
    samples = [*split.training, *split.kept_out]
    return {
        "samples": len(samples),
        "greedy": sum(sample.temperature == 0 for sample in samples),
        "tokens": num_tokens,
        "kept_out": len(split.kept_out),
        "checked": len(split.checked),
        "sources": [
            {**asdict(source), "answers": count} for source, count in corpus.num_answers().items()
        ],
    }


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
