"""Trainings that are cut off and go on, that end at once, and that meet a foreign state."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.training.batches import Split, padded, training_batches
from specbench.training.corpus import Corpus, Sample
from specbench.training.interruption import Interruption
from specbench.training.loop import Budget, train
from specbench.training.session import KINDS
from specbench.training.state import STATE_FILE, Progress, forget_state
from specbench.training.trainee import Trainee
from tests.tiny import VOCAB
from tests.unit.training import plain

STEPS = Budget(minutes=None, steps=8, tokens_per_step=40, check_s=1e9)
CHECKED = Budget(minutes=None, steps=8, tokens_per_step=40, check_s=0.0)


class KilledError(Exception):
    """What a killed process does not live to say."""


def split() -> Split:
    return Split(list(plain.answers()), list(plain.answers(2, seed=5)))


def new(kind: str) -> Trainee:
    target = plain.target()  # made once; making it draws random numbers too
    torch.manual_seed(0)
    return KINDS[kind](target, torch.arange(VOCAB))


def last_state(folder: Path) -> torch.Tensor:
    """The weights before they were rounded to what bfloat16 can hold."""
    state = torch.load(folder / STATE_FILE)["module"]
    return torch.cat([tensor.flatten() for tensor in state.values()])


def uninterrupted(kind: str, folder: Path) -> torch.Tensor:
    folder.mkdir()
    train(new(kind), split(), folder, STEPS)
    return last_state(folder)


@pytest.mark.parametrize("kind", plain.KIND_NAMES)
def test_a_killed_training_ends_up_where_an_uninterrupted_one_does(kind: str, tmp_path: Path):
    expected = uninterrupted(kind, tmp_path / "whole")

    def kill(progress: Progress, share: float) -> None:
        if progress.step == 6:
            raise KilledError

    folder = tmp_path / "parts"
    folder.mkdir()
    with pytest.raises(KilledError):
        train(new(kind), split(), folder, CHECKED, kill)
    steps: list[int] = []
    progress = train(new(kind), split(), folder, STEPS, lambda p, share: steps.append(p.step))
    assert steps == [6, 7, 8], "step 6 was not saved"
    assert progress.step == 8
    assert last_state(folder) == pytest.approx(expected, abs=1e-6)


@pytest.fixture
def heard():
    """Ctrl-C is not ignored, as it is in jobs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heard")
def test_ctrl_c_waits_for_the_step_and_saves(tmp_path: Path):
    expected = uninterrupted("medusa", tmp_path / "whole")

    def interrupt(progress: Progress, share: float) -> None:
        if progress.step == 3:
            os.kill(os.getpid(), signal.SIGINT)

    folder = tmp_path / "parts"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        train(new("medusa"), split(), folder, STEPS, interrupt)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    steps: list[int] = []
    train(new("medusa"), split(), folder, STEPS, lambda p, share: steps.append(p.step))
    assert steps == [4, 5, 6, 7, 8]
    assert last_state(folder) == pytest.approx(expected, abs=1e-6)


@pytest.mark.usefixtures("heard")
def test_a_second_ctrl_c_does_not_wait():
    with Interruption() as interruption:
        assert not interruption.came
        signal.raise_signal(signal.SIGINT)
        assert interruption.came
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_an_ignored_ctrl_c_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGINT)
        assert not interruption.came
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_the_main_thread_nothing_is_caught():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def use() -> None:
        with Interruption() as interruption:
            seen.append((interruption.came, signal.getsignal(signal.SIGINT) is before))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert seen == [(False, True)]


def test_minutes_of_all_parts_are_added_up(tmp_path: Path):
    first = train(new("medusa"), split(), tmp_path, STEPS)
    assert first.seconds > 0
    spent = Budget(minutes=first.seconds / 60 / 2, tokens_per_step=40)
    resumed = train(new("medusa"), split(), tmp_path, spent)
    assert (resumed.step, resumed.seconds) == (8, first.seconds), "no time was left"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minutes": 0.0}, "--minutes 0 is not usable. Give a finite number, more than 0"),
        ({"minutes": -1.0}, "--minutes -1 is not usable"),
        ({"minutes": float("nan")}, "--minutes nan is not usable"),
        ({"minutes": float("inf")}, "--minutes inf is not usable"),
        ({"steps": 0}, "--steps 0 is not usable. Give 1 or more"),
        ({"seed": -1}, "--seed -1 is not usable. Give a whole number from 0 to below 2^63"),
        ({"seed": 2**63}, f"--seed {2**63} is not usable"),
    ],
)
def test_a_budget_that_would_never_end_or_never_begin_is_refused(changes: dict, message: str):
    with pytest.raises(SpecbenchError) as failure:
        Budget(**changes)
    assert message in str(failure.value)


def test_the_shortest_budget_is_one_step_and_its_numbers_are_plain(tmp_path: Path):
    progress = train(new("medusa"), split(), tmp_path, Budget(minutes=1e-9, tokens_per_step=40))
    assert [check["step"] for check in progress.checks] == [0, 1]
    json.dumps(progress.checks, allow_nan=False)
    assert Budget(seed=2**63 - 1, minutes=None, steps=1).share(1, 0.0) == 1.0


def test_the_last_check_is_of_the_weights_as_they_are_saved(tmp_path: Path):
    trainee = new("eagle")
    progress = train(trainee, split(), tmp_path, STEPS)
    for tensor in trainee.module.parameters():
        assert torch.equal(tensor, tensor.bfloat16().float())
    found = trainee.acceptance([plain.batch([sample]) for sample in split().checked])
    assert progress.checks[-1]["greedy"] == found.greedy
    assert progress.checks[-1]["overlap"] == found.overlap


def test_training_makes_the_loss_smaller(tmp_path: Path):
    losses: list[float | None] = []
    budget = Budget(minutes=None, steps=60, tokens_per_step=200)
    train(new("eagle3"), split(), tmp_path, budget, lambda p, share: losses.append(p.loss))
    assert losses[-1] < losses[0] - 0.2


@pytest.mark.parametrize(
    ("kind", "budget", "message"),
    [
        ("eagle", STEPS, "of a training with kind = 'medusa', not 'eagle'"),
        ("medusa", Budget(seed=7, minutes=None, steps=1), "with seed = 0, not 7"),
    ],
)
def test_the_state_of_another_training_is_refused(
    tmp_path: Path, kind: str, budget: Budget, message: str
):
    train(new("medusa"), split(), tmp_path, STEPS)
    with pytest.raises(SpecbenchError, match=message):
        train(new(kind), split(), tmp_path, budget)
    forget_state(tmp_path)
    train(new(kind), split(), tmp_path, STEPS)


@pytest.mark.parametrize("content", [b"", b"no state at all", b"PK\x03\x04"])
def test_a_damaged_state_is_named(tmp_path: Path, content: bytes):
    (tmp_path / STATE_FILE).write_bytes(content)
    with pytest.raises(
        SpecbenchError, match=r"cannot go on with .*training\.pt: it is damaged\. D"
    ) as failure:
        train(new("medusa"), split(), tmp_path, STEPS)
    assert "\n" not in str(failure.value)


_NO_ROOM = r"cannot write .*training\.pt: File too large\. Make room .*: it "


def test_a_full_disk_before_the_first_state_keeps_none(tmp_path: Path, no_room):
    with no_room(3000), pytest.raises(SpecbenchError, match=_NO_ROOM + "begins to train anew"):
        train(new("medusa"), split(), tmp_path, STEPS)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_the_state_before(tmp_path: Path, no_room):
    train(new("medusa"), split(), tmp_path, STEPS)
    before = (tmp_path / STATE_FILE).read_bytes()
    more = Budget(minutes=None, steps=9, tokens_per_step=40)
    with no_room(3000), pytest.raises(SpecbenchError, match=_NO_ROOM + "goes on from the last"):
        train(new("medusa"), split(), tmp_path, more)
    assert (tmp_path / STATE_FILE).read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [STATE_FILE]


def test_batches_are_the_same_for_a_seed_and_skipping_is_having_had_them():
    samples = list(plain.answers(20))

    def first(seed: int, skip: int = 0) -> list[list[list[int]]]:
        batches = training_batches(samples, 60, seed, skip)
        return [next(batches).tokens.tolist() for _ in range(12 - skip)]

    assert first(0) == first(0)
    assert first(0)[5:] == first(0, skip=5)
    assert first(0) != first(1)


def test_an_epoch_has_every_sample_once():
    samples = list(plain.answers(20))
    seen: list[tuple[int, ...]] = []
    for batch in training_batches(samples, 60, 0):
        assert batch.tokens.numel() <= 60 or len(batch.tokens) == 1
        for row, answer in zip(batch.tokens, batch.is_asked, strict=True):
            seen.append(tuple(row[: int(answer.nonzero().max()) + 1].tolist()))
        if len(seen) >= 20:
            break
    assert sorted(seen) == sorted(tuple(sample.tokens) for sample in samples)


@pytest.mark.parametrize(("prompt_length", "first"), [(3, 1), (20, 13)])
def test_prompts_are_learned_from_but_never_counted_in_a_check(prompt_length: int, first: int):
    """At most as many tokens of a prompt as its answer has, which are eight."""
    length = prompt_length + 8
    sample = Sample(list(range(length)), prompt_length, 0.0, {1: torch.zeros(length - 1, 4)})
    asked = next(training_batches([sample], 60, 0)).is_asked[0]
    assert asked.nonzero()[:, 0].tolist() == list(range(first, length))
    checked = padded([sample]).is_asked[0]
    assert checked.nonzero()[:, 0].tolist() == list(range(prompt_length + 1, length))


def test_a_prompt_is_on_one_side_only_and_its_answers_are_cut(tmp_path: Path):
    corpus = Corpus(tmp_path, {})
    samples = [
        Sample([number, 1, *[2 + repeat] * 8], 2, 0.0, {1: torch.full((9, 4), float(number))})
        for number in range(60)
        for repeat in range(2)
    ]
    corpus.write("0-00000", [*samples, Sample([60, 1, 2], 2, 0.0, {1: torch.zeros(2, 4)})])
    found = Split.of(corpus, [1], 7)
    training, kept_out = ({s.tokens[0] for s in part} for part in (found.training, found.kept_out))
    assert training | kept_out == set(range(60)), "an answer of one token teaches nothing"
    assert not training & kept_out
    assert kept_out
    assert {len(s.tokens) for s in found.training} == {7}
    assert {len(s.states[1]) for s in found.training} == {6}


def test_a_corpus_without_kept_out_answers_is_refused(tmp_path: Path):
    corpus = Corpus(tmp_path, {})
    corpus.write("0-00000", [Sample([1, 2, 3, 4], 1, 0.0, {1: torch.zeros(3, 4)})])
    with pytest.raises(SpecbenchError, match="1 samples to train on and 0 kept out") as failure:
        Split.of(corpus, [1], 7)
    assert "Raise --tokens" in str(failure.value)
