"""Answers from elsewhere: broken lines are named, sound ones added once, with states."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel
from specbench.training.answering import Answering
from specbench.training.corpus import Corpus, Sample
from specbench.training.outputs import Outputs, adopt, read_outputs
from specbench.training.source import OUTPUTS, Source
from tests.tiny import language_model, requests

LAYERS = (1, 2)
ABOUT = {"target": "tiny", "layers": list(LAYERS)}
SOURCE = Source(OUTPUTS, "mine.jsonl", "ab" * 32)


def given(samples: Sequence[Sample], num_empty: int = 0) -> Outputs:
    return Outputs(samples, num_empty, SOURCE)


@pytest.fixture(scope="module")
def target() -> LanguageModel:
    return language_model("llama")


LINE = {"prompt_ids": [1, 2], "output_ids": [3], "temperature": 0.7}


@pytest.mark.parametrize("name", ["outputs.jsonl", "outputs.jsonl.gz"])
def test_outputs_are_read(tmp_path: Path, name: str):
    lines = [LINE | {"output_ids": [number]} for number in range(20)]
    text = "".join(json.dumps(line) + "\n" for line in [*lines, LINE | {"output_ids": []}])
    opener = gzip.open if name.endswith("gz") else open
    with opener(tmp_path / name, "wt", encoding="utf-8") as stream:
        stream.write(text)
    outputs = read_outputs(tmp_path / name)
    samples = outputs.samples
    assert outputs.num_empty == 1
    assert outputs.source.file == name
    assert sorted(s.tokens for s in samples) == [[1, 2, number] for number in range(20)]
    assert {(s.prompt_length, s.temperature) for s in samples} == {(2, 0.7)}
    assert [s.tokens for s in samples] == [s.tokens for s in read_outputs(tmp_path / name).samples]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "cannot read the outputs in .*mine.jsonl, line 2: "),
        ("{", "line 2: it is not JSON$"),
        ("7", "line 2: it is no JSON object$"),
        ("[1, 2]", "line 2: it is no JSON object$"),
        ("", "line 2: it is blank$"),
        (json.dumps(LINE | {"temperature": -1}), "line 2: temperature -1 is no finite number, 0"),
        (json.dumps(LINE | {"temperature": float("nan")}), "line 2: temperature nan is no finite"),
        (json.dumps(LINE | {"temperature": float("inf")}), "line 2: temperature inf is no finite"),
        (json.dumps(LINE | {"temperature": True}), "line 2: temperature True is no finite"),
        (json.dumps({k: v for k, v in LINE.items() if k != "output_ids"}), "no 'output_ids'"),
        (json.dumps(LINE | {"prompt_ids": []}), "line 2: an empty prompt"),
        (json.dumps(LINE | {"output_ids": "text"}), "line 2: text is no list of token ids"),
        (json.dumps(LINE | {"output_ids": [1.5]}), r"line 2: \[1.5\] is no list of token ids"),
        (json.dumps(LINE | {"temperature": "hot"}), "line 2: "),
    ],
)
def test_a_line_that_is_no_answer_is_named(tmp_path: Path, line: str, message: str):
    (tmp_path / "mine.jsonl").write_text(f"{json.dumps(LINE)}\n{line}\n")
    with pytest.raises(SpecbenchError, match=message):
        read_outputs(tmp_path / "mine.jsonl")


def test_unreadable_outputs_are_named(tmp_path: Path):
    with pytest.raises(SpecbenchError, match=r"cannot read the outputs in .*nowhere\.jsonl: "):
        read_outputs(tmp_path / "nowhere.jsonl")
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(SpecbenchError, match=r"no answer in .*empty\.jsonl"):
        read_outputs(tmp_path / "empty.jsonl")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(b"{}" * 1000)[:-12])
    with pytest.raises(SpecbenchError, match=r"cannot read the outputs in .*cut\.jsonl\.gz"):
        read_outputs(tmp_path / "cut.jsonl.gz")


def test_adopted_answers_have_the_states_of_collected_ones(target: LanguageModel, tmp_path: Path):
    generator = torch.Generator().manual_seed(0)
    asked = Answering(target, batch_size=3, max_new_tokens=12, layers=LAYERS, generator=generator)
    made = asked.answer([list(request.token_ids) for request in requests(8)], [0.0, 0.7] * 4)
    bare = [Sample(s.tokens, s.prompt_length, s.temperature) for s in made]
    corpus = Corpus(tmp_path, ABOUT)
    seen: list[int] = []
    adopt(corpus, target, given(bare), LAYERS, samples_per_shard=3, report=seen.append)
    adopted = list(corpus.samples(LAYERS))
    assert [s.tokens for s in adopted] == [s.tokens for s in made]
    assert seen == [36, 72, 96]
    for ours, theirs in zip(adopted, made, strict=True):
        for layer in LAYERS:
            assert ours.states[layer].float() == pytest.approx(
                theirs.states[layer].float(), abs=4e-3, rel=2e-3
            )


def test_answers_are_adopted_once_and_those_of_a_second_file_are_added(
    target: LanguageModel, tmp_path: Path
):
    corpus = Corpus(tmp_path, ABOUT)
    first = [Sample([1, 2, number], 2, 0.7) for number in range(5)]
    second = [Sample([1, 2, number], 2, 0.7) for number in range(3, 8)]
    adopt(corpus, target, given(first), LAYERS, samples_per_shard=2)
    names = corpus.shards()
    adopt(corpus, target, given(first), LAYERS, samples_per_shard=4)
    assert corpus.shards() == names
    adopt(corpus, target, given(second), LAYERS, samples_per_shard=4)
    assert sorted(s.tokens[-1] for s in corpus.samples()) == list(range(8))
    corpus.shard("outputs-00001").unlink()
    adopt(corpus, target, given(first), LAYERS)
    assert sorted(s.tokens[-1] for s in corpus.samples()) == list(range(8))


def test_adopted_answers_end_with_the_targets_context_and_ids(
    target: LanguageModel, tmp_path: Path
):
    corpus = Corpus(tmp_path, ABOUT)
    long = Sample([1] * 200, 100, 0.0)
    adopt(corpus, target, given([long, Sample([2] * 200, 150, 0.0)]), LAYERS)
    [sample] = corpus.samples(LAYERS)
    assert len(sample.tokens) == target.context_limit == 128
    with pytest.raises(SpecbenchError, match="token id 61, and target tiny-llama has 61 ids"):
        adopt(corpus, target, given([Sample([1, 61], 1, 0.0)]), LAYERS)


def test_what_is_left_out_is_told_once_and_why(target: LanguageModel, tmp_path: Path):
    long, usable = Sample([1] * 200, 128, 0.0), Sample([1, 2, 3], 1, 0.0)
    assert given([usable]).left_out(128) == ""
    assert given([usable, long], 2).left_out(128) == (
        "answers of mine.jsonl left out: 2 empty, 1 beyond the context of 128 tokens"
    )
    corpus = Corpus(tmp_path, ABOUT)
    with pytest.raises(SpecbenchError, match=r"no answer of mine\.jsonl begins within the 128"):
        adopt(corpus, target, given([long]), LAYERS)
    adopt(corpus, target, given([usable, long]), LAYERS)
    assert corpus.num_answers() == {SOURCE: 1}
