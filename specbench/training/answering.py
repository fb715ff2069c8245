"""Lets the target answer prompts, many at once, and keeps its states.

Rows of different lengths share one cache; a finished row's slot takes the next prompt. Nothing is
timed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specbench.models.cache import RowCache
from specbench.models.language_model import LanguageModel
from specbench.training.corpus import Sample, as_stored


@dataclass
class Growing:
    """An answer that is being written.

    Attributes:
        index: of its prompt.
        sample: prompt and answer so far.
        states: per layer, those of the tokens read so far, piece by piece.
    """

    index: int
    sample: Sample
    states: dict[int, list[Tensor]] = field(default_factory=dict)

    def sealed(self) -> Sample:
        """The answer with its states as one tensor per layer."""
        self.sample.states = {layer: torch.cat(parts) for layer, parts in self.states.items()}
        return self.sample


class Answering:
    """Answers prompts.

    Args:
        target: the model.
        batch_size: answers that grow at once.
        max_new_tokens: longest answer.
        layers: whose entering states are kept.
        generator: of the sampled tokens.
        report: is told the number of tokens written so far.
    """

    def __init__(
        self,
        target: LanguageModel,
        *,
        batch_size: int,
        max_new_tokens: int,
        layers: Sequence[int],
        generator: torch.Generator,
        report: Callable[[int], None] = lambda tokens: None,
    ) -> None:
        self.target, self.layers, self.generator = target, layers, generator
        self.batch_size, self.max_new_tokens = batch_size, max_new_tokens
        self.stops = target.stop_tokens
        self.report = report

    @torch.inference_mode()
    def answer(
        self, prompts: Sequence[Sequence[int]], temperatures: Sequence[float]
    ) -> list[Sample]:
        """The answers, in the order of the prompts."""
        width = min(self.batch_size, len(prompts))
        cache = self.target.new_cache(width, max(map(len, prompts)) + self.max_new_tokens)
        queue = list(enumerate(zip(prompts, temperatures, strict=True)))
        # the longest first: attention reads as many slots of each row as the longest row fills
        queue.sort(key=lambda item: len(item[1][0]))
        finished: dict[int, Sample] = {}

        def refill(slot: int) -> Growing | None:
            while queue:
                index, (prompt, temperature) = queue.pop()
                row = self._read_prompt(index, list(prompt), temperature, cache, slot)
                if not self._ended(row.sample):
                    return row
                finished[index] = row.sealed()
            return None

        slots = [refill(slot) for slot in range(width)]
        while any(slots):
            self._grow(slots, cache)
            for slot, row in enumerate(slots):
                if row is not None and self._ended(row.sample):
                    finished[row.index] = row.sealed()
                    slots[slot] = refill(slot)
            growing = (row.sample for row in slots if row is not None)
            self.report(sum(len(sample.answer) for sample in (*finished.values(), *growing)))
        return [finished[index] for index in range(len(prompts))]

    def _read_prompt(
        self, index: int, prompt: list[int], temperature: float, cache: RowCache, slot: int
    ) -> Growing:
        alone = self.target.new_cache(1, len(prompt))
        tokens = torch.tensor([prompt], device=self.target.device)
        output = self.target.forward(tokens, alone, [0], last_only=True, hidden_layers=self.layers)
        cache.restore(slot, alone.snapshot(0, len(prompt)))
        first = self._choose(output.logits[:, -1], [temperature])[0]
        states = {layer: [as_stored(tensor[0])] for layer, tensor in output.hidden.items()}
        return Growing(index, Sample([*prompt, first], len(prompt), temperature), states)

    def _grow(self, slots: Sequence[Growing | None], cache: RowCache) -> None:
        """One token more for every row; an empty slot reads padding that nobody sees."""
        last = torch.tensor([[row.sample.tokens[-1] if row else 0] for row in slots])
        starts = [len(row.sample.tokens) - 1 if row else 0 for row in slots]
        output = self.target.forward(
            last.to(self.target.device), cache, starts, hidden_layers=self.layers
        )
        temperatures = [row.sample.temperature if row else 0.0 for row in slots]
        chosen = self._choose(output.logits[:, -1], temperatures)
        kept = {layer: as_stored(states) for layer, states in output.hidden.items()}
        for slot, row in enumerate(slots):
            if row is not None:
                for layer, tensor in kept.items():
                    row.states[layer].append(tensor[slot])
                row.sample.tokens.append(chosen[slot])

    def _choose(self, logits: Tensor, temperatures: Sequence[float]) -> list[int]:
        """A token per row: the argmax of logits + T x Gumbel noise, so of the logits at T = 0."""
        scores = logits.float().cpu()
        noise = torch.empty_like(scores).exponential_(generator=self.generator)
        noise = noise.clamp_(min=1e-20).log_().neg_()  # never infinite: 0 times it must be 0
        heat = torch.tensor(temperatures)[:, None]
        tokens: list[int] = (scores + heat * noise).argmax(dim=-1).tolist()
        return tokens

    def _ended(self, sample: Sample) -> bool:
        return sample.tokens[-1] in self.stops or len(sample.answer) >= self.max_new_tokens
