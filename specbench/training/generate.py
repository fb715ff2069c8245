"""Fills a corpus with the target's answers to drawn prompts.

What comes out depends on the seed alone, up to rounding: prompts, temperatures and random numbers
of a shard are drawn from (seed, shard).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch

from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel
from specbench.training.answering import Answering
from specbench.training.corpus import Corpus, Sample
from specbench.training.prompts import PromptGrammar, TrainingPrompt
from specbench.training.source import Source
from specbench.workloads.prompt import Prompt
from specbench.workloads.render import render

TEMPERATURES = (0.0, 0.0, 0.0, 0.7, 1.0, 1.0, 1.0)
_LONGEST_PROMPT = 700
_PASSAGE_TOKENS = 220
_MOST_DRAWS = 200


@dataclass(frozen=True)
class Plan:
    """How a corpus is generated.

    Attributes:
        seed: of prompts, temperatures and sampling.
        prompts_per_shard: answers that are written to disk together.
        batch_size: answers that grow at once.
        max_new_tokens: longest answer.
        layers: whose entering states are kept.
        source: of the prompts; None if it is not known.
    """

    seed: int = 0
    prompts_per_shard: int = 192
    batch_size: int = 48
    max_new_tokens: int = 192
    layers: tuple[int, ...] = ()
    source: Source | None = None


def extend(
    corpus: Corpus,
    target: LanguageModel,
    grammar: PromptGrammar,
    plan: Plan,
    num_tokens: int,
    *,
    report: Callable[[int], None] = lambda tokens: None,
) -> None:
    """Add generated shards until the corpus has ``num_tokens`` answer tokens.

    Args:
        corpus: to fill; finished shards are kept, one that is missing is made again if it is
            needed.
        target: answers.
        grammar: asks.
        plan: how.
        num_tokens: of answers, those of all shards counted.
        report: is told the number of answer tokens so far.

    Raises:
        SpecbenchError: the target is no chat model, or its context is too short for the prompts.
    """
    total = corpus.num_tokens()
    if total >= num_tokens:
        report(total)
    passages: list[str] = []
    number = 0
    while total < num_tokens:
        _require_chat(target)
        name = f"{plan.seed}-{number:05d}"
        rng = random.Random(f"{plan.seed}/{number}")
        prompts = _draw(grammar, rng, passages, target, plan.prompts_per_shard)
        if not corpus.shard(name).exists():
            answering = Answering(
                target,
                batch_size=plan.batch_size,
                max_new_tokens=plan.max_new_tokens,
                layers=plan.layers,
                generator=torch.Generator().manual_seed(rng.getrandbits(62)),
                report=_counting_from(total, report),
            )
            temperatures = [rng.choice(TEMPERATURES) for _ in prompts]
            answers = answering.answer([ids for _, ids in prompts], temperatures)
            corpus.write(name, answers, plan.source)
            total += sum(len(sample.answer) for sample in answers)
            report(total)
        passages += _passages(prompts, corpus.samples(paths=[corpus.shard(name)]), target)
        number += 1


def _counting_from(begin: int, report: Callable[[int], None]) -> Callable[[int], None]:
    return lambda tokens: report(begin + tokens)


def _require_chat(target: LanguageModel) -> None:
    lacks = "tokenizer" if target.tokenizer is None else "chat template"
    if not getattr(target.tokenizer, "chat_template", None):
        raise SpecbenchError(
            f"target {target.name} has no {lacks}, and the prompts are for a chat model",
            "Give it answers that it wrote elsewhere: --outputs, and --tokens no larger than those",
        )


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
    for draws in range(count * _MOST_DRAWS):
        prompt = grammar.draw(rng, passages)
        asked = Prompt("training", "training", "training", (prompt.text,), "grammar")
        ids = render(asked, 0, [], target.tokenizer)
        if len(ids) <= longest:
            drawn.append((prompt, ids))
        if len(drawn) == count:
            return drawn
        if draws >= _MOST_DRAWS and not drawn:
            break
    raise SpecbenchError(
        f"hardly a prompt fits in {longest} tokens, half of the context of target {target.name}",
        "Give shorter --prompts",
    )


def _passages(
    prompts: Sequence[tuple[TrainingPrompt, list[int]]],
    samples: Iterable[Sample],
    target: LanguageModel,
) -> list[str]:
    """The answers that may be quoted by later prompts: texts of some length, cut to a page.

    A shard that was made from other prompts than those drawn now is not quoted.
    """
    texts = [
        target.tokenizer.decode(sample.answer[:_PASSAGE_TOKENS], skip_special_tokens=True).strip()
        for (prompt, ids), sample in zip(prompts, samples, strict=False)
        if prompt.is_source and sample.tokens[: sample.prompt_length] == ids
    ]
    return [text for text in texts if len(text) > 200]
