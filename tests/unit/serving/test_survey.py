"""What a server is found to be, and what it tells."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from specbench.errors import SpecbenchError
from specbench.serving.address import Address
from specbench.serving.client import Deadlines
from specbench.serving.server import Server
from specbench.serving.survey import ServerFacts
from tests.fake_server import FakeServer, Handler, send, send_json


def facts_of(fake: FakeServer, deadlines: Deadlines, model: str | None = None) -> ServerFacts:
    with fake.serving():
        return Server(Address.parse(fake.url), deadlines, model).facts


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("vllm", ("vllm", "1.2.3", True, 2, None, 512, True)),
        ("sglang", ("sglang", "0.5", True, 2, "eagle", 512, True)),
        ("tensorrt-llm", ("tensorrt-llm", "1.2.3", True, None, None, None, True)),
        ("openai", ("openai", None, None, None, None, None, False)),
    ],
)
def test_every_dialect_is_recognised_and_tells_what_it_can(
    kind: str, expected: tuple[Any, ...], patient: Deadlines
):
    facts = facts_of(FakeServer(kind), patient)
    told = facts.version, facts.speculates, facts.gamma, facts.drafter, facts.context_limit
    assert (facts.dialect.name, *told, facts.counted) == expected
    assert facts.model == "tiny"


@pytest.mark.parametrize("kind", ["vllm", "sglang", "tensorrt-llm"])
def test_a_server_without_a_drafter_says_so(kind: str, patient: Deadlines):
    assert facts_of(FakeServer(kind, accepted=None), patient).speculates is False


def test_a_server_behind_another_name_is_told_by_its_counters(patient: Deadlines):
    fake = FakeServer("vllm")

    def rename(handler: Handler, path: str) -> bool:
        if path != "/v1/models":
            return False
        send_json(handler, {"data": [{"id": "tiny", "owned_by": "my-gateway"}]})
        return True

    fake.on_page = rename
    assert facts_of(fake, patient).dialect.name == "vllm"


def several(handler: Handler, path: str) -> bool:
    if path == "/v1/models":
        models = [{"id": name, "owned_by": "vllm"} for name in ("one", "two")]
        send_json(handler, {"data": [*models, {"id": "lora", "parent": "one"}]})
    return path == "/v1/models"


def test_of_several_models_one_has_to_be_named(patient: Deadlines):
    fake = FakeServer("vllm")
    fake.on_page = several
    assert facts_of(fake, patient, "two").model == "two"
    fake = FakeServer("vllm")
    fake.on_page = several
    with pytest.raises(SpecbenchError) as problem:
        facts_of(fake, patient)
    assert "serves one, two, lora, 2 of them are meant" in str(problem.value)
    assert "model=NAME" in str(problem.value)


def adapted(handler: Handler, path: str) -> bool:
    if path == "/v1/models":
        base, adapter = {"id": "one", "owned_by": "vllm"}, {"id": "lora", "parent": "one"}
        send_json(handler, {"data": [base, adapter]})
    elif path == "/version":
        send_json(handler, "1.2.3")
    return path in ("/v1/models", "/version")


def test_an_adapter_is_not_the_model_and_an_odd_version_is_none(patient: Deadlines):
    fake = FakeServer("vllm")
    fake.on_page = adapted
    facts = facts_of(fake, patient)
    assert (facts.model, facts.version) == ("one", None)
    with pytest.raises(SpecbenchError) as problem:
        facts_of(FakeServer("vllm"), patient, "three")
    assert "serves tiny, 0 of them are meant" in str(problem.value)


def no_server(handler: Handler, path: str) -> bool:
    send_json(handler, {"hello": "world"})
    return True


def starting(handler: Handler, path: str) -> bool:
    send(handler, b"loading", "text/plain", 503)
    return True


def malformed(handler: Handler, path: str) -> bool:
    if path == "/metrics":
        send(handler, b"vllm:request_success_total{ what\n", "text/plain")
    return path == "/metrics"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (no_server, "is no OpenAI-compatible server"),
        (starting, "HTTP 503: loading (/v1/models). Wait until it is up"),
        (malformed, "metrics can't be read: 'vllm:request_success_total{ what'"),
    ],
)
def test_what_can_not_be_measured_is_refused_in_one_line(
    fault: Any, reason: str, patient: Deadlines
):
    fake = FakeServer("vllm")
    fake.on_page = fault
    with pytest.raises(SpecbenchError) as problem:
        facts_of(fake, patient)
    assert reason in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_page_that_does_not_come_is_not_waited_for_without_end():
    fake = FakeServer("vllm")
    fake.on_page = lambda handler, path: fake.closing.wait(10.0)  # then it comes
    with fake.serving(), pytest.raises(SpecbenchError) as problem:
        _ = Server(Address.parse(fake.url), Deadlines(connect_s=60.0, page_s=0.3)).facts
    assert "sent no answer in 0.3 s (/v1/models)" in str(problem.value)
    assert "\n" not in str(problem.value)


def test_nobody_there_is_said_at_once(patient: Deadlines):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(SpecbenchError) as problem:
            _ = Server(Address.parse(url), patient).facts
    assert f"the server at {url} does not answer" in str(problem.value)


def test_a_key_goes_to_the_server_and_into_no_message(
    monkeypatch: pytest.MonkeyPatch, patient: Deadlines
):
    monkeypatch.setenv("SPECBENCH_API_KEY", "sk-very-secret")
    seen = []

    def refuse(handler: Handler, path: str) -> bool:
        seen.append(handler.headers.get("Authorization"))
        send(handler, f"bad key {seen[-1]}".encode(), "text/plain", 401)
        return True

    fake = FakeServer("vllm")
    fake.on_page = refuse
    with pytest.raises(SpecbenchError) as problem:
        facts_of(fake, patient)
    assert seen == ["Bearer sk-very-secret"]
    assert "secret" not in str(problem.value)
    assert "HTTP 401" in str(problem.value)


def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch, patient: Deadlines):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert facts_of(FakeServer("vllm"), patient).dialect.name == "vllm"
