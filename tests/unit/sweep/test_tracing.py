"""A trace in order: refusals first, the text once, every trace on disk before the next block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from specbench.engine.request import Request
from specbench.errors import SpecbenchError
from specbench.records.schema import Cell
from specbench.records.store import load_run
from specbench.records.traces import TracedText, columns_of, load_traces
from specbench.records.uncertainty import POSITIONS, load_uncertainty
from specbench.sweep import tracing
from specbench.sweep.config import SweepConfig
from specbench.sweep.report import SilentReporter
from specbench.sweep.texts import text_folder
from tests.tiny_target import write_prompts
from tests.unit.sweep.fakes import FakeBackend


def _rows(
    requests: Sequence[Request], outputs: Sequence[Sequence[int]], values: dict[str, Any]
) -> list[dict[str, Any]]:
    return [
        {
            "prompt_id": request.prompt_id,
            "request": index,
            "conversation": request.conversation,
            "position": start,
            **values,
        }
        for index, (request, output) in enumerate(zip(requests, outputs, strict=True))
        for start in range(1, len(output))
    ]


class TracingBackend(FakeBackend):
    """Every first drafted token is accepted and no other; above temperature 0 p is known."""

    def trace(
        self, cells: Sequence[Cell], requests: Sequence[Request], outputs: Sequence[Sequence[int]]
    ) -> TracedText:
        self.calls.append(f"trace {' '.join(cell.drafter for cell in cells)}")
        drafts = {}
        for cell in cells:
            accept = [1.0, 0.0, 0.0, 0.0][: cell.gamma]
            values = {"accept": accept, "overlap": None, "max_p": None}
            drafts[cell.cell_id] = columns_of(_rows(requests, outputs, values))
        if cells[0].temperature == 0:
            return TracedText(drafts, None)
        certain = {"entropy": 0.5, "second_moment": 1.0, "max_p": 0.75}
        return TracedText(drafts, columns_of(_rows(requests, outputs, certain), POSITIONS))


class Tracing:
    """A trace on the fake backend, which is a new one at each start."""

    def __init__(self, folder: Path) -> None:
        self.prompts = write_prompts(folder / "mine.jsonl")
        self.folder, self.report = folder / "text", SilentReporter()
        self.backend = TracingBackend()

    def run(self, run: Path | None = None, **options: Any) -> Path:
        chosen: dict[str, Any] = {"tasks": [str(self.prompts)], "prompts": 6, "threads": 1}
        chosen |= {"drafters": ["ngram"], "gammas": [1, 3], "temperatures": [0.0, 1.0]}
        chosen |= {"max_new_tokens": 9, "out": self.folder}
        self.backend = TracingBackend()
        return tracing.trace(SweepConfig(**{**chosen, **options}), self.report, run)


@pytest.fixture
def traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracing:
    made = Tracing(tmp_path)
    monkeypatch.setattr(tracing, "make_backend", lambda name: made.backend)
    return made


def test_text_then_traces(traces: Tracing):
    folder = traces.run()
    steps = [call.partition(" ")[0] for call in traces.backend.calls]
    assert steps == [
        "load",
        "check",
        *["begin_block", "generate", "end_block"] * 2,
        *["trace"] * 2,
        "close",
    ]
    run = load_run(folder)
    assert [cell.baseline for cell in run.cells] == ["first", "first"]
    assert run.manifest.finished is not None
    found = load_traces(folder)
    assert [(trace.temperature, trace.gammas) for trace in found] == [(0.0, [1, 3]), (1.0, [1, 3])]
    assert [trace.text_cell for trace in found] == [cell.cell_id for cell in run.cells]
    for trace in found:  # 8 positions: 4 rounds of two tokens each
        assert [traced.tau for traced in trace.by_gamma] == [2.0, 2.0]
        assert [traced.alpha for traced in trace.by_gamma] == [1.0, 0.5]
    (unsure,) = load_uncertainty(folder)
    assert (unsure.task, unsure.temperature, unsure.text_cell) == ("mine", 1.0, found[1].text_cell)
    assert (unsure.positions, unsure.entropy, unsure.max_p) == (6 * 8, 0.5, 0.75)


def test_typed_again_it_traces_nothing_and_another_drafter_only_itself(traces: Tracing):
    traces.run()
    traces.run()
    assert traces.backend.calls == ["load", "check", "close"]
    traces.run(drafters=["ngram", "early-exit:1"])
    assert traces.backend.calls == ["load", "check", *["trace early-exit:1"] * 2, "close"]


def test_gammas_are_added_to_those_that_are_there(traces: Tracing):
    traces.run()
    traces.run(gammas=[2, 4])
    assert traces.backend.calls.count("trace ngram") == 2
    assert [trace.gammas for trace in load_traces(traces.folder)] == [[1, 2, 3, 4]] * 2
    tables = list((traces.folder / "diagnostics").glob("mine-*-ngram-*.parquet"))
    assert sorted(table.stem for table in tables) == sorted(
        trace.cell_id for trace in load_traces(traces.folder)
    )
    traces.run(gammas=[3])
    assert traces.backend.calls == ["load", "check", "close"]


def test_an_interrupted_pass_keeps_what_it_has(traces: Tracing, monkeypatch):
    whole = TracingBackend.trace

    def interrupted(self: Any, cells: Sequence[Cell], *rest: Any) -> TracedText:
        if cells[0].temperature > 0:
            raise KeyboardInterrupt
        return whole(self, cells, *rest)

    monkeypatch.setattr(TracingBackend, "trace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        traces.run()
    assert traces.backend.calls[-1] == "close"
    assert [trace.temperature for trace in load_traces(traces.folder)] == [0.0]
    monkeypatch.undo()
    monkeypatch.setattr(tracing, "make_backend", lambda name: traces.backend)
    traces.run()
    assert traces.backend.calls == ["load", "check", "trace ngram", "close"]
    assert [trace.temperature for trace in load_traces(traces.folder)] == [0.0, 1.0]


def test_other_weights_of_a_drafter_are_traced_again(traces: Tracing, monkeypatch):
    traces.run()
    weights = {"ngram": {"sha256": "f" * 64}}
    monkeypatch.setattr(TracingBackend, "__init__", lambda self: _with(self, weights))
    traces.run()
    assert traces.backend.calls.count("trace ngram") == 2


def _with(backend: TracingBackend, weights: dict[str, dict[str, Any]]) -> None:
    FakeBackend.__init__(backend)
    backend.drafter_weights = weights


def test_the_folder_s_name_depends_on_the_text_alone(traces: Tracing):
    options: dict[str, Any] = {"target": "tiny", "tasks": [str(traces.prompts)]}
    names = {
        text_folder(SweepConfig(**options, **more)).name
        for more in ({}, {"drafters": ["early-exit:1"]}, {"gammas": [7]}, {"batch_sizes": [4]})
    }
    assert len(names) == 1
    assert text_folder(SweepConfig(**options, max_new_tokens=99)).name not in names
    assert names.pop().startswith("tiny-alpha-")


def test_another_text_is_refused_before_anything_is_loaded(traces: Tracing):
    traces.run()
    with pytest.raises(SpecbenchError, match="max_new_tokens: 9 there, 8 here"):
        traces.run(max_new_tokens=8)
    assert traces.backend.calls == []


def test_a_text_that_fails_leaves_no_number_and_is_made_again(traces: Tracing, monkeypatch):
    def broken(self: Any, cell: Cell, *rest: Any) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr(TracingBackend, "generate", broken)
    with pytest.raises(SpecbenchError, match="decoding of mine failed: RuntimeError: no luck"):
        traces.run()
    monkeypatch.undo()
    monkeypatch.setattr(tracing, "make_backend", lambda name: traces.backend)
    assert len(load_traces(traces.run())) == 2


def test_a_run_decides_all_but_drafters_and_gammas(traces: Tracing):
    text = traces.run()
    traces.run(run=text, drafters=["early-exit:1"], gammas=[2], max_new_tokens=99)
    assert traces.backend.calls == ["load", "check", *["trace early-exit:1"] * 2, "close"]
    assert len(load_traces(text)) == 4


def test_gammas_that_a_drafter_can_t_have_are_left_out(traces: Tracing, monkeypatch):
    kind = tracing.drafter_class(tracing.checked_specs(SweepConfig(drafters=["ngram"]))[0])

    def short(cls: Any, spec: Any, *, gamma: int, **_: Any) -> str | None:
        return f"gamma {gamma} is too long" if gamma > 1 else None

    monkeypatch.setattr(kind, "impossible", classmethod(short))
    assert all(trace.gammas == [1] for trace in load_traces(traces.run()))
    assert "left out: gamma 3 is too long" in traces.report.messages
    with pytest.raises(SpecbenchError, match="gamma 3 is too long"):
        traces.run(gammas=[3])
