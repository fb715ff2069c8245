"""Shards on disk: what is written is read, and what is broken or foreign is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.training.corpus import Corpus, Sample, as_stored
from specbench.training.source import OUTPUTS, PROMPTS, Source

ABOUT = {"target": "ORG/tiny", "layers": [1, 2]}


def sample(length: int, prompt_length: int, temperature: float = 0.0) -> Sample:
    states = {layer: torch.randn(length - 1, 8).half() for layer in (1, 2)}
    return Sample(list(range(length)), prompt_length, temperature, states)


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    return Corpus(tmp_path / "corpus", ABOUT)


def test_samples_come_back_as_they_were(corpus: Corpus):
    torch.manual_seed(0)
    first, second = [sample(7, 3), sample(4, 2, 0.7)], [sample(9, 1, 1.0)]
    corpus.write("0-00000", first)
    corpus.write("0-00001", second)
    read = list(corpus.samples([2, 1]))
    assert [s.tokens for s in read] == [s.tokens for s in first + second]
    assert [s.prompt_length for s in read] == [3, 2, 1]
    assert [s.temperature for s in read] == pytest.approx([0.0, 0.7, 1.0])
    for ours, theirs in zip(read, first + second, strict=True):
        assert ours.answer == theirs.answer
        for layer in (1, 2):
            assert torch.equal(ours.states[layer], theirs.states[layer])
    assert [set(s.states) for s in corpus.samples([2])] == [{2}] * 3
    assert not any(s.states for s in corpus.samples())


def test_only_answers_are_counted(corpus: Corpus):
    corpus.write("0-00000", [sample(7, 3), sample(5, 3)])
    assert corpus.token_counts(8).tolist() == [0, 0, 0, 2, 2, 1, 1, 0]


def test_states_beyond_float16_are_stored_as_its_largest():
    stored = as_stored(torch.tensor([1e9, -1e9, 1.5]))
    assert stored.tolist() == [65504.0, -65504.0, 1.5]


def test_a_corpus_opens_again_for_the_same_target(tmp_path: Path, corpus: Corpus):
    Corpus(tmp_path / "corpus", {**ABOUT, "target": "elsewhere/tiny"})
    Corpus(tmp_path / "corpus", {**ABOUT, "sha256": "a note that older corpora do not have"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "ORG/other"}, "made with target = 'ORG/tiny', not 'ORG/other'"),
        ({"layers": [2]}, r"made with layers = \[1, 2\], not \[2\]"),
    ],
)
def test_a_corpus_of_something_else_is_refused(
    tmp_path: Path, corpus: Corpus, change: dict, message: str
):
    with pytest.raises(SpecbenchError, match=message):
        Corpus(tmp_path / "corpus", {**ABOUT, **change})


def test_weights_decide_where_they_are_known(tmp_path: Path):
    Corpus(tmp_path, {**ABOUT, "sha256": "aa"})
    with pytest.raises(SpecbenchError, match="made with sha256 = 'aa', not 'bb'"):
        Corpus(tmp_path, {**ABOUT, "sha256": "bb"})


@pytest.mark.parametrize("text", ["{", "[]", ""])
def test_a_broken_note_is_named(tmp_path: Path, text: str):
    (tmp_path / "corpus.json").write_text(text)
    with pytest.raises(
        SpecbenchError, match=r"cannot use the corpus .*corpus\.json is damaged\. P"
    ):
        Corpus(tmp_path, ABOUT)


def test_shards_without_a_note_are_not_adopted(tmp_path: Path, corpus: Corpus):
    corpus.write("0-00000", [sample(7, 3)])
    (corpus.folder / "corpus.json").unlink()
    with pytest.raises(SpecbenchError, match=r"has shards of answers but no corpus\.json"):
        Corpus(corpus.folder, ABOUT)
    assert not (corpus.folder / "corpus.json").exists()


def test_every_shard_says_where_its_answers_come_from(corpus: Corpus):
    asked, given = Source(PROMPTS, "built-in", "ab" * 32), Source(OUTPUTS, "o.jsonl", "cd" * 32)
    corpus.write("0-00000", [sample(7, 3), sample(7, 3)], asked)
    corpus.write("3-00000", [sample(7, 3)], asked)
    corpus.write("outputs-00000", [sample(7, 3)], given)
    corpus.write("outputs-00001", [sample(7, 3)])  # as earlier versions did
    corpus.write("5-00000", [sample(7, 3)])
    assert corpus.num_answers() == {asked: 3, given: 1, Source(OUTPUTS): 1, Source(PROMPTS): 1}


def test_a_damaged_shard_is_named(corpus: Corpus):
    corpus.write("0-00000", [sample(7, 3)])
    file = corpus.shard("0-00000")
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(
        SpecbenchError, match=r"cannot read .*shard-0-00000\.safetensors: it is damaged\. Delete"
    ) as failure:
        list(corpus.samples())
    assert "it is made again" in str(failure.value)


def test_a_shard_whose_lengths_do_not_fit_is_named(corpus: Corpus):
    wrong = sample(7, 3)
    wrong.states[1] = wrong.states[1][:-1]
    corpus.write("0-00000", [wrong])
    with pytest.raises(SpecbenchError, match=r"shard-0-00000.*lengths do not fit"):
        list(corpus.samples([1]))


def test_a_layer_that_is_not_there_is_named(corpus: Corpus):
    corpus.write("0-00000", [sample(7, 3)])
    with pytest.raises(SpecbenchError, match="no states of layer 5"):
        list(corpus.samples([5]))


def test_what_a_killed_call_left_is_no_shard(corpus: Corpus):
    corpus.write("0-00000", [sample(7, 3)])
    (corpus.folder / "shard-0-00001.4711.partial").write_bytes(b"half")
    assert corpus.shards() == [corpus.shard("0-00000")]
    assert len(list(corpus.samples())) == 1


def test_a_full_disk_costs_one_shard_and_nothing_else(corpus: Corpus, no_room):
    corpus.write("0-00000", [sample(7, 3)])
    with (
        no_room(100),
        pytest.raises(
            SpecbenchError, match=r"cannot write .*shard-0-00001.*: File too large\. Mak"
        ),
    ):
        corpus.write("0-00001", [sample(7, 3)])
    assert [file.name for file in corpus.folder.iterdir() if "shard" in file.name] == [
        "shard-0-00000.safetensors"
    ]
