"""The measured region: rounds lie in it, and what lets a prompt into a slot does not."""

from __future__ import annotations

from typing import Any

import pytest

from specbench.engine import loop
from specbench.engine.prefill import prefill_all
from specbench.engine.request import Limits
from specbench.measure.clock import HostClock
from tests.tiny import language_model, make_decoder, make_drafter, make_session, requests


class Listening:
    """A Watch that writes down what is done between its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def resume(self) -> None:
        self.calls.append("resume")

    def pause(self) -> None:
        self.calls.append("pause")


@pytest.mark.parametrize("batch_size", [1, 2, 5])
@pytest.mark.parametrize("spec", [None, "ngram"])
def test_only_rounds_lie_in_stretches(
    monkeypatch: pytest.MonkeyPatch, spec: str | None, batch_size: int
):
    target, batch, watch = language_model("llama"), requests(4), Listening()
    drafter = make_drafter(target, spec) if spec else None
    session = make_session(
        target, batch, gamma=2, batch_size=batch_size, max_new_tokens=8, drafter=drafter
    )
    decoder = make_decoder(target, drafter, session)
    admit, round_ = loop._admit, decoder.round

    def admitting(*args: Any) -> None:
        watch.calls.append("admit")
        admit(*args)

    def going_round() -> Any:
        watch.calls.append("round")
        return round_()

    monkeypatch.setattr(loop, "_admit", admitting)
    monkeypatch.setattr(decoder, "round", going_round)
    loop.decode(decoder, batch, prefill_all(target, batch, HostClock()), Limits(8), watch)
    is_open = False
    for call in watch.calls:
        is_open = {"resume": True, "pause": False}.get(call, is_open)
        assert is_open == (call in ("resume", "round")), watch.calls
    assert not is_open
    assert watch.calls.count("admit") == 4
