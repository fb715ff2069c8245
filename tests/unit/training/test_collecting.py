"""A corpus serves an order only if it answers the prompts that the order asks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel
from specbench.training.collecting import Collector
from specbench.training.corpus import Corpus, Sample
from specbench.training.order import Listener, Order
from specbench.training.source import OUTPUTS, PROMPTS, Source


class Heard(Listener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.messages: list[str] = []

    def collecting(self, tokens: int, wanted: int) -> None:
        self.tokens.append(tokens)

    def message(self, text: str) -> None:
        self.messages.append(text)


def collect(target: LanguageModel, order: Order) -> tuple[Corpus, Heard]:
    heard = Heard()
    return Collector(order).collect(target, "aa", heard), heard


@pytest.fixture
def order(tmp_path: Path) -> Order:
    """Of answers to one.toml; two.toml asks something else."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(f'prompt = ["Say {name}.", "Sing {name}."]\n')
    return Order(
        "medusa",
        tmp_path / "out",
        tmp_path / "corpus",
        tokens=100,
        prompts=tmp_path / "one.toml",
        max_new_tokens=2,
    )


@pytest.fixture
def filled(chat_target: LanguageModel, order: Order) -> Order:
    collect(chat_target, order)
    return order


def write_old_shard(corpus: Corpus) -> None:
    """As versions did that did not say where answers come from."""
    states = {layer: torch.zeros(200, 32) for layer in (1, 2)}
    corpus.write("7-00000", [Sample([1] * 201, 1, 0.0, states)])


def write_outputs(file: Path, *answers: list[int]) -> Path:
    lines = [{"prompt_ids": [5], "output_ids": ids, "temperature": 0} for ids in answers]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_a_corpus_of_the_same_prompts_is_enough_by_whatever_name(
    chat_target: LanguageModel, filled: Order
):
    assert filled.prompts is not None
    copy = filled.prompts.with_name("copy.toml")
    copy.write_bytes(filled.prompts.read_bytes())
    corpus, heard = collect(chat_target, replace(filled, prompts=copy))
    [source] = corpus.num_answers()
    assert (source.kind, source.file) == (PROMPTS, "one.toml")
    assert heard.messages == [], "nothing was collected"
    assert heard.tokens == [corpus.num_tokens()]


@pytest.mark.parametrize("name", ["two.toml", None])
def test_a_corpus_of_other_prompts_is_refused(
    chat_target: LanguageModel, filled: Order, name: str | None, tmp_path: Path
):
    prompts = tmp_path / name if name else None
    shards = sorted(filled.corpus.iterdir())
    with pytest.raises(SpecbenchError) as failure:
        collect(chat_target, replace(filled, prompts=prompts, tokens=10_000))
    text = str(failure.value)
    assert "corpus answers the prompts of one.toml (SHA-256 " in text
    assert f"not the {'prompts of two.toml' if name else 'built-in prompts'} (SHA-256 " in text
    assert text.endswith(". Use another --corpus, or the --prompts it was made with")
    assert sorted(filled.corpus.iterdir()) == shards


def test_a_corpus_that_does_not_say_what_it_answers_serves_only_who_gives_no_prompts(
    chat_target: LanguageModel, order: Order
):
    about = {"target": chat_target.name, "layers": [1, 2], "sha256": "aa"}
    write_old_shard(Corpus(order.corpus, about))
    with pytest.raises(SpecbenchError, match="answers prompts that are not known, not the prompts"):
        collect(chat_target, order)
    corpus, heard = collect(chat_target, replace(order, prompts=None))
    assert corpus.num_answers() == {Source(PROMPTS): 1}
    [message] = heard.messages
    assert message.endswith("is of an earlier version: which prompts it answers is not known")


def test_prompts_that_would_not_be_asked_are_refused(chat_target: LanguageModel, order: Order):
    outputs = write_outputs(order.out.with_name("o.jsonl"), [7] * 100, [8, 9], [])
    given = replace(order, outputs=outputs)
    with pytest.raises(SpecbenchError, match=r"nothing in .*one\.toml would be asked: the outputs"):
        collect(chat_target, given)
    corpus, _ = collect(chat_target, replace(given, tokens=200))
    counts = {source.kind: count for source, count in corpus.num_answers().items()}
    assert counts == {OUTPUTS: 2, PROMPTS: 192}


def test_what_outputs_lack_is_told(chat_target: LanguageModel, order: Order):
    outputs = write_outputs(order.out.with_name("o.jsonl"), [7] * 100, [])
    _, heard = collect(chat_target, replace(order, prompts=None, outputs=outputs))
    assert heard.messages[0] == "answers of o.jsonl left out: 1 empty"
    _, heard = collect(chat_target, replace(order, prompts=None, outputs=outputs))
    assert heard.messages == ["answers of o.jsonl left out: 1 empty"]
    _, heard = collect(chat_target, replace(order, prompts=None))
    [message] = heard.messages
    assert "corpus also holds 1 answers from the file o.jsonl (SHA-256 " in message


def test_a_corpus_that_grows_goes_on_from_all_it_holds(chat_target: LanguageModel, filled: Order):
    corpus, heard = collect(chat_target, replace(filled, tokens=400))
    held = corpus.num_tokens([corpus.shard("0-00000")])
    assert min(heard.tokens) > held
    again, heard = collect(chat_target, replace(filled, tokens=held + 1))
    assert heard.tokens == [again.num_tokens()]
    assert again.num_tokens() > held
