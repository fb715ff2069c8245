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

Its metadata say as ``source`` what its answers are to; shards of earlier versions don't.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from specbench.errors import SpecbenchError
from specbench.training.reasons import reason
from specbench.training.source import OUTPUTS, PROMPTS, Source

_STATE = "states."
_SOURCE = "source"
_OF_OUTPUTS = "shard-outputs-"


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
        SpecbenchError: the folder belongs to another target, holds shards without saying whose, or
            cannot be used.
    """

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.folder = folder
        note = folder / "corpus.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if note.exists():
                _refuse_other(folder, _read_note(note), about)
            elif self.shards():
                raise SpecbenchError(
                    f"{folder} has shards of answers but no {note.name}, which says whose they are",
                    "Put it back, or use another --corpus",
                )
            else:
                partial = note.with_suffix(f".{os.getpid()}.partial")
                partial.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
                partial.replace(note)
        except OSError as error:
            why = reason(error, "it can't be read or written")
            raise SpecbenchError(f"cannot use the corpus folder {folder}: {why}") from error

    def shards(self) -> list[Path]:
        """The finished shards, in order of their names."""
        return sorted(self.folder.glob("shard-*.safetensors"))

    def shard(self, name: str) -> Path:
        return self.folder / f"shard-{name}.safetensors"

    def source(self, path: Path) -> Source:
        """Where the answers of a shard come from.

        Raises:
            SpecbenchError: the shard is damaged.
        """
        with _reading(path), safe_open(path, framework="pt") as shard:
            told = (shard.metadata() or {}).get(_SOURCE)
            if told is not None:
                return Source.from_json(told)
        return Source(OUTPUTS if path.name.startswith(_OF_OUTPUTS) else PROMPTS)

    def num_answers(self) -> dict[Source, int]:
        """How many answers come from where."""
        counts: Counter[Source] = Counter()
        for path in self.shards():
            counts[self.source(path)] += sum(1 for _ in self.samples(paths=[path]))
        return dict(counts)

    def write(self, name: str, samples: Sequence[Sample], source: Source | None = None) -> None:
        """Write a shard, whole or not at all.

        Args:
            name: what makes its file's name.
            samples: one at least, all with states of the same layers.
            source: where they come from; None if it is not known.

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
            save_file(tensors, partial, None if source is None else {_SOURCE: source.to_json()})
            partial.replace(path)
        except (OSError, SafetensorError) as error:
            raise SpecbenchError(
                f"cannot write {path}: {reason(error, 'the disk took only a part of it')}",
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
            with _reading(path):
                yield from _read(path, layers)

    def num_tokens(self, paths: Sequence[Path] | None = None) -> int:
        """Answer tokens of the given shards (default: all)."""
        return sum(len(sample.answer) for sample in self.samples(paths=paths))

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


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turns whatever a damaged shard leads to into one error that names it."""
    try:
        yield
    except (OSError, SafetensorError, ValueError, TypeError) as error:
        is_told = type(error) is ValueError  # by _read
        why = str(error) if is_told else reason(error, "it is damaged")
        raise SpecbenchError(f"cannot read {path}: {why}", "Delete it; it is made again") from error


def _read_note(note: Path) -> dict[str, Any]:
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return found
    except ValueError:  # no JSON, or no text
        pass
    raise SpecbenchError(
        f"cannot use the corpus folder {note.parent}: its {note.name} is damaged",
        "Put a good one back, or use another --corpus",
    )


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
            same = Path(str(theirs)).name == Path(value).name
        if not same:
            raise SpecbenchError(
                f"the corpus {folder} was made with {key} = {theirs!r}, not {value!r}",
                "Use another --corpus, or the options it was made with",
            )
