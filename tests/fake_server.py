"""OpenAI-compatible servers of every dialect, scripted: streams, counters, and what goes wrong.

An answer is as many tokens as were asked for. The first one comes alone; after it each round
commits what the script accepted and one token more, and is one chunk. So every number that is
measured of acceptance is known beforehand.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from specbench.serving.server import WARM_UP_TOKENS

Handler = BaseHTTPRequestHandler
PATIENCE_S = 60.0
"""How long a request waits for others that do not come."""


class FakeServer:
    """A server to be started with :meth:`serving`.

    Attributes:
        accepted: tokens that each round accepts, over and over; None where it decodes plainly.
        drafted: tokens that each round drafts, gamma if None.
        step_s: between chunks.
        bodies: of all requests, warm-up too.
        most_in_flight: the most requests that were streamed at a time.
        awaits: no measured request is answered before so many were in flight.
        on_answer: called before a measured request is answered; may answer in its place and say so.
        on_chunk: called before a measured request's chunk with its number.
        on_page: called with a path before a page is sent; may answer in its place and say so.
        extra: added to the counters at the end of each measured request.
    """

    def __init__(
        self,
        kind: str = "vllm",
        accepted: Sequence[int] | None = (2, 0, 1),
        gamma: int = 2,
        drafted: Sequence[int] | None = None,
        model: str = "tiny",
    ) -> None:
        self.kind, self.gamma, self.model = kind, gamma, model
        self.accepted = None if accepted is None else list(accepted)
        self.drafted = drafted
        self.step_s = 0.001
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.most_in_flight = self.awaits = 0
        self.on_answer: Callable[[Handler], bool] = lambda handler: False
        self.on_chunk: Callable[[int], None] = lambda number: None
        self.on_page: Callable[[Handler, str], bool] = lambda handler, path: False
        self.extra: dict[str, float] = {}
        self.tells_usage = self.tells_chunks = True
        self.started = 1000.0
        self.closing = threading.Event()
        self.url = ""
        self._lock = threading.Lock()
        self._in_flight: set[Handler] = set()
        self._arrived = threading.Condition(self._lock)
        self.reset()

    def reset(self) -> None:
        """All counters at 0, as after a restart."""
        self.counters = dict.fromkeys(("requests", "tokens", "drafts", "drafted", "accepted"), 0.0)
        self.accepted_at = [0.0] * self.gamma

    @contextmanager
    def serving(self, port: int = 0) -> Iterator[FakeServer]:
        """Serve on a port, a free one if it is 0, while the block runs; ends with every thread it
        started."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.guarded(self, fake.page)

            def do_POST(self) -> None:
                fake.guarded(self, fake.post)

            def log_message(self, *_: Any) -> None:
                return None

        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        server.daemon_threads = False
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield self
        finally:
            self.closing.set()
            server.shutdown()
            server.server_close()  # waits for every answer
            thread.join()

    def guarded(self, handler: Handler, answer: Callable[[Handler], None]) -> None:
        self.paths.append(handler.path)
        try:
            answer(handler)
        except (BrokenPipeError, ConnectionResetError):
            handler.close_connection = True

    # ---- pages

    def page(self, handler: Handler) -> None:
        path = handler.path
        if self.on_page(handler, path):
            return
        owners = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "tensorrt_llm"}
        if path == "/v1/models":
            model = {"id": self.model, "owned_by": owners.get(self.kind, "somebody")}
            if self.kind == "vllm":
                model["max_model_len"] = 512  # type: ignore[assignment]
            send_json(handler, {"object": "list", "data": [model]})
        elif path == "/version" and self.kind in ("vllm", "tensorrt-llm"):
            send_json(handler, {"version": "1.2.3"})
        elif path == "/get_server_info" and self.kind == "sglang":
            send_json(handler, self.sglang_info())
        elif path == "/health":
            send(handler, b"", "text/plain")
        elif path == self.metrics_path():
            send(handler, self.metrics().encode(), "text/plain")
        else:
            handler.send_error(404)

    def metrics_path(self) -> str | None:
        own = {"vllm": "/metrics", "sglang": "/metrics", "tensorrt-llm": "/prometheus/metrics"}
        return own.get(self.kind)

    def sglang_info(self) -> dict[str, Any]:
        drafts = {"speculative_algorithm": None}
        if self.accepted is not None:
            drafts = {
                "speculative_algorithm": "EAGLE",
                "speculative_num_steps": self.gamma,
                "speculative_eagle_topk": 1,
                "speculative_num_draft_tokens": self.gamma + 1,
            }
        return {"version": "0.5", "context_length": 512, **drafts}

    def metrics(self) -> str:
        """The page of counters, under the names of the kind."""
        name, own = NAMES[self.kind], self.counters
        lines = [
            "# HELP process_start_time_seconds Start time of the process.",
            f"process_start_time_seconds {self.started}",
            f'{name["requests"]}{{engine="0",finished_reason="length"}} {own["requests"]}',
            f'{name["tokens"]}{{engine="0"}} {own["tokens"]}',
        ]
        if self.accepted is not None:
            lines += [
                f'{name[what]}{{engine="0"}} {own[what]}'
                for what in ("drafts", "drafted", "accepted")
                if what in name
            ]
            if "accepted_at" in name:
                lines += [
                    f'{name["accepted_at"]}{{engine="0",position="{place}"}} {count}'
                    for place, count in enumerate(self.accepted_at)
                ]
        return "\n".join(lines) + "\n"

    # ---- answers

    def post(self, handler: Handler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        content = handler.rfile.read(length)
        if not handler.path.startswith("/v1/"):
            if self.kind == "sglang" and handler.path == "/flush_cache":
                send(handler, b"flushed", "text/plain")
            else:
                handler.send_error(404)
            return
        body = json.loads(content)
        if set("@/\\\0") & set(body.get("cache_salt", "")):  # as vLLM 0.32 does
            send_json(handler, {"error": {"message": "cache_salt must not contain ..."}}, 400)
            return
        measured = body["max_tokens"] != WARM_UP_TOKENS
        with self._arrived:
            self.bodies.append(body)
            self._in_flight.add(handler)
            self.most_in_flight = max(self.most_in_flight, len(self._in_flight))
            self._arrived.notify_all()
            if measured:
                self._arrived.wait_for(lambda: self.most_in_flight >= self.awaits, PATIENCE_S)
        try:
            if not (measured and self.on_answer(handler)):
                self.stream(handler, body, measured)
        finally:
            self.answered(handler)

    def answered(self, handler: Handler) -> None:
        with self._lock:
            self._in_flight.discard(handler)

    def stream(self, handler: Handler, body: dict[str, Any], measured: bool) -> None:
        chat = handler.path.endswith("chat/completions")
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        if chat:
            self.event(handler, {"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        chunks, rounds = self.script(body["max_tokens"])
        sent = 0
        for number, count in enumerate(chunks):
            if measured:
                self.on_chunk(number)
            time.sleep(self.step_s)
            ids = [token_id(body, place) for place in range(sent, sent + count)]
            sent += count
            text = "".join(f"{token} " for token in ids)
            choice: dict[str, Any] = {"delta": {"content": text}} if chat else {"text": text}
            choice["finish_reason"] = "length" if sent == body["max_tokens"] else None
            event: dict[str, Any] = {"choices": [choice]}
            if self.kind == "vllm" and self.tells_chunks and body.get("return_token_ids"):
                choice["token_ids"] = ids
            if body["stream_options"].get("continuous_usage_stats") and self.tells_chunks:
                event["usage"] = {"prompt_tokens": 5, "completion_tokens": sent}
            if sent == body["max_tokens"]:
                self.count(rounds, sent, measured)
                if self.kind == "sglang" and rounds:
                    choice["meta_info"] = sglang_meta(rounds, self.gamma)
            self.event(handler, event)
        if self.tells_usage:
            usage = {"prompt_tokens": 5, "completion_tokens": sent}
            self.event(handler, {"choices": [], "usage": usage})
        self.answered(handler)  # before the client can know it and send the next
        handler.wfile.write(b"data: [DONE]\n\n")

    def script(self, length: int) -> tuple[list[int], list[tuple[int, int]]]:
        """Tokens per chunk, and (drafted, accepted) per round."""
        if self.accepted is None:
            return [1] * length, []
        chunks, rounds, left = [1], [], length - 1
        lengths = itertools.cycle(self.drafted or [self.gamma])
        for accepted in itertools.cycle(self.accepted):
            if not left:
                return chunks, rounds
            rounds.append((next(lengths), accepted))
            chunks.append(min(accepted + 1, left))
            left -= chunks[-1]
        raise AssertionError

    def count(self, rounds: list[tuple[int, int]], tokens: int, measured: bool) -> None:
        with self._lock:
            self.counters["requests"] += 1
            self.counters["tokens"] += tokens
            for drafted, accepted in rounds:
                self.counters["drafts"] += drafted > 0
                self.counters["drafted"] += drafted
                self.counters["accepted"] += accepted
                for place in range(accepted):
                    self.accepted_at[place] += 1
            for name, more in self.extra.items() if measured else ():
                self.counters[name] += more

    def event(self, handler: Handler, event: dict[str, Any]) -> None:
        handler.wfile.write(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())
        handler.wfile.flush()


NAMES = {
    "vllm": {
        "requests": "vllm:request_success_total",
        "tokens": "vllm:generation_tokens_total",
        "drafts": "vllm:spec_decode_num_drafts_total",
        "drafted": "vllm:spec_decode_num_draft_tokens_total",
        "accepted": "vllm:spec_decode_num_accepted_tokens_total",
        "accepted_at": "vllm:spec_decode_num_accepted_tokens_per_pos_total",
    },
    "sglang": {
        "requests": "sglang:num_requests_total",
        "tokens": "sglang:generation_tokens_total",
    },
    "tensorrt-llm": {
        "requests": "trtllm_request_success_total",
        "tokens": "trtllm_generation_tokens_total",
        "drafted": "trtllm_spec_decode_num_draft_tokens_total",
        "accepted": "trtllm_spec_decode_num_accepted_tokens_total",
    },
}


def token_id(body: dict[str, Any], place: int) -> int:
    """A token that depends on the prompt and its place, not on how it was drafted."""
    prompt = json.dumps(body.get("prompt", body.get("messages")))
    return 100 + (sum(prompt.encode()) + place) % 50


def sglang_meta(rounds: list[tuple[int, int]], gamma: int) -> dict[str, Any]:
    histogram = [sum(accepted == size for _, accepted in rounds) for size in range(gamma + 1)]
    return {
        "id": "x",
        "spec_verify_ct": len(rounds),
        "spec_accept_token_num": sum(accepted for _, accepted in rounds),
        "spec_draft_token_num": sum(drafted for drafted, _ in rounds),
        "spec_accept_histogram": histogram,
        "spec_accept_length": 2.0,
    }


def send(handler: Handler, content: bytes, content_type: str, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", content_type)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def send_json(handler: Handler, document: Any, status: int = 200) -> None:
    send(handler, json.dumps(document).encode(), "application/json", status)
