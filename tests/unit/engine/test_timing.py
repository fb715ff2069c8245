"""What timing adds to a decode: events in their order, read late and many at once, no waiting.

Forwards run as they are or are replayed from what was captured: the clock sees the same round.
"""

from __future__ import annotations

import itertools

import pytest
import torch

from specbench.engine import recorder
from specbench.engine.prefill import prefill_all
from specbench.engine.request import Request
from specbench.measure.clock import CudaClock, HostClock
from tests.captured import run_captured
from tests.clocks import NoClock
from tests.tape import TapeCapture
from tests.tiny import language_model, requests, run_cell
from tests.unit.measure.fakes import FakeCuda, FakeEvent

GAMMA = 3


class Device(FakeCuda):
    """A fake GPU whose time goes on with every call, and that writes down what the engine does."""

    def note(self, what: str) -> None:
        self.now_ms += 1.0
        self.calls.append(what)


class NotedCapture(TapeCapture):
    """Captures on tape, and notes a replay as the forward that it is."""

    def __init__(self, device: Device) -> None:
        super().__init__()
        self._device = device

    def capture(self, function, pool):
        replay = super().capture(function, pool)

        def noted() -> None:
            self._device.note("forward")
            replay()

        return noted


def timed(
    device: Device,
    spec: str | None,
    length: int = 12,
    batch_size: int = 2,
    captured: bool = False,
):
    """A cell on a tiny model with events on the fake device."""
    target, batch = language_model("llama"), requests(4)
    options = {"gamma": GAMMA if spec else 0, "batch_size": batch_size, "max_new_tokens": length}
    options["clock"] = CudaClock("cuda:0", device)
    if captured:
        return run_captured(target, spec, batch, by=NotedCapture(device), **options)[0]
    return run_cell(
        target, spec, batch, prefills=prefill_all(target, batch, HostClock()), **options
    )


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    """Notes forwards and transfers to the host among the calls of events."""
    found = Device()
    for owner, name in ((torch.nn.Linear, "forward"), (torch.Tensor, "tolist")):
        original = getattr(owner, name)

        def noting(*args, name=name, original=original, **kwargs):
            found.note(name)
            return original(*args, **kwargs)

        monkeypatch.setattr(owner, name, noting)
    return found


@pytest.mark.parametrize("captured", [False, True], ids=["as they are", "captured"])
@pytest.mark.parametrize("spec", [None, "early-exit:1"])
def test_a_round_is_marked_around_its_parts_and_nothing_waits(
    device: Device, spec: str | None, captured: bool
):
    generation = timed(device, spec, captured=captured)
    calls = [name for name, _ in itertools.groupby(device.calls)]
    # from the last admission to the first reading: rounds only
    begun = calls.index("record")
    first = max(i for i, call in enumerate(calls[: begun + 40]) if call == "elapsed_time") + 1
    decoding = calls[first : calls.index("synchronize", first)]
    one_round = ["record", "forward", "record", "tolist", "record"]
    if spec:
        # the draft reads nothing back: its tokens stay on the device until the verdict
        one_round = ["record", "forward", "record", "forward", "record", "tolist", "record"]
    assert decoding[: len(one_round)] == one_round
    assert len(generation.outputs) == 4


@pytest.mark.parametrize("captured", [False, True], ids=["as they are", "captured"])
def test_every_part_is_its_own_time(device: Device, captured: bool):
    rounds = timed(device, "early-exit:1", batch_size=1, captured=captured).rounds
    for draft, verify, other, chosen in zip(
        *(rounds[f"{part}_s"] for part in ("draft", "verify", "other", "sampling")), strict=True
    ):
        assert 0 < verify < draft  # one layer and a head three times, two layers and a head once
        assert 0 < chosen <= other


def test_events_are_read_in_bulk_and_used_again(device: Device, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recorder, "MOST_UNRESOLVED", 4)
    short = timed(device, None, length=24, batch_size=1)
    events = device.events
    steps = len(set(short.rounds["step"]))
    assert steps > 60
    # per prompt four events of its admission; of the rounds never more than five at once
    assert events <= 4 * 4 + 5 * 4


def test_reading_in_between_waits_for_no_work_of_the_round_that_just_ended(
    device: Device, monkeypatch: pytest.MonkeyPatch
):
    """What was recorded before the last transfer to the host has happened; later marks may not."""
    monkeypatch.setattr(recorder, "MOST_UNRESOLVED", 4)
    waits: list[tuple[int, int]] = []
    synchronize = FakeEvent.synchronize

    def noting(event: FakeEvent) -> None:
        transfers = [place for place, call in enumerate(device.calls) if call == "tolist"]
        waits.append((event.place, transfers[-1] if transfers else -1))
        synchronize(event)

    monkeypatch.setattr(FakeEvent, "synchronize", noting)
    timed(device, None, length=24, batch_size=4)  # one admission of all, then rounds
    in_between = waits[8:-1]  # admissions wait twice each, the end for the last round
    assert len(in_between) >= 4
    assert all(place < transfer for place, transfer in in_between)


def test_reading_times_in_bulk_gives_what_reading_them_at_the_end_gives(
    monkeypatch: pytest.MonkeyPatch,
):
    def rounds(most: int):
        monkeypatch.setattr(recorder, "MOST_UNRESOLVED", most)
        device = Device()
        spoken = CudaClock("cuda:0", device)
        mark = spoken.mark

        def ticking():
            device.now_ms += 1.0
            return mark()

        monkeypatch.setattr(spoken, "mark", ticking)
        target, batch = language_model("llama"), requests(4)
        return run_cell(
            target, "ngram", batch, gamma=GAMMA, batch_size=2, max_new_tokens=30, clock=spoken,
            prefills=prefill_all(target, batch, HostClock()),
        ).rounds  # fmt: skip

    assert rounds(2) == rounds(10_000)


def test_without_a_clock_the_same_tokens_come_out_and_no_times():
    target, batch = language_model("llama"), [Request("p", "p", [1, 2, 3, 1, 2])]
    plain = run_cell(target, "ngram", batch, gamma=GAMMA)
    untimed = run_cell(target, "ngram", batch, gamma=GAMMA, clock=NoClock())
    assert untimed.outputs == plain.outputs
    assert all(second != second for second in untimed.rounds["verify_s"])
