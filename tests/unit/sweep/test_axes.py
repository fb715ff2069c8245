"""Batch and context as axes of a sweep, on a scripted backend."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from specbench.engine.prefill import prefill_all
from specbench.engine.request import Request
from specbench.errors import SpecbenchError
from specbench.measure.clock import HostClock
from specbench.records.store import load_run
from specbench.sweep import runner
from tests.tiny import language_model, run_cell
from tests.unit.sweep.fakes import Sweep


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    """Six prompts in 1 and 16 slots, as they are."""
    made = Sweep(tmp_path, batch_sizes=[1, 16], gammas=[1])
    monkeypatch.setattr(runner, "make_backend", lambda name: made.backend)
    return made


@pytest.fixture
def padded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    """Contexts of 200 and 400 tokens, and one that the target does not have."""
    made = Sweep(tmp_path, context_lengths=[200, 400, 5000], gammas=[1])
    monkeypatch.setattr(runner, "make_backend", lambda name: made.backend)
    return made


def test_slots_without_a_prompt_of_their_own_get_one_again(wide: Sweep):
    wide.run()
    run = load_run(wide.config.folder)
    asked = {}
    for cell in run.cells:
        assert cell.status == "ok"
        assert cell.num_prompts == 6  # conversations, however often they are asked
        asked[cell.batch_size] = run.requests(cell.cell_id)["prompt_id"].tolist()
    assert len(asked[1]) == 6
    assert len(asked[16]) == len(set(asked[16])) == 32
    conversations = Counter(name.partition("~")[0] for name in asked[16])
    assert set(conversations.values()) == {5, 6}
    said = "mine: 6 prompts for 16 slots are asked in turn, 32 requests in all"
    assert said in run.manifest.warnings
    assert said in wide.report.messages


def test_a_context_is_in_the_record_and_in_the_requests(padded: Sweep):
    padded.run()
    run = load_run(padded.config.folder)
    assert {cell.context_length for cell in run.cells} == {200, 400}
    for cell in run.cells:
        assert f"-c{cell.context_length}-" in cell.cell_id
        assert set(run.requests(cell.cell_id)["prompt_tokens"]) == {cell.context_length}
    assert [entry["reason"] for entry in run.manifest.dropped] == [
        "context 5000 with output and draft is beyond the target's 1000"
    ]
    assert "left out: context 5000 with output and draft is beyond the target's 1000" in (
        padded.report.messages
    )


def test_a_run_with_dropped_contexts_is_complete(padded: Sweep, tmp_path: Path):
    padded.run()
    again = Sweep(tmp_path, context_lengths=[200, 400, 5000], gammas=[1])
    again.run()
    assert padded.backend.calls.count("load") == 1  # the same backend would have been loaded
    assert again.report.messages[0].startswith("every cell of this sweep is in ")


def test_contexts_too_short_for_a_prompt_leave_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = Sweep(tmp_path, context_lengths=[5])
    monkeypatch.setattr(runner, "make_backend", lambda name: made.backend)
    with pytest.raises(SpecbenchError, match="more than --context-length 5"):
        made.run()
    assert not made.config.folder.exists()


def test_a_prompt_asked_again_is_read_once_and_drawn_anew(monkeypatch: pytest.MonkeyPatch):
    target = language_model("llama")
    batch = [Request(name, "p", [3, 5, 7, 9]) for name in ("p", "p~2", "p~3")]
    forwards = []
    forward = target.forward
    monkeypatch.setattr(
        target, "forward", lambda *a, **k: forwards.append(1) or forward(*a, **k), raising=False
    )
    prefills = prefill_all(target, batch, HostClock())
    assert len(forwards) == 1
    assert prefills["p"] is prefills["p~2"] is prefills["p~3"]
    from specbench.sampling.warp import SamplingParams

    hot = {"sampling": SamplingParams(1.0), "batch_size": 3, "max_new_tokens": 12}
    outputs = run_cell(target, None, batch, prefills=prefills, **hot).outputs
    assert len({tuple(output) for output in outputs}) == 3
