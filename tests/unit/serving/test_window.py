"""One measured window on every dialect: exact counts, and every fault an end with its name."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from specbench.errors import SpecbenchError
from specbench.serving import window
from specbench.serving.address import Address
from specbench.serving.client import Deadlines
from specbench.serving.dialects import Sampling
from specbench.serving.load import closed_loop, open_loop
from specbench.serving.server import Server
from specbench.serving.window import Job, Window
from tests.fake_server import FakeServer, Handler, send

TOKENS = 12
COUNT = 4


def measured(fake: FakeServer, deadlines: Deadlines, width: int = 2, chat: bool = False) -> Window:
    """A window of COUNT answers of TOKENS tokens."""
    with fake.serving():
        server = Server(Address.parse(fake.url), deadlines)
        jobs = make_jobs(server, chat)
        return server.measure(jobs, partial(closed_loop, count=COUNT, width=width))


def make_jobs(server: Server, chat: bool = False) -> list[Job]:
    sampling = Sampling(0.0, 0, 1.0, TOKENS, ignore_eos=False)
    jobs = []
    for name in map(str, range(COUNT)):
        body = server.facts.dialect.parameters(sampling, name, f"salt {name}")
        prompt: dict[str, Any] = {"messages": [{"role": "user", "content": name}]}
        path = "/v1/chat/completions"
        if not chat:
            path, prompt = "/v1/completions", {"prompt": [1, int(name)]}
        jobs.append(Job(f"p{name}", path, {"model": "tiny", **prompt, **body}))
    return jobs


# rounds of (2, 0, 1) accepted after a first token: 12 = 1 + 3 + 1 + 2 + 3 + 1 + (2 cut to 1)
ROUNDS, ACCEPTED = 6 * COUNT, 6 * COUNT


@pytest.mark.parametrize("chat", [False, True])
def test_vllm_counts_drafts_by_position_and_tells_the_tokens_of_a_chunk(
    chat: bool, patient: Deadlines
):
    found = measured(FakeServer("vllm"), patient, chat=chat)
    counts = found.counts
    assert (counts.drafts, counts.drafted, counts.accepted) == (ROUNDS, 2 * ROUNDS, ACCEPTED)
    assert counts.accepted_at == [4 * COUNT, 2 * COUNT]
    for answer in found.answers:
        assert answer.chunk_tokens == [1, 3, 1, 2, 3, 1, 1]
        assert len(answer.token_ids or ()) == answer.num_tokens == TOKENS
        assert answer.chunk_s == sorted(answer.chunk_s)
        assert answer.sent_s < answer.chunk_s[0]
    assert found.notes == []
    assert found.seconds > 0


def test_sglang_tells_it_request_by_request(patient: Deadlines):
    found = measured(FakeServer("sglang"), patient)
    assert found.counts.drafts is None
    figures = [answer.figures for answer in found.answers]
    assert sum(told["spec_verify_ct"] for told in figures) == ROUNDS
    assert sum(told["spec_accept_token_num"] for told in figures) == ACCEPTED
    assert figures[0]["spec_accept_histogram"] == [2, 2, 2]


def test_tensorrt_llm_counts_tokens_and_no_drafts(patient: Deadlines):
    counts = measured(FakeServer("tensorrt-llm"), patient).counts
    assert (counts.drafts, counts.drafted, counts.accepted) == (None, 2 * ROUNDS, ACCEPTED)
    assert counts.accepted_at is None


def test_a_plain_server_tells_no_more_than_its_tokens(patient: Deadlines):
    found = measured(FakeServer("openai"), patient)
    assert [answer.num_tokens for answer in found.answers] == [TOKENS] * COUNT
    assert [answer.chunk_tokens for answer in found.answers] == [[None] * 7] * COUNT
    assert found.counts.document() == {
        "drafts": None, "drafted": None, "accepted": None, "accepted_at": None, "figures": {},
    }  # fmt: skip
    assert found.notes == ["the server tells no counters: other traffic would go unseen"]


def test_no_more_than_so_many_are_in_flight(patient: Deadlines):
    fake = FakeServer("vllm")
    fake.awaits = 3
    measured(fake, patient, width=3)
    assert fake.most_in_flight == 3


def test_requests_that_arrive_are_sent_though_nobody_answered(patient: Deadlines):
    fake = FakeServer("vllm")
    fake.awaits = COUNT
    with fake.serving():
        server = Server(Address.parse(fake.url), patient)
        server.measure(make_jobs(server), partial(open_loop, arrivals_s=[0.0] * COUNT))
    assert fake.most_in_flight == COUNT


def test_a_token_may_hold_any_line_break(patient: Deadlines):
    fake = FakeServer("openai", accepted=None)
    send_event = fake.event

    def event(handler: Handler, event: dict[str, Any]) -> None:
        for choice in event["choices"]:
            choice["text"] = "a\u2028b\x85c\x0bd"
        send_event(handler, event)

    fake.event = event  # type: ignore[method-assign]
    answers = measured(fake, patient).answers
    assert [len(answer.chunk_s) for answer in answers] == [TOKENS] * COUNT


def test_counters_that_come_late_are_waited_for(
    patient: Deadlines, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(window, "COUNTING_S", 60.0)
    fake = FakeServer("vllm")
    stale: list[str] = []
    pages = {"metrics": 0}

    def late(handler: Handler, path: str) -> bool:
        if path != "/metrics":
            return False
        pages["metrics"] += 1
        stale.append(fake.metrics())
        old = stale[1] if 2 < pages["metrics"] < 5 else stale[-1]
        send(handler, old.encode(), "text/plain")
        return True

    fake.on_page = late
    assert measured(fake, patient).counts.drafts == ROUNDS
    assert pages["metrics"] == 5


# ---- faults


def fail(handler: Handler) -> bool:
    send(handler, b'{"error": "CUDA out of memory"}', "application/json", 500)
    return True


def error_in_stream(handler: Handler) -> bool:
    send(handler, b'data: {"error": {"message": "engine died"}}\n\n', "text/event-stream")
    return True


def no_json(handler: Handler) -> bool:
    send(handler, b"data: {oops\n\n", "text/event-stream")
    return True


def breaks_off(handler: Handler) -> bool:
    send(handler, b'data: {"choices": [{"text": "a"}]}\n\n', "text/event-stream")
    return True


def goes_away(handler: Handler) -> bool:
    handler.close_connection = True
    handler.connection.shutdown(2)
    return True


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (fail, 'answered with HTTP 500: {"error": "CUDA out of memory"}'),
        (error_in_stream, "streamed an error"),
        (no_json, "streamed no JSON: '{oops'"),
        (breaks_off, "broke the stream off before [DONE]"),
        (goes_away, "broke off"),
    ],
)
def test_a_request_that_fails_ends_the_window_and_is_not_tried_again(
    fault: Any, reason: str, patient: Deadlines
):
    fake = FakeServer("vllm")
    fake.on_answer = lambda handler: fault(handler) if len(fake.bodies) == 3 else False
    with pytest.raises(SpecbenchError) as problem:
        measured(fake, patient, width=1)
    assert "request p2: the server at" in str(problem.value)
    assert reason in str(problem.value)
    assert len(fake.bodies) == 3


@pytest.mark.parametrize("at", [0, 2])
def test_a_stream_that_hangs_ends_at_its_deadline(at: int, impatient: Deadlines):
    fake = FakeServer("vllm")

    def hang(number: int) -> None:
        if number == at:
            fake.closing.wait(60.0)

    fake.on_chunk = hang
    with pytest.raises(SpecbenchError) as problem:
        measured(fake, impatient)
    assert "was silent for 0.3 s" in str(problem.value)


def test_comments_do_not_keep_a_silent_stream_alive(impatient: Deadlines):
    fake = FakeServer("vllm")

    def murmur(handler: Handler) -> bool:
        handler.send_response(200)
        handler.end_headers()
        while not fake.closing.wait(0.05):
            handler.wfile.write(b": still here\n\n")
        return True

    fake.on_answer = murmur
    with pytest.raises(SpecbenchError) as problem:
        measured(fake, impatient)
    assert "was silent for 0.3 s" in str(problem.value)


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"requests": 1, "tokens": 9}, "the server counted 8 requests in the measured time, 4 of"),
        ({"tokens": 3}, "the server counted 60 output tokens in the measured time, 48 of"),
    ],
)
def test_foreign_traffic_is_told_by_what_does_not_add_up(
    extra: dict[str, float], reason: str, patient: Deadlines
):
    fake = FakeServer("vllm")
    fake.extra = extra
    with pytest.raises(SpecbenchError) as problem:
        measured(fake, patient)
    assert "foreign traffic" in str(problem.value)
    assert reason in str(problem.value)


def test_counters_that_were_reset_are_told_by_their_fall(patient: Deadlines):
    fake = FakeServer("vllm")
    fake.counters |= {"drafts": 1000.0, "requests": 0.0}

    def reset(handler: Handler) -> bool:
        fake.counters["drafts"] = 0.0
        return False

    fake.on_answer = reset
    with pytest.raises(SpecbenchError) as problem:
        measured(fake, patient)
    assert "vllm:spec_decode_num_drafts_total fell from 1000 to" in str(problem.value)


def test_a_restart_is_told_by_the_start_time_though_every_counter_rose(patient: Deadlines):
    fake = FakeServer("vllm")

    def restart(handler: Handler) -> bool:
        fake.started = 2000.0
        return False

    fake.on_answer = restart
    with pytest.raises(SpecbenchError) as problem:
        measured(fake, patient)
    assert "the server restarted" in str(problem.value)


def test_requests_that_are_never_counted_are_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch, patient: Deadlines
):
    monkeypatch.setattr(window, "COUNTING_S", 0.2)
    fake = FakeServer("vllm")
    fake.extra = {"requests": -1}
    with pytest.raises(SpecbenchError) as problem:
        measured(fake, patient)
    assert "the server counted 0 requests" in str(problem.value)


def test_nothing_is_left_running_after_a_failure(impatient: Deadlines):
    before = set(threading.enumerate())
    fake = FakeServer("vllm")

    def hang(number: int) -> None:
        fake.closing.wait(60.0)

    fake.on_chunk = hang
    with pytest.raises(SpecbenchError):
        measured(fake, impatient, width=4)
    assert set(threading.enumerate()) <= before
