"""Collected answers are the target's own, with its own states, however they are batched."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel
from specbench.training.answering import Answering
from specbench.training.corpus import Corpus, Sample
from specbench.training.generate import Plan, extend
from specbench.training.prompts import PromptGrammar
from tests.tiny import language_model, requests, run_cell
from tests.unit.training.plain import full_states

GRAMMAR = PromptGrammar(
    {
        "prompt": ["Say {word} and {word}.", "{source}", "Sum up: {passage}"],
        "source": ["Write on {word}."],
        "word": ["tea", "rain", "chess", "salt"],
    }
)
LAYERS = (1, 2)
SHORT = Plan(seed=3, prompts_per_shard=6, batch_size=4, max_new_tokens=8, layers=LAYERS)
ABOUT = {"target": "tiny", "layers": list(LAYERS)}


def answering(target: LanguageModel, **changes) -> Answering:
    options = {
        "batch_size": 3,
        "max_new_tokens": 12,
        "layers": LAYERS,
        "generator": torch.Generator().manual_seed(0),
    }
    return Answering(target, **{**options, **changes})


@pytest.fixture(scope="module")
def target() -> LanguageModel:
    return language_model("llama")


@pytest.fixture(scope="module")
def batch():
    return requests(8)


@pytest.mark.parametrize("batch_size", [1, 3, 20])
def test_greedy_answers_are_the_engines(target: LanguageModel, batch, batch_size: int):
    engine = run_cell(target, None, batch, max_new_tokens=12)
    samples = answering(target, batch_size=batch_size).answer(
        [request.token_ids for request in batch], [0.0] * 8
    )
    assert [sample.answer for sample in samples] == engine.outputs
    assert [sample.tokens[: sample.prompt_length] for sample in samples] == [
        list(request.token_ids) for request in batch
    ]


def test_stop_tokens_end_answers_as_in_the_engine(target: LanguageModel, batch):
    stops = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
    engine = run_cell(target, None, batch, max_new_tokens=12, stop_tokens=stops)
    lengths = {len(output) for output in engine.outputs}
    assert len(lengths) > 2, "slots are to be refilled at different times"
    asked = answering(target)
    asked.stops = frozenset(stops)
    samples = asked.answer([request.token_ids for request in batch], [0.0] * 8)
    assert [sample.answer for sample in samples] == engine.outputs


def test_a_greedy_row_does_not_depend_on_the_sampled_ones_beside_it(target: LanguageModel, batch):
    engine = run_cell(target, None, batch, max_new_tokens=12)
    heat = [0.0, 1.0] * 4
    samples = answering(target).answer([request.token_ids for request in batch], heat)
    assert [s.answer for s in samples[::2]] == engine.outputs[::2]
    assert [s.answer for s in samples[1::2]] != engine.outputs[1::2]
    assert [s.temperature for s in samples] == heat


def test_states_are_those_of_a_fresh_forward(target: LanguageModel, batch):
    samples = answering(target).answer([request.token_ids for request in batch], [0.0, 1.0] * 4)
    for sample in samples:
        fresh = full_states(target, sample.tokens[:-1])
        assert sample.states.keys() == set(LAYERS)
        for layer in LAYERS:
            assert sample.states[layer].dtype == torch.float16
            assert sample.states[layer].float() == pytest.approx(fresh[layer], abs=4e-3, rel=1e-3)


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_tokens_are_drawn_from_the_targets_distribution(target: LanguageModel, temperature: float):
    logits = torch.tensor([1.0, 0.0, -1.0, 2.0])
    drawn = answering(target)._choose(logits.expand(20_000, -1), [temperature] * 20_000)
    shares = torch.bincount(torch.tensor(drawn), minlength=4) / 20_000
    assert shares == pytest.approx(torch.softmax(logits / temperature, 0), abs=0.012)


def test_the_cache_has_room_for_the_longest_prompt_and_its_answer_only(
    target: LanguageModel, monkeypatch: pytest.MonkeyPatch
):
    made = []
    new_cache = LanguageModel.new_cache
    monkeypatch.setattr(
        LanguageModel, "new_cache", lambda *size: made.append(size[1:]) or new_cache(*size)
    )
    answering(target, max_new_tokens=5).answer([[1, 2], [3] * 9, [4]], [0.0] * 3)
    assert max(made) == (3, 14)


def test_prompts_come_with_the_chat_template_and_later_ones_quote_answers(
    chat_target: LanguageModel, tmp_path: Path
):
    roomy = LanguageModel(chat_target.model, chat_target.tokenizer, "roomy")
    roomy.context_limit = 1400  # 220 bytes that are no text decode to many more
    plan = Plan(seed=3, prompts_per_shard=4, batch_size=4, max_new_tokens=230, layers=LAYERS)
    corpus = Corpus(tmp_path, ABOUT)
    extend(corpus, roomy, GRAMMAR, plan, 1000)
    assert [path.name for path in corpus.shards()] == [
        "shard-3-00000.safetensors",
        "shard-3-00001.safetensors",
    ]
    samples = list(corpus.samples())
    assert sum(len(sample.answer) for sample in samples) >= 1000
    texts = [roomy.tokenizer.decode(s.tokens[: s.prompt_length]) for s in samples]
    assert all(text.startswith("<|im_start|>user\n") for text in texts)
    assert not any("Sum up" in text for text in texts[:4]), "nothing can be quoted yet"
    assert any("Sum up" in text for text in texts[4:])
    assert {round(sample.temperature, 4) for sample in samples} <= {0.0, 0.7, 1.0}


def test_the_same_call_makes_the_same_shards_and_a_missing_one_is_made_again(
    chat_target: LanguageModel, tmp_path: Path
):
    def collected(name: str) -> dict[str, bytes]:
        corpus = Corpus(tmp_path / name, ABOUT)
        extend(corpus, chat_target, GRAMMAR, SHORT, 120)
        return {path.name: path.read_bytes() for path in corpus.shards()}

    first = collected("one")
    assert len(first) == 3
    assert collected("two") == first
    (tmp_path / "one" / "shard-3-00001.safetensors").unlink()
    assert collected("one") == first


def test_extension_counts_what_others_collected_and_goes_on(
    chat_target: LanguageModel, tmp_path: Path
):
    corpus = Corpus(tmp_path, ABOUT)
    states = {layer: torch.zeros(60, 32) for layer in LAYERS}
    corpus.write("7-00000", [Sample([1] * 61, 1, 0.0, states)])
    seen: list[int] = []
    extend(corpus, chat_target, GRAMMAR, SHORT, 100, report=seen.append)
    assert [path.name for path in corpus.shards()] == [
        "shard-3-00000.safetensors",
        "shard-7-00000.safetensors",
    ]
    assert seen == sorted(seen)
    assert seen[0] > 60
    assert seen[-1] == sum(len(sample.answer) for sample in corpus.samples())
    before = len(seen)
    extend(corpus, chat_target, GRAMMAR, SHORT, 100, report=seen.append)
    assert len(corpus.shards()) == 2
    assert len(seen) == before + 1


def test_a_target_without_a_chat_template_is_refused_only_when_it_would_be_asked(
    chat_target: LanguageModel, target: LanguageModel, tmp_path: Path
):
    corpus = Corpus(tmp_path, ABOUT)
    with pytest.raises(SpecbenchError, match="has no tokenizer, and the prompts are for a chat"):
        extend(corpus, target, GRAMMAR, SHORT, 10)
    plain = LanguageModel(chat_target.model, SimpleNamespace(chat_template=None), "plain")
    with pytest.raises(SpecbenchError, match="target plain has no chat template"):
        extend(corpus, plain, GRAMMAR, SHORT, 10)
    states = {layer: torch.zeros(60, 32) for layer in LAYERS}
    corpus.write("7-00000", [Sample([1] * 61, 1, 0.0, states)])
    extend(corpus, target, GRAMMAR, SHORT, 60)


def test_a_context_shorter_than_the_prompts_is_refused(chat_target: LanguageModel, tmp_path: Path):
    short = LanguageModel(chat_target.model, chat_target.tokenizer, "short")
    short.context_limit = 40
    with pytest.raises(SpecbenchError, match="fits in 20 tokens, half of the context of target sh"):
        extend(Corpus(tmp_path, ABOUT), short, GRAMMAR, SHORT, 10)
