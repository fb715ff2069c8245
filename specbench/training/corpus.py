"""The target's own output, with its hidden states: what drafters are trained on.

A drafter has to predict what the target *says*, so the target's own answers, greedy and sampled,
are the text to learn from (Zhou et al. 2023, DistillSpec; Li et al. 2024, EAGLE). The states are
kept because recomputing them would cost as much as generating did.

A corpus is a folder of shards. Each is made by itself from (seed, number), so a killed run goes on
with the next one, and folders of several seeds can be put together. One shard is a safetensors
file:

    tokens [T] int32, lengths [n] int32, prompt_lengths [n] int32, temperatures [n] float32
    states.<i> [T - n, H] float16: the state entering layer i (the number of layers: the last state,
        after the final norm) for every token but a sequence's last, which the target never read
"""

from __future__ import annotations

import gzip
import json
import os
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from specbench.errors import SpecbenchError

_STATE = "states."


@dataclass
class Sample:
    """A prompt and the target's answer.

    Attributes:
        tokens: [n] prompt and answer.
        prompt_length: how many of them are prompt.
        temperature: the answer was sampled at.
        states: layer to the states [n - 1, H] of all tokens but the last.
    """

    tokens: list[int]
    prompt_length: int
    temperature: float
    states: dict[int, Tensor] = field(default_factory=dict)

    @property
    def answer(self) -> list[int]:
        return self.tokens[self.prompt_length :]


class Corpus:
    """A folder of shards.

    Args:
        folder: made if missing.
        about: what the corpus depends on: target, layers, the weights' hash; a folder that was
            made for something else is refused.

    Raises:
        SpecbenchError: the folder belongs to another target or cannot be used.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder = folder
        note = folder / "corpus.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if note.exists():
                found = json.loads(note.read_text(encoding="utf-8"))
                _refuse_other(folder, found, about)
            else:
                partial = note.with_suffix(f".{os.getpid()}.partial")
                partial.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
                partial.replace(note)
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise SpecbenchError(f"cannot use the corpus folder {folder}: {error}") from error

    def shards(self) -> list[Path]:
        """The finished shards, in order of their names."""
        return sorted(self.folder.glob("shard-*.safetensors"))

    def shard(self, name: str) -> Path:
        return self.folder / f"shard-{name}.safetensors"

    def write(self, name: str, samples: Sequence[Sample]) -> None:
        """Write a shard, whole or not at all.

        Raises:
            SpecbenchError: the disk is full, or the folder cannot be written.
        """
        tensors = {
            "tokens": torch.tensor([t for s in samples for t in s.tokens], dtype=torch.int32),
            "lengths": torch.tensor([len(s.tokens) for s in samples], dtype=torch.int32),
            "prompt_lengths": torch.tensor([s.prompt_length for s in samples], dtype=torch.int32),
            "temperatures": torch.tensor([s.temperature for s in samples]),
        }
        for layer in samples[0].states:
            states = torch.cat([s.states[layer] for s in samples])
            tensors[f"{_STATE}{layer}"] = as_stored(states).contiguous()
        path = self.shard(name)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        try:
            save_file(tensors, partial)
            partial.replace(path)
        except (OSError, SafetensorError) as error:
            raise SpecbenchError(
                f"cannot write {path}: {error}",
                "Make room and type the same command again: finished shards are kept",
            ) from error
        finally:
            partial.unlink(missing_ok=True)

    def samples(
        self, layers: Sequence[int] = (), paths: Sequence[Path] | None = None
    ) -> Iterator[Sample]:
        """All samples of the given shards (default: all), with the states of ``layers``.

        Raises:
            SpecbenchError: a shard is damaged, or lacks a layer.
        """
        for path in self.shards() if paths is None else paths:
            try:
                yield from _read(path, layers)
            except (OSError, SafetensorError, ValueError) as error:
                raise SpecbenchError(
                    f"cannot read {path}: {error}", "Delete it; it is made again"
                ) from error

    def token_counts(self, vocab_size: int) -> Tensor:
        """[V] how often the target wrote each token."""
        counts = torch.zeros(vocab_size, dtype=torch.long)
        for sample in self.samples():
            counts += torch.bincount(torch.tensor(sample.answer), minlength=vocab_size)
        return counts


def as_stored(states: Tensor) -> Tensor:
    """States as a corpus keeps them: float16 on the CPU. Some targets' exceed its range."""
    limit = torch.finfo(torch.float16).max
    return states.clamp(-limit, limit).half().cpu()


def read_outputs(file: Path) -> list[Sample]:
    """Answers collected elsewhere: JSON lines with prompt_ids, output_ids and temperature.

    Args:
        file: ``.jsonl`` or ``.jsonl.gz``.

    Returns:
        Samples without states, in an order of chance that is always the same; empty answers are
        left out.

    Raises:
        SpecbenchError: unreadable, or a line lacks one of the three or is no sample.
    """
    opener = gzip.open if file.suffix == ".gz" else open
    samples = []
    where = str(file)
    try:
        with opener(file, "rt", encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                where = f"{file}, line {number},"
                row = json.loads(line)
                prompt, output = _ids(row["prompt_ids"]), _ids(row["output_ids"])
                if not prompt:
                    raise ValueError("an empty prompt")
                if output:
                    temperature = float(row["temperature"])
                    samples.append(Sample([*prompt, *output], len(prompt), temperature))
    except KeyError as error:
        raise SpecbenchError(f"{where} has no {error}") from error
    except (OSError, EOFError, ValueError, TypeError, zlib.error, RecursionError) as error:
        where = where.removesuffix(",")
        raise SpecbenchError(f"cannot read the outputs in {where}: {error}") from error
    if not samples:
        raise SpecbenchError(f"there is no answer in {file}")
    random.Random(0).shuffle(samples)
    return samples


def _ids(values: Any) -> list[int]:
    if not isinstance(values, list) or not all(type(value) is int for value in values):
        raise TypeError(f"{str(values)[:40]} is no list of token ids")
    return values


def _read(path: Path, layers: Sequence[int]) -> Iterator[Sample]:
    with safe_open(path, framework="pt") as shard:
        known = set(shard.keys())
        for layer in layers:
            if f"{_STATE}{layer}" not in known:
                raise SpecbenchError(
                    f"{path} has no states of layer {layer}",
                    "It was made for another kind of drafter: use another --corpus",
                )
        tokens = shard.get_tensor("tokens").tolist()
        lengths = shard.get_tensor("lengths").tolist()
        prompt_lengths = shard.get_tensor("prompt_lengths").tolist()
        temperatures = shard.get_tensor("temperatures").tolist()
        states = {layer: shard.get_tensor(f"{_STATE}{layer}") for layer in layers}
    num_states = sum(lengths) - len(lengths)
    if len(tokens) != sum(lengths) or any(len(t) != num_states for t in states.values()):
        raise ValueError("its lengths do not fit its tokens and states")
    begin = state_begin = 0
    for length, prompt_length, temperature in zip(
        lengths, prompt_lengths, temperatures, strict=True
    ):
        end, state_end = begin + length, state_begin + length - 1
        yield Sample(
            tokens[begin:end],
            prompt_length,
            temperature,
            {layer: tensor[state_begin:state_end] for layer, tensor in states.items()},
        )
        begin, state_begin = end, state_end


def _refuse_other(folder: Path, found: dict[str, Any], about: dict[str, Any]) -> None:
    for key, value in about.items():
        theirs = found.get(key, value)
        same = theirs == value
        if key == "target":  # a folder goes by many names; where it is known, its hash decides
            same = Path(theirs).name == Path(value).name
        if not same:
            raise SpecbenchError(
                f"the corpus {folder} was made with {key} = {theirs!r}, not {value!r}",
                "Use another --corpus, or the options it was made with",
            )
