"""Answers that the target gave elsewhere: read from a file, and added to a corpus with states.

That they are the target's is taken on trust; only ids that it does not have give others' away.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel
from specbench.training.corpus import Corpus, Sample, as_stored
from specbench.training.reasons import reason
from specbench.training.source import OUTPUTS, Source


@dataclass(frozen=True)
class Outputs:
    """What a file holds.

    Attributes:
        samples: prompts and answers, without states.
        num_empty: answers without a token, which are not among the samples.
        source: the file.
    """

    samples: Sequence[Sample]
    num_empty: int
    source: Source

    def left_out(self, longest: int) -> str:
        """What is not learned from, as a sentence; empty where everything is.

        Args:
            longest: tokens that the target's context has.
        """
        beyond = sum(sample.prompt_length >= longest for sample in self.samples)
        reasons = {"empty": self.num_empty, f"beyond the context of {longest} tokens": beyond}
        told = ", ".join(f"{count} {why}" for why, count in reasons.items() if count)
        return f"answers of {self.source.file} left out: {told}" if told else ""


def read_outputs(file: Path) -> Outputs:
    """Read JSON lines with prompt_ids, output_ids and temperature.

    Args:
        file: ``.jsonl`` or ``.jsonl.gz``.

    Returns:
        Samples in an order of chance that is always the same.

    Raises:
        SpecbenchError: unreadable, or a line lacks one of the three or is no sample.
    """
    try:
        samples = list(_samples(file))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        why = reason(error, "it is cut off, damaged or no text")
        raise SpecbenchError(f"cannot read the outputs in {file}: {why}") from error
    answered = [sample for sample in samples if sample.answer]
    if not answered:
        raise SpecbenchError(f"there is no answer in {file}")
    random.Random(0).shuffle(answered)
    return Outputs(answered, len(samples) - len(answered), Source.of_outputs(file))


def adopt(
    corpus: Corpus,
    target: LanguageModel,
    outputs: Outputs,
    layers: Sequence[int],
    *,
    samples_per_shard: int = 96,
    report: Callable[[int], None] = lambda tokens: None,
) -> None:
    """Add answers to a corpus, with the states of one forward each.

    Args:
        corpus: to fill; answers that it holds already are left out.
        target: whose answers they are; they are cut where its context ends.
        outputs: prompts and answers.
        layers: whose entering states are kept.
        samples_per_shard: answers that are written to disk together.
        report: is told the number of answer tokens so far.

    Raises:
        SpecbenchError: an id that the target does not have, or no answer within its context.
    """
    for token in (token for sample in outputs.samples for token in sample.tokens):
        if not 0 <= token < target.vocab_size:
            raise SpecbenchError(
                f"the outputs hold the token id {token}, and target {target.name} has"
                f" {target.vocab_size} ids",
                "They are another target's",
            )
    cut = [_cut(sample, target.context_limit) for sample in outputs.samples]
    usable = [sample for sample in cut if sample.answer]
    if not usable:
        raise SpecbenchError(
            f"no answer of {outputs.source.file} begins within the {target.context_limit} tokens"
            f" of the context of target {target.name}"
        )
    adopted = [path for path in corpus.shards() if corpus.source(path).kind == OUTPUTS]
    held = {_key(sample) for sample in corpus.samples(paths=adopted)}
    wanted = [sample for sample in usable if _key(sample) not in held]
    total = sum(len(s.answer) for s in usable) - sum(len(s.answer) for s in wanted)
    number = 0
    for begin in range(0, len(wanted), samples_per_shard):
        some = wanted[begin : begin + samples_per_shard]
        for sample in some:
            sample.states = _states(target, sample.tokens[:-1], layers)
        while corpus.shard(f"outputs-{number:05d}").exists():
            number += 1
        corpus.write(f"outputs-{number:05d}", some, outputs.source)
        for sample in some:
            sample.states = {}
        total += sum(len(sample.answer) for sample in some)
        report(total)


def _samples(file: Path) -> Iterator[Sample]:
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8") as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield _sample(line)
            except KeyError as error:
                raise SpecbenchError(f"{file}, line {number}, has no {error}") from error
            except (ValueError, RecursionError) as error:
                what = "it is not JSON" if isinstance(error, RecursionError) else error
                raise SpecbenchError(
                    f"cannot read the outputs in {file}, line {number}: {what}"
                ) from error


def _sample(line: str) -> Sample:
    """The sample of a line, whose answer may be empty; ValueError and KeyError if it has none."""
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError("it is not JSON" if line.strip() else "it is blank") from error
    if not isinstance(row, dict):
        raise ValueError("it is no JSON object")
    prompt, output, heat = _ids(row["prompt_ids"]), _ids(row["output_ids"]), row["temperature"]
    if not prompt:
        raise ValueError("an empty prompt")
    if type(heat) not in (int, float) or not 0 <= heat < math.inf:
        raise ValueError(f"temperature {heat!r} is no finite number, 0 or more")
    return Sample([*prompt, *output], len(prompt), float(heat))


def _ids(values: Any) -> list[int]:
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise ValueError(f"{str(values)[:40]} is no list of token ids")
    return values


def _cut(sample: Sample, longest: int) -> Sample:
    return Sample(sample.tokens[:longest], sample.prompt_length, sample.temperature)


def _key(sample: Sample) -> tuple[tuple[int, ...], int, float]:
    """What makes an answer the same: a corpus keeps temperatures as float32."""
    return tuple(sample.tokens), sample.prompt_length, round(sample.temperature, 4)


@torch.inference_mode()
def _states(
    target: LanguageModel, tokens: Sequence[int], layers: Sequence[int]
) -> dict[int, Tensor]:
    ids = torch.tensor([list(tokens)], device=target.device)
    cache = target.new_cache(1, len(tokens))
    output = target.forward(ids, cache, [0], last_only=True, hidden_layers=layers)
    return {layer: as_stored(states[0]) for layer, states in output.hidden.items()}
