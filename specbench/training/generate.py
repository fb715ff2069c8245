"""Fills a corpus: with the target's answers to drawn prompts, or with answers it gave elsewhere.

What comes out depends on the seed alone, up to rounding: prompts, temperatures and random numbers
of a shard are drawn from (seed, shard).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.errors import SpecbenchError
from specbench.models.target import LanguageModel
from specbench.training.answering import Answering
from specbench.training.corpus import Corpus, Sample, as_stored
from specbench.training.prompts import PromptGrammar, TrainingPrompt
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
) -> None:
    """Add generated shards until the corpus has ``num_tokens`` answer tokens.

    Args:
        corpus: to fill; finished shards are kept, one that is missing is made again.
        target: answers.
        grammar: asks.
        plan: how.
        num_tokens: of answers, those of all shards counted.
        report: is told the number of answer tokens so far.

    Raises:
        SpecbenchError: the target is no chat model, or its context is too short for the prompts.
    """
    own = re.compile(rf"shard-{plan.seed}-\d+\.safetensors")
    others = [path for path in corpus.shards() if not own.fullmatch(path.name)]
    total = sum(num_answer_tokens(corpus, path.stem.removeprefix("shard-")) for path in others)
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
            corpus.write(name, answering.answer([ids for _, ids in prompts], temperatures))
        samples = list(corpus.samples(paths=[corpus.shard(name)]))
        total += sum(len(sample.answer) for sample in samples)
        report(total)
        passages += _passages(prompts, samples, target)
        number += 1


def num_answer_tokens(corpus: Corpus, name: str) -> int:
    """Answer tokens of one shard."""
    return sum(len(sample.answer) for sample in corpus.samples(paths=[corpus.shard(name)]))


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
        corpus: to fill; answers that it holds already are left out.
        target: whose answers they are; they are cut where its context ends.
        samples: prompts and answers.
        layers: whose entering states are kept.
        samples_per_shard: answers that are written to disk together.
        report: is told the number of answer tokens so far.

    Raises:
        SpecbenchError: an id that the target does not have.
    """
    for token in (token for sample in samples for token in sample.tokens):
        if not 0 <= token < target.vocab_size:
            raise SpecbenchError(
                f"the outputs hold the token id {token}, and target {target.name} has"
                f" {target.vocab_size} ids",
                "They are another target's",
            )
    adopted = [path for path in corpus.shards() if path.name.startswith("shard-outputs-")]
    held = {_key(sample) for sample in corpus.samples(paths=adopted)}
    cut = [_cut(sample, target.context_limit) for sample in samples]
    wanted = [s for s in cut if s.answer and _key(s) not in held]
    total = sum(len(s.answer) for s in cut) - sum(len(s.answer) for s in wanted)
    number = 0
    for begin in range(0, len(wanted), samples_per_shard):
        some = wanted[begin : begin + samples_per_shard]
        for sample in some:
            sample.states = _states(target, sample.tokens[:-1], layers)
        while corpus.shard(f"outputs-{number:05d}").exists():
            number += 1
        corpus.write(f"outputs-{number:05d}", some)
        for sample in some:
            sample.states = {}
        total += sum(len(sample.answer) for sample in some)
        report(total)


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
    samples: Sequence[Sample],
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
