"""Lets the target answer prompts, many at once, and keeps its states.

Rows of different lengths share one cache; a finished row's slot takes the next prompt. Nothing is
timed here. What comes out depends on the seed alone, up to rounding: prompts, temperatures and
random numbers of a shard are drawn from (seed, shard).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.models.cache import RowCache
from specbench.models.target import LanguageModel
from specbench.training.corpus import Corpus, Sample
from specbench.training.prompts import PromptGrammar, TrainingPrompt
from specbench.workloads.prompt import Prompt
from specbench.workloads.render import render

TEMPERATURES = (0.0, 0.0, 0.0, 0.7, 1.0, 1.0, 1.0)
_LONGEST_PROMPT = 700
_PASSAGE_TOKENS = 220


@dataclass(frozen=True)
class Plan:
    """How a corpus is generated.

    Attributes:
        seed: of prompts, temperatures and sampling.
        prompts_per_shard: answers that are written to disk together.
        batch_size: answers that grow at once.
        max_new_tokens: longest answer.
        layers: whose entering states are kept.
    """

    seed: int = 0
    prompts_per_shard: int = 192
    batch_size: int = 48
    max_new_tokens: int = 192
    layers: tuple[int, ...] = ()


def extend(
    corpus: Corpus,
    target: LanguageModel,
    grammar: PromptGrammar,
    plan: Plan,
    num_tokens: int,
    *,
    report: Callable[[int], None] = lambda tokens: None,
    enough: Callable[[], bool] = lambda: False,
) -> None:
    """Add generated shards until the corpus has ``num_tokens`` answer tokens.

    Args:
        corpus: to fill; finished shards are kept.
        target: answers.
        grammar: asks.
        plan: how.
        num_tokens: of answers, those of all shards counted.
        report: is told the number of answer tokens so far.
        enough: asked before each shard; True ends early.
    """
    passages: list[str] = []
    total, number = 0, 0
    stops = target.stop_tokens
    known = set(corpus.shards())
    for path in known - {corpus.shard(f"{plan.seed}-{i:05d}") for i in range(len(known))}:
        total += sum(len(sample.answer) for sample in corpus.samples(paths=[path]))
    while total < num_tokens:
        name = f"{plan.seed}-{number:05d}"
        rng = random.Random(f"{plan.seed}/{number}")
        prompts = _draw(grammar, rng, passages, target, plan.prompts_per_shard)
        if not corpus.shard(name).exists():
            if enough():
                return
            generator = torch.Generator().manual_seed(rng.getrandbits(62))
            temperatures = [rng.choice(TEMPERATURES) for _ in prompts]
            batch = Batch(target, plan, generator, stops, report=lambda n, t=total: report(t + n))
            corpus.write(name, batch.answer([ids for _, ids in prompts], temperatures))
        samples = list(corpus.samples(paths=[corpus.shard(name)]))
        total += sum(len(sample.answer) for sample in samples)
        report(total)
        passages += _passages(prompts, samples, target)
        number += 1


def _draw(
    grammar: PromptGrammar,
    rng: random.Random,
    passages: Sequence[str],
    target: LanguageModel,
    count: int,
) -> list[tuple[TrainingPrompt, list[int]]]:
    """Prompts with their token ids, none too long."""
    longest = min(_LONGEST_PROMPT, target.context_limit // 2)
    drawn: list[tuple[TrainingPrompt, list[int]]] = []
    while len(drawn) < count:
        prompt = grammar.draw(rng, passages)
        asked = Prompt("training", "training", "training", (prompt.text,), "grammar")
        ids = render(asked, 0, [], target.tokenizer)
        if len(ids) <= longest:
            drawn.append((prompt, ids))
    return drawn


def _passages(
    prompts: Sequence[tuple[TrainingPrompt, list[int]]],
    samples: Sequence[Sample],
    target: LanguageModel,
) -> list[str]:
    """The answers that may be quoted by later prompts: texts of some length, cut to a page."""
    texts = [
        target.tokenizer.decode(sample.answer[:_PASSAGE_TOKENS], skip_special_tokens=True).strip()
        for (prompt, _), sample in zip(prompts, samples, strict=True)
        if prompt.is_source
    ]
    return [text for text in texts if len(text) > 200]


class Batch:
    """Answers that grow together.

    Args:
        target: the model.
        plan: batch size, longest answer, layers.
        generator: of the sampled tokens.
        stops: ids that end an answer.
        report: is told the number of tokens written so far.
    """

    def __init__(
        self,
        target: LanguageModel,
        plan: Plan,
        generator: torch.Generator,
        stops: frozenset[int],
        report: Callable[[int], None],
    ) -> None:
        self.target, self.plan, self.generator = target, plan, generator
        self.stops = stops
        self.report = report

    @torch.inference_mode()
    def answer(
        self, prompts: Sequence[Sequence[int]], temperatures: Sequence[float]
    ) -> list[Sample]:
        """The answers, in the order of the prompts."""
        plan = self.plan
        width = min(plan.batch_size, len(prompts))
        cache = self.target.new_cache(width, max(map(len, prompts)) + plan.max_new_tokens)
        finished: dict[int, Sample] = {}
        queue = list(enumerate(zip(prompts, temperatures, strict=True)))[::-1]
        slots: list[tuple[int, Sample, dict[int, list[Tensor]]] | None] = [None] * width
        written = 0

        def refill(slot: int) -> None:
            slots[slot] = None
            while queue and slots[slot] is None:
                index, (prompt, temperature) = queue.pop()
                sample, states = self._prefill(list(prompt), temperature, cache, slot)
                if self._ended(sample):
                    finished[index] = _sealed(sample, states)
                else:
                    slots[slot] = (index, sample, states)

        for slot in range(width):
            refill(slot)
        while any(slots):
            rows = [row[1] if row else None for row in slots]
            last = torch.tensor([[row.tokens[-1] if row else 0] for row in rows])
            starts = [len(row.tokens) - 1 if row else 0 for row in rows]
            output = self.target.forward(
                last.to(self.target.device), cache, starts, hidden_layers=plan.layers
            )
            heat = [row.temperature if row else 0.0 for row in rows]
            chosen = self._choose(output.logits[:, -1], heat)
            kept = {layer: states.half().cpu() for layer, states in output.hidden.items()}
            for slot, row in enumerate(slots):
                if row is None:
                    continue
                index, sample, states = row
                for layer, tensor in kept.items():
                    states[layer].append(tensor[slot])
                sample.tokens.append(chosen[slot])
                written += 1
                if self._ended(sample):
                    finished[index] = _sealed(sample, states)
                    refill(slot)
            self.report(written)
        return [finished[index] for index in range(len(prompts))]

    def _prefill(
        self, prompt: list[int], temperature: float, cache: RowCache, slot: int
    ) -> tuple[Sample, dict[int, list[Tensor]]]:
        alone = self.target.new_cache(1, len(prompt))
        tokens = torch.tensor([prompt], device=self.target.device)
        output = self.target.forward(
            tokens, alone, [0], last_only=True, hidden_layers=self.plan.layers
        )
        cache.restore(slot, alone.snapshot(0, len(prompt)))
        first = self._choose(output.logits[:, -1], [temperature])[0]
        states = {layer: [tensor[0].half().cpu()] for layer, tensor in output.hidden.items()}
        return Sample([*prompt, first], len(prompt), temperature), states

    def _choose(self, logits: Tensor, temperatures: Sequence[float]) -> list[int]:
        """A token per row: the argmax of logits / T + Gumbel noise, or of the logits at T = 0."""
        scores = logits.float().cpu()
        noise = torch.empty_like(scores).exponential_(generator=self.generator)
        noise = noise.clamp_(min=1e-20).log_().neg_()  # never infinite: 0 times it must be 0
        heat = torch.tensor(temperatures)[:, None]
        tokens: list[int] = (scores + heat * noise).argmax(dim=-1).tolist()
        return tokens

    def _ended(self, sample: Sample) -> bool:
        return sample.tokens[-1] in self.stops or len(sample.answer) >= self.plan.max_new_tokens


def adopt(
    corpus: Corpus,
    target: LanguageModel,
    samples: Sequence[Sample],
    layers: Sequence[int],
    *,
    samples_per_shard: int = 96,
    report: Callable[[int], None] = lambda tokens: None,
) -> None:
    """Add answers that were collected elsewhere, without states: one forward each.

    Args:
        corpus: to fill; finished shards are kept.
        target: whose answers they are.
        samples: always in the same order.
        layers: whose entering states are kept.
        samples_per_shard: answers that are written to disk together.
        report: is told the number of answer tokens so far.
    """
    total = 0
    for number, begin in enumerate(range(0, len(samples), samples_per_shard)):
        some = samples[begin : begin + samples_per_shard]
        total += sum(len(sample.answer) for sample in some)
        name = f"outputs-{number:05d}"
        if not corpus.shard(name).exists():
            for sample in some:
                sample.states = _states(target, sample.tokens[:-1], layers)
            corpus.write(name, some)
            for sample in some:
                sample.states = {}
        report(total)


@torch.inference_mode()
def _states(
    target: LanguageModel, tokens: Sequence[int], layers: Sequence[int]
) -> dict[int, Tensor]:
    ids = torch.tensor([list(tokens)], device=target.device)
    cache = target.new_cache(1, len(tokens))
    output = target.forward(ids, cache, [0], last_only=True, hidden_layers=layers)
    return {layer: states[0].half().cpu() for layer, states in output.hidden.items()}


def _sealed(sample: Sample, states: dict[int, list[Tensor]]) -> Sample:
    """A finished answer with its states as one tensor per layer."""
    sample.states = {layer: torch.cat(parts) for layer, parts in states.items()}
    return sample
