"""The loop and its record on a fake clock: every column and every second is known beforehand."""

from __future__ import annotations

import pytest

from specbench.engine.prefill import prefill_all
from specbench.engine.recorder import ROUND_COLUMNS
from specbench.engine.request import Request
from specbench.records.identities import identities
from specbench.records.schema import Cell
from specbench.records.summary import summarize
from tests.clocks import FakeClock
from tests.tiny import run_cell
from tests.unit.engine.scripted import (
    BEGIN_S,
    COMMIT_S,
    DRAFT_S,
    FORWARD_S,
    PER_TOKEN_S,
    ScriptedDrafter,
    ScriptedTarget,
    continuation,
)

RIGHT = {"a": 2, "b": 0, "c": 3}
DRAFTED = {"a": 3, "b": 2, "c": 3}
REQUESTS = [
    Request("a", "ab", [1, 2, 3], labels={"task": "tiny", "turn": 0}),
    Request("b", "ab", [4, 5, 6, 7], labels={"task": "tiny", "turn": 1}),
    Request("c", "c", [8], labels={"task": "tiny", "turn": 0}),
]
CELL = Cell(target="t", drafter="fake", gamma=3, temperature=0, batch_size=2, task="tiny")


def run(batch=REQUESTS, *, drafting=True, batch_size=2, length=5, stops=()):
    clock = FakeClock()
    target = ScriptedTarget(clock)
    return run_cell(
        target,
        ScriptedDrafter(clock, RIGHT, DRAFTED) if drafting else None,
        batch,
        gamma=3 if drafting else 0,
        batch_size=batch_size,
        max_new_tokens=length,
        stop_tokens=stops,
        clock=clock,
        prefills=prefill_all(target, batch, clock),
    )


def expected_output(request: Request, length: int = 5) -> list[int]:
    return continuation(request.token_ids[-1], length)


def test_outputs_are_the_targets():
    for generation in (run(), run(drafting=False), run(batch_size=1), run(batch_size=8)):
        assert generation.outputs == [expected_output(request) for request in REQUESTS]


def test_every_column_of_a_ragged_batch_with_a_refill():
    """a: 1 token, then 3 + 1 (cut from 3). b: 1 token, then one per round. c waits for a's slot.

    step  slot 0         slot 1
    0     a accepts 2    b accepts 0
    1     a accepts 2    b accepts 0     a emits 1 of 3 and ends
    2     c accepts 3    b accepts 0     c emits 4 and ends
    3     empty          b accepts 0     b ends
    """
    rounds = run().rounds
    assert list(rounds) == list(ROUND_COLUMNS)
    columns = {name: rounds[name] for name in ROUND_COLUMNS if name not in ("overlap", "path")}
    assert columns == {
        "prompt_id": ["a", "b", "a", "b", "c", "b", "b"],
        "request": [0, 1, 0, 1, 2, 1, 1],
        "slot": [0, 1, 0, 1, 0, 1, 1],
        "step": [0, 0, 1, 1, 2, 2, 3],
        "round": [0, 0, 1, 1, 0, 2, 3],
        "position": [1, 1, 4, 2, 1, 3, 4],
        "context_length": [4, 5, 7, 6, 2, 7, 8],
        "num_verified": [4, 4, 4, 4, 4, 4, 3],
        "num_drafted": [3, 2, 3, 2, 3, 2, 2],
        "draft_levels": [3, 2, 3, 2, 3, 2, 2],
        "num_evaluated": [3, 1, 3, 1, 3, 1, 1],
        "num_accepted": [2, 0, 2, 0, 3, 0, 0],
        "num_emitted": [3, 1, 1, 1, 4, 1, 1],
        "draft_s": [3 * DRAFT_S] * 6 + [2 * DRAFT_S],
        "verify_s": [FORWARD_S + 4 * PER_TOKEN_S] * 6 + [FORWARD_S + 3 * PER_TOKEN_S],
        "other_s": [COMMIT_S] * 7,
        "sampling_s": [0.0] * 7,
        "active_rows": [2, 2, 2, 2, 2, 2, 1],
        "replayed": [False] * 7,
    }
    assert rounds["overlap"] == [[1, 1, 0], [0], [1, 1, 0], [0], [1, 1, 1], [0], [0]]
    assert rounds["path"] == [None] * 7


def test_every_second_of_a_request():
    requests = run().requests
    full = 3 * DRAFT_S + FORWARD_S + 4 * PER_TOKEN_S + COMMIT_S
    alone = 2 * DRAFT_S + FORWARD_S + 3 * PER_TOKEN_S + COMMIT_S
    prefill = [FORWARD_S + PER_TOKEN_S * len(request.token_ids) for request in REQUESTS]
    assert requests["prefill_s"] == prefill
    assert requests["drafter_prefill_s"] == [BEGIN_S] * 3
    assert requests["ttft_s"] == [seconds + BEGIN_S for seconds in prefill]
    assert requests["decode_s"] == [2 * full, 3 * full + alone, full]
    assert requests["wall_s"] == [
        first + decode
        for first, decode in zip(requests["ttft_s"], requests["decode_s"], strict=True)
    ]


def test_what_requests_carry():
    requests = run().requests
    assert requests["prompt_id"] == ["a", "b", "c"]
    assert requests["conversation"] == ["ab", "ab", "c"]
    assert requests["task"] == ["tiny"] * 3
    assert requests["turn"] == [0, 1, 0]
    assert requests["prompt_tokens"] == [3, 4, 1]
    assert requests["num_tokens"] == [5, 5, 5]
    assert requests["stop_reason"] == ["length"] * 3


def test_the_baseline_has_the_same_columns():
    generation = run(drafting=False)
    rounds = generation.rounds
    assert list(rounds) == list(ROUND_COLUMNS)
    assert set(rounds["num_emitted"]) == set(rounds["num_verified"]) == {1}
    for column in ("num_drafted", "num_evaluated", "num_accepted", "draft_s", "other_s"):
        assert set(rounds[column]) == {0}
    assert set(rounds["verify_s"]) == {FORWARD_S + PER_TOKEN_S}
    assert set(generation.requests["drafter_prefill_s"]) == {0}
    assert rounds["overlap"] == [None] * len(rounds["step"])


@pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
@pytest.mark.parametrize("drafting", [True, False])
def test_identities_hold(drafting, batch_size):
    drafter = {"drafter": "fake", "gamma": 3} if drafting else {"drafter": "none", "gamma": 0}
    cell = CELL.model_copy(update={"batch_size": batch_size, **drafter})
    for stops in ((), [expected_output(REQUESTS[0])[2]], [expected_output(REQUESTS[1])[0]]):
        generation = run(drafting=drafting, batch_size=batch_size, stops=stops)
        assert identities(cell, generation.rounds, generation.requests) == []
        emitted = sum(generation.rounds["num_emitted"])
        assert emitted + 3 == sum(map(len, generation.outputs))


def test_the_numbers_of_the_cell():
    """From the rounds above: 7 accepted of 13 evaluated in 7 rounds; times over the full steps."""
    plain = run(drafting=False)
    generation = run()
    baseline = (plain.rounds, plain.requests)
    found = summarize(CELL, generation.rounds, generation.requests, [baseline, baseline])
    assert found["alpha"] == pytest.approx(7 / 13)
    assert found["tau"] == pytest.approx(2.0)
    step = FORWARD_S + PER_TOKEN_S
    assert found["c"] == pytest.approx(DRAFT_S / step)
    assert found["v"] == pytest.approx((FORWARD_S + 4 * PER_TOKEN_S) / step)
    assert found["overhead"] == pytest.approx(COMMIT_S / step)
    full = 3 * DRAFT_S + FORWARD_S + 4 * PER_TOKEN_S + COMMIT_S
    assert found["tok_per_s"] == pytest.approx(11 / (3 * full))
    assert found["speedup"] == pytest.approx((11 / (3 * full)) / (2 / step))


def test_a_request_that_ends_with_its_first_token_takes_no_round_and_frees_its_slot():
    first = expected_output(REQUESTS[0])[0]
    generation = run(batch_size=1, stops=[first])
    assert generation.outputs[0] == [first]
    assert generation.requests["stop_reason"][0] == "stop"
    assert generation.requests["decode_s"][0] == 0
    assert 0 not in generation.rounds["request"]
    assert generation.outputs[1] == [22, 3, first]


def test_one_token_is_no_round_at_all():
    generation = run(length=1)
    assert generation.outputs == [expected_output(request, 1) for request in REQUESTS]
    assert all(column == [] for column in generation.rounds.values())
    assert generation.requests["stop_reason"] == ["length"] * 3
    assert identities(CELL, generation.rounds, generation.requests) == []


def test_a_stop_token_inside_the_draft_cuts_the_output_but_not_the_counts():
    """c is drafted right: its third token is accepted as a draft and ends the output."""
    stop = expected_output(REQUESTS[2])[2]
    generation = run([REQUESTS[2]], batch_size=1, stops=[stop])
    assert generation.outputs == [expected_output(REQUESTS[2])[:3]]
    assert generation.requests["stop_reason"] == ["stop"]
    assert generation.rounds["num_accepted"] == [3]
    assert generation.rounds["num_emitted"] == [2]


def test_a_stop_token_as_the_last_allowed_token_counts_as_stop():
    stop = expected_output(REQUESTS[0])[4]
    generation = run([REQUESTS[0]], batch_size=1, stops=[stop])
    assert generation.outputs == [expected_output(REQUESTS[0])]
    assert generation.requests["stop_reason"] == ["stop"]


def test_a_stop_token_in_the_prompt_stops_nothing():
    generation = run([REQUESTS[0]], batch_size=1, stops=[3])
    assert 3 not in expected_output(REQUESTS[0])
    assert generation.outputs == [expected_output(REQUESTS[0])]


def test_empty_slots_tell_the_drafter_nothing_was_accepted():
    clock = FakeClock()
    target = ScriptedTarget(clock)
    drafter = ScriptedDrafter(clock, RIGHT, DRAFTED)
    run_cell(target, drafter, REQUESTS[:1], gamma=3, batch_size=3, clock=clock)
    assert all(accepted[1:] == [0, 0] for accepted in drafter.commits)


def test_overlap_is_computed_outside_the_measured_time(monkeypatch):
    """Diagnostics that cost time run after the step's last mark."""
    from specbench.engine.round import Round

    clock = FakeClock()
    target = ScriptedTarget(clock)
    sound = Round.measure_overlap

    def slow(self):
        clock.advance(1000)
        return sound(self)

    monkeypatch.setattr(Round, "measure_overlap", slow)
    drafter = ScriptedDrafter(clock, RIGHT, DRAFTED)
    generation = run_cell(target, drafter, REQUESTS, gamma=3, batch_size=2, clock=clock)
    assert max(generation.requests["wall_s"]) < 1000
