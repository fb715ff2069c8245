"""What a sweep refuses by name before it costs anything, leaving what is there as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.records.store import load_run
from specbench.sweep import runner
from tests.tiny_target import write_prompts
from tests.unit.sweep.checks import raising, records
from tests.unit.sweep.fakes import Sweep


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"gammas": [1, 2]}, "gammas"),
        ({"target": "another"}, "target"),
        ({"seed": 1}, "seed"),
        ({"max_new_tokens": 10}, "max_new_tokens"),
        ({"top_p": 0.9}, "top_p"),
    ],
)
def test_another_configuration_is_refused_by_its_key_before_anything_is_loaded(
    tmp_path: Path, sweep: Sweep, options: dict[str, object], key: str
):
    folder = sweep.run()
    before = (folder / "cells.jsonl").read_bytes()
    sweep.backend.calls.clear()
    sweep.backend.sha256 = "1" * 64
    sweep.config = Sweep(tmp_path, **options).config
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert f"another configuration ({key}: " in str(caught.value)
    assert "--out" in caught.value.hint
    assert sweep.backend.calls == []
    assert (folder / "cells.jsonl").read_bytes() == before


def test_the_same_sweep_typed_in_another_order_is_the_same_sweep(tmp_path: Path, sweep: Sweep):
    sweep.run()
    sweep.config = Sweep(tmp_path, gammas=[3, 1]).config
    sweep.backend.calls.clear()
    sweep.run()
    assert sweep.backend.calls == []


def test_other_weights_are_refused_when_there_is_something_left_to_measure(sweep: Sweep):
    sweep.backend.on_generate = raising(ValueError("no"), "3")
    folder = sweep.run()
    sweep.backend.sha256 = "1" * 64
    sweep.config = sweep.config.model_copy(update={"retry_failed": True})
    sweep.backend.generated.clear()
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "other weights of fake (sha256 000000000000, now 111111111111)" in str(caught.value)
    assert sweep.backend.generated == []
    assert load_run(folder).manifest.target["sha256"] == "0" * 64


def test_other_weights_of_a_drafter_are_refused_too(sweep: Sweep):
    sweep.backend.drafter_weights = {"ngram": {"name": "head", "sha256": "0" * 64}}
    sweep.backend.on_generate = raising(ValueError("no"), "3")
    folder = sweep.run()
    assert load_run(folder).manifest.drafters["ngram"]["name"] == "head"
    sweep.backend.drafter_weights = {"ngram": {"name": "head", "sha256": "1" * 64}}
    sweep.config = sweep.config.model_copy(update={"retry_failed": True})
    with pytest.raises(SpecbenchError, match="other weights of drafter ngram"):
        sweep.run()
    assert load_run(folder).manifest.drafters["ngram"]["sha256"] == "0" * 64


def test_other_prompts_in_the_file_are_refused_and_not_mixed_with_the_old_ones(sweep: Sweep):
    sweep.run()
    Path(sweep.config.tasks[0]).write_text('{"prompt": "something else"}\n')
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "other prompts of mine (file:mine.jsonl sha256:" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_folder_of_other_things_is_refused_and_left_as_it_is(sweep: Sweep):
    folder = sweep.config.folder
    (folder / "references").mkdir(parents=True)
    (folder / "references" / "thesis.txt").write_text("years of work")
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "is not empty and holds no run" in str(caught.value)
    assert (folder / "references" / "thesis.txt").read_text() == "years of work"
    assert sweep.backend.calls[-1] == "close"


def test_a_prompt_that_is_too_long_is_refused_before_anything_is_written(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
):
    def opened(*_: object) -> None:
        raise AssertionError("the folder was opened")

    monkeypatch.setattr(runner, "opened", opened)
    sweep.backend.context_limit = 20
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "beyond the target's context of 20" in str(caught.value)
    assert sweep.backend.calls == ["load", "check", "close"]
    assert not sweep.config.folder.exists()
    assert sweep.report.messages == []


@pytest.mark.parametrize("there", [False, True])
def test_a_run_that_fails_before_its_first_cell_leaves_nothing_behind(
    tmp_path: Path, sweep: Sweep, there: bool
):
    prompts = write_prompts(tmp_path / "chats.jsonl", (), chats=2)
    out = tmp_path / "deep" / "down" / "run"
    sweep.config = Sweep(tmp_path, out=out, tasks=[str(prompts)], max_new_tokens=30).config
    if there:
        out.mkdir(parents=True)
    sweep.backend.context_limit = 80  # enough for the first turns, not for an answer between
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "prompt 'c0' of chats has 61 tokens" in str(caught.value)
    assert sweep.backend.recorded == [["c0#1", "c1#1"]]
    assert sweep.backend.generated == []
    assert out.exists() is there
    assert (tmp_path / "deep").exists() is there
    assert not there or list(out.iterdir()) == []

    sweep.backend.context_limit = 1000
    sweep.config = Sweep(tmp_path, out=out, gammas=[2]).config
    sweep.run()  # the corrected command may write there


def test_a_run_that_fails_before_a_new_cell_keeps_the_cells_it_has(
    sweep: Sweep, monkeypatch: pytest.MonkeyPatch
):
    def of(*_: object) -> None:
        raise SpecbenchError("no requests")

    sweep.backend.on_generate = raising(ValueError("no"), "3")
    sweep.run()
    sweep.config = sweep.config.model_copy(update={"retry_failed": True})
    monkeypatch.setattr(runner.RequestMaker, "of", of)
    with pytest.raises(SpecbenchError):
        sweep.run()
    assert len(records(sweep)) == 4


def test_two_tasks_of_one_name_are_refused(tmp_path: Path, sweep: Sweep):
    (tmp_path / "sub").mkdir()
    other = tmp_path / "sub" / "mine.jsonl"
    other.write_text('{"prompt": "x"}\n')
    sweep.config = Sweep(tmp_path, tasks=[*sweep.config.tasks, str(other)]).config
    with pytest.raises(SpecbenchError) as caught:
        sweep.run()
    assert "two tasks are called 'mine'" in str(caught.value)
    assert sweep.backend.calls == []
