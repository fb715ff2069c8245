"""A sweep over servers: what is asked and written, what is refused, what fails by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from specbench.errors import SpecbenchError
from specbench.records.schema import CellRecord
from specbench.records.store import load_run
from specbench.sweep.config import SweepConfig
from specbench.sweep.report import SilentReporter
from specbench.sweep.runner import run
from tests.fake_server import FakeServer, Handler, send
from tests.tiny_target import PROMPTS, write_prompts


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPECBENCH_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


class Servers:
    """Servers that run, and sweeps over them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self.stack = folder, stack
        self.report = SilentReporter()

    def start(self, fake: FakeServer) -> FakeServer:
        self.stack.enter_context(fake.serving())
        return fake

    def config(self, *backends: str, **options: Any) -> SweepConfig:
        prompts = write_prompts(self.folder / "mine.jsonl")
        defaults: dict[str, Any] = {"tasks": [str(prompts)], "prompts": 6, "temperatures": [0.0]}
        defaults |= {"max_new_tokens": 12, "threads": 1, "out": self.folder / "run"}
        return SweepConfig(backends=list(backends), **{**defaults, **options})

    def run(self, *backends: str, **options: Any) -> dict[str, CellRecord]:
        folder = run(self.config(*backends, **options), self.report)
        return {str(cell.baseline or cell.gamma): cell for cell in load_run(folder).cells}


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(tmp_path, stack)


def test_a_sweep_over_two_servers_gives_a_run_like_any_other(servers: Servers, tmp_path: Path):
    fast, plain = servers.start(FakeServer()), servers.start(FakeServer(accepted=None))
    text = f"openai:{fast.url}/v1,baseline={plain.url},timeout=60"
    found = servers.run(text, drafters=["model:draft"])
    assert sorted(found) == ["2", "first", "last"]
    cell = found["2"]
    assert cell.status == "ok", cell.error
    assert (cell.target, cell.drafter, cell.backend) == ("tiny", "model:draft", text)
    assert (cell.imported_from, cell.lossless) == ("vllm", "identical")
    assert cell.alpha == pytest.approx(0.6)
    assert cell.tau == pytest.approx(2.0)
    assert cell.survival_by_position == pytest.approx([4 / 6, 2 / 6])
    assert cell.num_rounds == 36
    assert cell.speedup is not None
    assert cell.speedup_ci is not None
    assert (cell.c, cell.v, cell.memory_peak_bytes, cell.energy_j) == (None,) * 4
    assert found["first"].noise_floor is not None
    assert found["last"].lossless == "identical"
    manifest = load_run(tmp_path / "run").manifest
    assert manifest.servers[fast.url]["gamma"] == 2
    assert manifest.servers[plain.url]["speculates"] is False
    assert manifest.target == {"name": "tiny"}
    requests = load_run(tmp_path / "run").requests(cell.cell_id)
    assert list(requests["chunk_tokens"][0]) == [1, 3, 1, 2, 3, 1, 1]
    with pytest.raises(SpecbenchError) as problem:
        load_run(tmp_path / "run").rounds(cell.cell_id)
    assert "measured on a server (vllm), which tells none" in str(problem.value)


def test_requests_are_chats_with_salts_of_their_own_and_warm_up_is_not_counted(servers: Servers):
    fake = servers.start(FakeServer())
    fake.awaits = 2
    servers.run(f"openai:{fake.url}", drafters=["ngram"], batch_sizes=[2])
    warm, bodies = fake.bodies[:2], fake.bodies[2:]
    assert [body["max_tokens"] for body in warm] == [8, 8]
    assert len(bodies) == 6
    for body in bodies:  # two at once: in no order
        assert [message["role"] for message in body["messages"]] == ["user"]
        assert body["return_token_ids"] is True
        assert "seed" not in body
        assert body["top_k"] == -1
    asked = sorted(body["messages"][0]["content"] for body in bodies)
    assert asked == sorted(PROMPTS)
    assert len({body["cache_salt"] for body in fake.bodies}) == 8
    assert fake.most_in_flight == 2


def test_sampling_is_passed_on(servers: Servers):
    fake = servers.start(FakeServer())
    options = {"temperatures": [0.7], "top_k": 5, "top_p": 0.9, "ignore_eos": True}
    servers.run(f"openai:{fake.url}", drafters=["ngram"], **options)
    asked = fake.bodies[-1]
    assert (asked["temperature"], asked["top_k"], asked["top_p"]) == (0.7, 5, 0.9)
    assert asked["repetition_penalty"] == 1.0  # whatever the model's own configuration says
    assert asked["ignore_eos"] is True
    assert len({body["seed"] for body in fake.bodies[-6:]}) == 6


def test_a_target_gives_the_prompts_as_token_ids(servers: Servers, tiny: Path):
    fake = servers.start(FakeServer())
    servers.run(f"openai:{fake.url}", drafters=["ngram"], target=str(tiny))
    prompt = fake.bodies[-6]["prompt"]
    assert prompt
    assert all(isinstance(token, int) for token in prompt)
    assert "messages" not in fake.bodies[-6]


def test_later_turns_follow_the_servers_own_answers(servers: Servers, tmp_path: Path):
    fake = servers.start(FakeServer())
    chats = write_prompts(tmp_path / "chats.jsonl", prompts=(), chats=1)
    servers.run(f"openai:{fake.url}", drafters=["ngram"], tasks=[str(chats)], prompts=1)
    roles = [message["role"] for message in fake.bodies[-1]["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert fake.bodies[-1]["messages"][1]["content"].split()[0].isdigit()


def test_requests_may_arrive_at_a_rate(servers: Servers):
    fake, plain = servers.start(FakeServer()), servers.start(FakeServer(accepted=None))
    text = f"openai:{fake.url},baseline={plain.url}"
    cell = servers.run(text, drafters=["ngram"], request_rates=[200.0])["2"]
    assert cell.status == "ok", cell.error
    assert (cell.request_rate, cell.batch_size) == (200.0, 1)
    assert "-q200-" in cell.cell_id
    assert cell.requests_per_s is not None


@pytest.mark.parametrize("kind", ["sglang", "tensorrt-llm", "openai"])
def test_every_dialect_gives_what_it_tells(servers: Servers, kind: str):
    fake = servers.start(FakeServer(kind))
    options: dict[str, Any] = {"drafters": ["eagle:x"], "gammas": [2]}
    cell = servers.run(f"openai:{fake.url}", **options)["2"]
    assert cell.status == "ok", cell.error
    assert cell.imported_from == kind
    assert cell.tokens == 72
    told = {
        "sglang": (0.6, 2.0, 0.5),
        "tensorrt-llm": (None, 2.0, 0.5),
        "openai": (None, None, None),
    }
    assert (cell.alpha, cell.tau, cell.draft_acceptance_rate) == pytest.approx(told[kind])


def test_a_server_without_a_drafter_gives_plain_cells(servers: Servers):
    fake = servers.start(FakeServer(accepted=None))
    assert sorted(servers.run(f"openai:{fake.url}")) == ["first", "last"]


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("vllm", {}, "does not tell its drafter. Give one value with --drafter"),
        ("vllm", {"drafters": ["ngram", "model:x"]}, "does not tell its drafter"),
        ("vllm", {"drafters": ["ngram"], "gammas": [3]}, "drafts 2 tokens, not 3"),
        ("sglang", {"drafters": ["ngram"]}, "drafts with eagle, not ngram"),
        ("openai", {"drafters": ["ngram"]}, "does not tell its gamma. Give one value with --gamma"),
        ("openai", {"drafters": ["ngram"], "gammas": [2], "top_k": 3}, "takes no --top-k"),
        (
            "openai",
            {"drafters": ["ngram"], "gammas": [2], "ignore_eos": True},
            "takes no --ignore-eos",
        ),
    ],
)
def test_what_the_server_can_not_be_is_refused_before_anything_is_written(
    servers: Servers, tmp_path: Path, kind: str, options: dict[str, Any], reason: str
):
    fake = servers.start(FakeServer(kind))
    with pytest.raises(SpecbenchError) as problem:
        servers.run(f"openai:{fake.url}", **options)
    assert reason in str(problem.value)
    assert not (tmp_path / "run").exists()
    assert fake.bodies == []


@pytest.mark.parametrize(
    ("plain", "reason"),
    [
        (FakeServer(), "speculates"),
        (FakeServer(accepted=None, model="other"), "another model: other, not tiny"),
        (FakeServer("sglang", accepted=None), "another kind: sglang, not vllm"),
    ],
)
def test_a_baseline_is_the_same_engine_and_model(servers: Servers, plain: FakeServer, reason: str):
    fast = servers.start(FakeServer())
    servers.start(plain)
    with pytest.raises(SpecbenchError) as problem:
        servers.run(f"openai:{fast.url},baseline={plain.url}", drafters=["ngram"])
    assert reason in str(problem.value)


def test_a_cell_that_fails_is_a_line_with_its_reason_and_the_sweep_goes_on(
    servers: Servers, tmp_path: Path
):
    fast, plain = servers.start(FakeServer()), servers.start(FakeServer(accepted=None))

    def fail(handler: Handler) -> bool:
        send(handler, b"no memory left", "text/plain", 500)
        return True

    fast.on_answer = fail
    found = servers.run(f"openai:{fast.url},baseline={plain.url}", drafters=["ngram"])
    assert found["2"].status == "failed"
    assert "request p0: the server at" in (found["2"].error or "")
    assert "HTTP 500: no memory left" in (found["2"].error or "")
    assert found["2"].tok_per_s is None
    assert (found["first"].status, found["last"].status) == ("ok", "ok")
    assert not (tmp_path / "run" / "requests" / f"{found['2'].cell_id}.parquet").exists()


def test_answers_that_differ_are_counted_and_not_judged(servers: Servers):
    fast, plain = servers.start(FakeServer()), servers.start(FakeServer(accepted=None))
    send_event = fast.event

    def spoil(handler: Handler, event: dict[str, Any]) -> None:
        for choice in event["choices"]:
            if "token_ids" in choice:
                choice["token_ids"] = [token + 1 for token in choice["token_ids"]]
        send_event(handler, event)

    fast.event = spoil  # type: ignore[method-assign]
    cell = servers.run(f"openai:{fast.url},baseline={plain.url}", drafters=["ngram"])["2"]
    assert cell.lossless is None
    assert any("6 of 6 answers differ" in text for text in cell.warnings)


def test_a_key_is_written_nowhere(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    fake = servers.start(FakeServer())
    servers.run(f"openai:{fake.url}", drafters=["ngram"])
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if b"sk-very-secret" in file.read_bytes()]


def test_the_same_sweep_typed_again_asks_nothing_more(servers: Servers):
    fake = servers.start(FakeServer())
    first = servers.run(f"openai:{fake.url}", drafters=["ngram"])
    asked = len(fake.bodies)
    assert servers.run(f"openai:{fake.url}", drafters=["ngram"]) == first
    assert len(fake.bodies) == asked


def test_a_server_beside_the_native_engine_shares_the_run(
    servers: Servers, tmp_path: Path, tiny: Path
):
    fake = servers.start(FakeServer())
    folder = run(
        servers.config(
            "native", f"openai:{fake.url}", drafters=["ngram"], gammas=[2], target=str(tiny)
        ),
        servers.report,
    )
    cells = load_run(folder).cells
    assert {cell.backend.partition(":")[0] for cell in cells} == {"native", "openai"}
    assert {cell.status for cell in cells} == {"ok"}
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["target"]["sha256"]
    assert manifest["servers"]
    assert not [text for text in manifest["warnings"] if "resumed" in text]


def test_a_server_beside_the_native_engine_needs_the_targets_name(servers: Servers):
    fake = servers.start(FakeServer())
    with pytest.raises(SpecbenchError) as problem:
        servers.run("native", f"openai:{fake.url}", drafters=["ngram"])
    assert "Give --target" in str(problem.value)


def test_arrivals_at_a_rate_need_a_server(servers: Servers, tiny: Path):
    with pytest.raises(SpecbenchError) as problem:
        servers.run("native", drafters=["ngram"], target=str(tiny), request_rates=[1.0])
    assert "need a server" in str(problem.value)
    assert problem.value.hint == "Change --drafter, --temperature, --request-rate or --backend"


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        ("openai", "needs a URL"),
        ("openai:http://127.0.0.1:1,base=http://x", "has no option 'base'"),
        ("openai:http://127.0.0.1:1,timeout=0", "timeout=0 is not a positive number"),
        ("openai:127.0.0.1", "is no URL of a server"),
        ("native:x", "nothing may follow"),
        ("opnai:http://127.0.0.1:1", "unknown backend 'opnai'"),
        ("openai:http://127.0.0.1:1", "does not answer"),
    ],
)
def test_a_backend_that_can_not_be_is_one_line(servers: Servers, backend: str, reason: str):
    with pytest.raises(SpecbenchError) as problem:
        servers.run(backend, drafters=["ngram"])
    assert reason in str(problem.value)
