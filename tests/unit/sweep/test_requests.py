"""From workloads to requests: histories and references come from one recorded greedy output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specbench.engine.request import Request
from specbench.errors import SpecbenchError
from specbench.records.schema import Cell, Manifest
from specbench.records.store import RunWriter
from specbench.sweep.config import SweepConfig
from specbench.sweep.report import SilentReporter
from specbench.sweep.requests import (
    RequestMaker,
    for_batch,
    limits_of,
    refuse_prompts,
)
from specbench.workloads import Prompt, Workload
from tests.unit.sweep.fakes import FakeBackend

CHAT = Prompt("c", "chat", "writing", ("one?", "two?", "three?"), "offline")
SINGLE = Prompt("s", "chat", "math", ("alone",), "offline")


def workload(*prompts: Prompt, name: str = "chat") -> Workload:
    return Workload(name, 1, "none", "offline", None, prompts)


class Making:
    """A maker on the fake backend, writing into a folder."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.config = SweepConfig(
            **{"drafters": ["ngram"], "gammas": [1, 3], "max_new_tokens": 4, **options}
        )
        self.backend = FakeBackend()
        self.backend.load(None, None)  # type: ignore[arg-type]
        self.writer = RunWriter.open(folder, Manifest(name="run", config_hash="x"))
        self.maker = RequestMaker(self.config, self.backend, self.writer, SilentReporter())
        self.writer.close()

    def text(self, request: Request) -> str:
        return self.backend.tokenizer.decode(request.token_ids)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_a_later_turn_has_the_recorded_answers_before_it(folder: Path):
    making = Making(folder)
    first, second, third, single = making.maker.of(workload(CHAT, SINGLE))
    assert [r.prompt_id for r in (first, second, third, single)] == ["c#1", "c#2", "c#3", "s"]
    assert {r.conversation for r in (first, second, third)} == {"c"}
    assert making.text(first) == "one?"
    answers = [making.backend.tokenizer.decode(r.reference) for r in (first, second)]
    assert [len(answer) for answer in answers] == [4, 4]
    assert making.text(second) == f"one?\n\n{answers[0]}\n\ntwo?\n\n"
    assert making.text(third) == f"one?\n\n{answers[0]}\n\ntwo?\n\n{answers[1]}\n\nthree?\n\n"
    assert second.labels == {
        "task": "chat",
        "category": "writing",
        "turn": 1,
        "source": "offline",
    }


def test_single_turns_record_nothing_unless_a_drafter_replays(folder: Path, tmp_path: Path):
    making = Making(folder)
    assert [list(r.reference) for r in making.maker.of(workload(SINGLE))] == [[]]
    assert making.backend.recorded == []
    assert not (folder / "references").exists()

    replaying = Making(tmp_path / "other", drafters=["ngram", "synthetic:0.8"])
    [request] = replaying.maker.of(workload(SINGLE))
    assert replaying.backend.recorded == [["s"]]
    assert len(request.reference) == 4 + 3 + 1  # the output, the longest draft and one more


def test_the_history_is_the_output_and_not_what_was_recorded_beyond_it(folder: Path):
    making = Making(folder, drafters=["synthetic:0.8"])
    first, second, _ = making.maker.of(workload(CHAT))
    answer = making.backend.tokenizer.decode(list(first.reference)[:4])
    assert making.text(second) == f"one?\n\n{answer}\n\ntwo?\n\n"


def test_requests_are_made_once_and_a_resumed_run_reads_them_back(folder: Path):
    making = Making(folder)
    made = making.maker.of(workload(CHAT))
    assert making.maker.of(workload(CHAT)) is made
    assert making.backend.recorded == [["c#1"], ["c#2"]]
    before = (folder / "references" / "chat.json").read_bytes()

    again = Making(folder)

    def other_output(cell: Cell, request: Request, length: int) -> list[int]:
        return [ord("?")] * length

    again.backend.output = other_output  # a target that now answers otherwise
    resumed = again.maker.of(workload(CHAT))
    assert [list(r.token_ids) for r in resumed] == [list(r.token_ids) for r in made]
    assert again.backend.recorded == []
    assert (folder / "references" / "chat.json").read_bytes() == before


def test_workloads_of_similar_names_keep_their_recordings_apart(folder: Path):
    making = Making(folder)
    names = ["set:a", "set-a", "set a"]
    texts = set()
    for name in names:
        prompt = Prompt("c", name, "x", (f"{name}, one?", "two?"), "offline")
        _, second = making.maker.of(workload(prompt, name=name))
        texts.add(making.text(second))
    assert len(texts) == 3
    recorded = [json.loads(file.read_text()) for file in (folder / "references").iterdir()]
    assert len(recorded) == 3


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_stop_tokens_end_outputs_unless_ignored(folder: Path, ignore_eos: bool):
    making = Making(folder, ignore_eos=ignore_eos)
    limits = limits_of(making.config, making.backend)
    assert limits.max_new_tokens == 4
    assert limits.stop_tokens == (frozenset() if ignore_eos else {0})


def test_a_prompt_beyond_the_context_is_named_with_every_number(folder: Path):
    making = Making(folder)
    making.backend.context_limit = 5 + 4 + 3 + 1
    assert len(making.maker.of(workload(SINGLE))) == 1  # 5 tokens, 4 of output, a draft of 3 + 1

    making = Making(folder)
    making.backend.context_limit = 12
    with pytest.raises(SpecbenchError) as caught:
        making.maker.of(workload(SINGLE))
    assert str(caught.value) == (
        "prompt 's' of chat has 5 tokens; with output and draft 13, beyond the target's context "
        "of 12. Shorten the prompt, lower --max-new-tokens or --gamma, or use another target"
    )


def test_a_later_turn_is_checked_with_its_history(folder: Path):
    making = Making(folder)
    making.backend.context_limit = 20
    with pytest.raises(SpecbenchError) as caught:
        making.maker.of(workload(CHAT))
    assert "prompt 'c' of chat" in str(caught.value)
    assert making.backend.recorded == [["c#1"]]


def ids(requests: list[Request]) -> list[str]:
    return [request.prompt_id for request in requests]


def test_enough_prompts_are_asked_once(folder: Path):
    requests = Making(folder).maker.of(workload(CHAT, SINGLE))
    assert for_batch(requests, 2) == requests


def test_too_few_are_asked_in_turn_under_names_of_their_own(folder: Path):
    making = Making(folder)
    requests = making.maker.of(workload(CHAT, SINGLE))
    repeated = for_batch(requests, 5)
    assert ids(repeated) == [
        *("c#1", "c#2", "c#3", "s", "c#1~2", "c#2~2", "c#3~2", "s~2", "c#1~3", "c#2~3")
    ]
    for copy, original in zip(repeated, [*requests] * 3, strict=False):
        assert copy.token_ids == original.token_ids
        assert copy.conversation == original.conversation  # what intervals cluster by
        assert copy.reference == original.reference


def test_no_request_is_lost_where_turns_are_many(folder: Path):
    requests = Making(folder).maker.of(workload(CHAT))
    assert len(for_batch(requests, 2)) == 4
    assert ids(for_batch(requests * 3, 2)) == ids(requests * 3)


def test_padded_prompts_have_the_length_and_recordings_of_their_own(folder: Path):
    making = Making(folder, drafters=["synthetic:0.8"], context_lengths=[40, 80])
    task = workload(CHAT, SINGLE)
    plain = making.maker.of(task)
    for length in (40, 80):
        padded = making.maker.of(task, length)
        assert making.maker.of(task, length) is padded
        assert ids(padded) == ids(plain)
        assert {len(request.token_ids) for request in padded} == {length}
        assert making.text(padded[3]).endswith("three?\n\nalone")
        first, second = padded[:2]
        answer = making.backend.tokenizer.decode(list(first.reference)[:4])
        assert f"one?\n\n{answer}\n\ntwo?" in making.text(second)
    written = {file.name for file in (folder / "references").iterdir()}
    assert written == {"chat.json", "chat@40.json", "chat@80.json"}


def test_a_prompt_longer_than_a_context_is_refused_before_anything_is_generated(folder: Path):
    making = Making(folder)
    with pytest.raises(SpecbenchError, match="more than --context-length 4"):
        refuse_prompts(making.config, making.backend, [workload(SINGLE)], [None, 4])
    refuse_prompts(making.config, making.backend, [workload(SINGLE)], [None, 5])
    assert making.backend.recorded == []
