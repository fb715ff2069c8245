"""When the native backend captures: in warm-ups, once per shape, never inside a cell."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from specbench.backends import _capturing, native
from specbench.backends.base import EngineOptions
from specbench.backends.native import NativeBackend
from specbench.engine.request import Limits, Request
from specbench.models.capture import Capturing, Rerun
from specbench.models.kept_caches import Caches
from specbench.models.language_model import LanguageModel
from specbench.weights.progress import SILENT
from tests.tape import TapeCapture
from tests.unit.backends.test_native import cell, requests

Load = Callable[..., NativeBackend]
LIMITS = Limits(30)


@pytest.fixture
def by() -> TapeCapture:
    return TapeCapture()


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def captured(
    load: Load, by: TapeCapture, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> NativeBackend:
    """A backend that captures, on tape."""
    monkeypatch.setattr(native, "capturing_for", lambda *_: Capturing(by, notices.append))
    return load()


def grid(batch_size: int = 1) -> list[Any]:
    drafters = [("ngram", 2), ("early-exit:1", 1), ("early-exit:1", 4)]
    return [
        cell(batch_size=batch_size),
        *(cell(drafter, gamma, batch_size=batch_size) for drafter, gamma in drafters),
    ]


def outputs(backend: NativeBackend, cells: list[Any], asked: list[Request]) -> list[Any]:
    return [backend.generate(point, asked, LIMITS).outputs for point in cells]


@pytest.mark.parametrize("batch_size", [1, 3])
def test_a_block_says_what_it_says_without_capturing(load, captured, batch_size):
    plain, asked, cells = load(), requests(captured, 6), grid(batch_size)
    plain._capturing, plain._caches = None, Caches()
    for backend in (plain, captured):
        backend.check(cells)
        backend.begin_block(asked, cells, LIMITS)
    assert outputs(captured, cells, asked) == outputs(plain, cells, asked)
    assert plain.captured is None
    assert captured.captured is not None
    assert captured.captured["eager"] == {}
    assert min(captured.captured["captured"].values()) > 0


@pytest.mark.parametrize("batch_size", [1, 3])
def test_nothing_is_captured_inside_a_cell(captured, by, batch_size):
    asked, cells = requests(captured, 6), grid(batch_size)
    captured.check(cells)
    captured.begin_block(asked, cells, LIMITS)
    before = by.captures
    for point in cells:
        assert captured.generate(point, asked, LIMITS).notes == []
    assert by.captures == before > 0


def test_what_is_captured_serves_the_next_block(captured, by):
    asked, cells = requests(captured, 6), grid()
    captured.check(cells)
    captured.begin_block(asked, cells, LIMITS)
    captured.end_block()
    before = by.captures
    warm = [cell(drafter.drafter, drafter.gamma, temperature=1.0) for drafter in cells[1:]]
    captured.begin_block(asked, [cell(temperature=1.0), *warm], LIMITS)
    assert by.captures == before


def test_a_longer_block_is_captured_before_its_cells_too(captured, by):
    asked, cells = requests(captured, 6), grid()
    captured.check(cells)
    captured.begin_block(asked[:2], cells, LIMITS)
    captured.end_block()
    before = by.captures
    captured.begin_block(asked, cells, LIMITS)
    assert by.captures > before
    for point in cells:
        assert captured.generate(point, asked, LIMITS).notes == []


def test_another_batch_size_frees_what_the_last_one_held(captured):
    asked, cells = requests(captured, 4), grid()
    captured.check([*cells, *grid(2)])
    captured.begin_block(asked, cells, LIMITS)
    held = captured._caches.take(captured.target, 1, 1)
    assert held.keys
    captured.end_block()
    captured.begin_block(asked, grid(2), LIMITS)
    assert not held.keys


def test_a_shape_that_the_warm_up_missed_is_named_by_its_cell(captured, by, monkeypatch):
    asked, point = requests(captured, 4), cell()
    captured.check([point])
    monkeypatch.setattr(LanguageModel, "rehearse", lambda self, *_, **__: None)
    captured.begin_block(asked, [point], Limits(2))
    before = by.captures
    notes = captured.generate(point, asked, LIMITS).notes
    assert by.captures == before
    assert notes
    name = captured.target.name
    for note in notes:
        assert note.startswith(f"{name}, 1 token per row over ")
        assert note.endswith(" slots: not captured before the cell, run as it is")


def test_recorded_outputs_are_captured_on_the_way(captured, by):
    asked = requests(captured, 4)
    first = captured.greedy_outputs(asked, LIMITS)
    assert by.captures > 0
    before = by.captures
    assert captured.greedy_outputs(asked, LIMITS) == first
    assert by.captures == before


def test_a_target_that_waits_falls_back_by_name_and_its_cells_are_right(
    load, captured, notices, monkeypatch
):
    """As a mixture of experts does that asks which expert gets which token."""
    asked, cells = requests(captured, 4), grid()
    sound = type(captured.target.model).forward

    @functools.wraps(sound)  # its parameters are asked for
    def waiting(self: Any, *args: Any, **kwargs: Any) -> Any:
        assert kwargs["input_ids"].max().item() >= 0
        return sound(self, *args, **kwargs)

    monkeypatch.setattr(type(captured.target.model), "forward", waiting)
    plain = load()
    plain._capturing, plain._caches = None, Caches()
    for backend in (plain, captured):
        backend.check(cells)
        backend.begin_block(asked, cells, LIMITS)
    assert outputs(captured, cells, asked) == outputs(plain, cells, asked)
    assert captured.captured is not None
    assert captured.captured["captured"] == {}
    name = captured.target.name
    assert list(captured.captured["eager"]) == [name, f"{name}[:1]"]
    assert all("not permitted" in reason for reason in captured.captured["eager"].values())
    assert len(notices) == 2
    assert all("runs without captured steps" in notice for notice in notices)


def test_what_captures_where():
    cpu, cuda = torch.device("cpu"), torch.device("cuda")

    class Graphs:
        def __init__(self, device: torch.device) -> None:
            self.device = device

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_capturing, "CudaGraphs", Graphs)

        def by_of(
            device: torch.device, devices: Sequence[torch.device] = (), **options: bool
        ) -> Any:
            places = {"device": device, "devices": devices or [device]}
            target = SimpleNamespace(name="tiny", has_encoder=False, **places)
            found = _capturing.capturing_for(target, EngineOptions(None, **options), SILENT)
            return found and type(found.by)

        assert by_of(cpu) is None
        assert by_of(cpu, compile=True) is Rerun
        assert by_of(cuda) is Graphs
        assert by_of(cuda, compile=True) is Graphs
        assert by_of(cuda, [cpu, cuda]) is None, "graphs are of one device"
        assert by_of(cuda, cuda_graph=False) is None
        assert by_of(cuda, cuda_graph=False, compile=True) is Rerun


def test_prompts_of_one_size_are_warmed_up_by_the_shortest(captured):
    asked = requests(captured, 6)
    chosen = _capturing.one_per_size(asked)
    assert len(chosen) < len(asked)
    assert min(len(r.token_ids) for r in asked) == min(len(r.token_ids) for r in chosen)
