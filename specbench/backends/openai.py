"""Any OpenAI-compatible server that is already running: ``openai:URL[,key=value]...``

A server decodes with the drafter it was started with, or with none. So one server gives the cells
of one drafter and gamma, and plain decoding comes from a second one, ``baseline=URL``: the same
engine and model, started without a drafter. Without it there is no speedup. ``model=NAME`` chooses
where several are served; ``timeout=SECONDS`` ends the wait for a stream that is silent.

Prompts are sent as token ids where ``--target`` names the model, so that its tokenizer is at hand
and they are those of every other engine; else as messages, and the server's own chat template makes
the prompt. The server's requests have no rounds: see :mod:`specbench.records.served`.

    specbench run --backend openai:http://127.0.0.1:8000,baseline=http://127.0.0.1:8001 \\
        --drafter ngram --batch-size 1,4
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any

from specbench.backends.base import Backend, EngineOptions
from specbench.backends.spec import BackendSpec
from specbench.engine.request import Generation, Limits, Request
from specbench.errors import SpecbenchError
from specbench.records.schema import Cell
from specbench.serving.address import Address
from specbench.serving.client import Deadlines
from specbench.serving.columns import request_columns
from specbench.serving.dialects import Sampling
from specbench.serving.load import closed_loop, open_loop, poisson_arrivals
from specbench.serving.server import WARM_UP_TOKENS, Server
from specbench.serving.window import Job, Load
from specbench.weights.progress import Progress
from specbench.weights.tokenizer import load_tokenizer

_STOPS_OF_ITS_OWN = frozenset({-1})  # which ids they are a server keeps to itself
_UNLIMITED = 2**31


class OpenAIBackend(Backend):
    """Speculation on one server, plain decoding on another."""

    in_process = False

    @classmethod
    def of(cls, spec: BackendSpec) -> OpenAIBackend:
        return cls(spec)

    def __init__(self, spec: BackendSpec) -> None:
        spec.allow_options(("baseline", "model", "timeout"))
        if not spec.argument:
            raise SpecbenchError(
                f"backend {spec.text!r} needs a URL", "Write openai:http://HOST:PORT"
            )
        options = spec.options
        deadlines = Deadlines(silence_s=_seconds(options.get("timeout", "300")))
        model = options.get("model")
        self.server = Server(Address.parse(spec.argument), deadlines, model)
        self.plain: Server | None = None
        if "baseline" in options:
            self.plain = Server(Address.parse(options["baseline"]), deadlines, model)
        self._warm: set[tuple[str, int]] = set()

    @property
    def told(self) -> dict[str, Any]:
        facts = self.server.facts
        return {"target": facts.model, "gamma": facts.gamma, "drafter": facts.drafter}

    @property
    def decodes_plainly(self) -> bool:
        return self.plain is not None or self.server.facts.speculates is False

    @property
    def speculates(self) -> bool:
        return self.server.facts.speculates is not False

    def impossible(self, cell: Cell) -> str | None:
        facts, where = self.server.facts, self.server.address.root
        refusal = facts.dialect.refusal(_sampling(cell, 1, ignore_eos=False))
        if refusal is not None:
            return refusal
        if facts.gamma not in (None, cell.gamma):
            return f"the server at {where} drafts {facts.gamma} tokens, not {cell.gamma}"
        if facts.drafter is None:
            return None
        kind = cell.drafter.partition(",")[0].partition(":")[0]
        is_tree = "tree=" in facts.drafter
        if kind != facts.drafter.partition(",")[0] or is_tree != (cell.draft_form == "tree"):
            return f"the server at {where} drafts with {facts.drafter}, not {cell.drafter}"
        return None

    def load(self, options: EngineOptions, progress: Progress) -> None:
        facts = self.server.facts
        asked = Sampling(0.0, 0, 1.0, 1, options.ignore_eos)
        if (refusal := facts.dialect.refusal(asked)) is not None:
            raise SpecbenchError(refusal, "Leave it out")
        self.tokenizer = None if options.target is None else load_tokenizer(options.target)
        self.device = "server"
        self.stop_tokens = _STOPS_OF_ITS_OWN
        self.context_limit = facts.context_limit or _UNLIMITED
        self.target_facts = {"name": options.target or facts.model}
        self.drafter_facts = {}
        self.notices = []
        if self.plain is not None:
            self.server.refuse_unlike(self.plain)
        elif not self.decodes_plainly:
            self.notices.append("no speedup: no server decodes plainly (name one, ,baseline=URL)")
        for notice in self.notices:
            progress.note(notice)

    @property
    def server_facts(self) -> dict[str, Any]:
        servers = [self.server, *([self.plain] if self.plain else [])]
        return {server.address.root: server.facts.document() for server in servers}

    def check(self, cells: Sequence[Cell]) -> None:
        """The drafter is the server's; :meth:`impossible` asked what it is."""

    def begin_block(
        self, requests: Sequence[Request], cells: Sequence[Cell], limits: Limits
    ) -> None:
        """Warm each server up at the block's concurrency."""
        for cell in cells:
            server = self._server_of(cell)
            shape = (server.address.root, cell.batch_size)
            if shape not in self._warm:
                self._warm.add(shape)
                sampling = _sampling(cell, WARM_UP_TOKENS, ignore_eos=False)
                server.answers(self._jobs(server, requests[: cell.batch_size], sampling))

    def generate(self, cell: Cell, requests: Sequence[Request], limits: Limits) -> Generation:
        server = self._server_of(cell)
        sampling = _sampling(cell, limits.max_new_tokens, ignore_eos=not limits.stop_tokens)
        window = server.measure(self._jobs(server, requests, sampling), _load(cell, len(requests)))
        asked = [
            {"prompt_id": one.prompt_id, "conversation": one.conversation, **one.labels}
            for one in requests
        ]
        told = {
            "url": server.address.root,
            "kind": server.facts.dialect.name,
            "version": server.facts.version,
            "seconds": window.seconds,
            "cached_tokens": window.cached_tokens,
            "counts": window.counts.document(),
        }
        return Generation({}, request_columns(asked, window), window.notes, told)

    def end_block(self) -> None:
        """Nothing is kept between cells."""

    def greedy_outputs(
        self, requests: Sequence[Request], limits: Limits
    ) -> list[list[int]] | list[str]:
        server = self.plain or self.server
        sampling = Sampling(0.0, 0, 1.0, limits.max_new_tokens, not limits.stop_tokens)
        return [answer.text for answer in server.answers(self._jobs(server, requests, sampling))]

    def cost(self, cell: Cell) -> dict[str, float | None]:
        return {}

    def draft_sampling(self, cell: Cell) -> str | None:
        """A server does not tell how its drafter proposes."""
        return None

    def _server_of(self, cell: Cell) -> Server:
        return self.plain if cell.is_baseline and self.plain is not None else self.server

    def _jobs(self, server: Server, requests: Sequence[Request], sampling: Sampling) -> list[Job]:
        """Requests ready to be sent: token ids where there is a tokenizer, else messages.

        Each gets a salt of its own, so that no repeat finds its prompt in the prefix cache.
        """
        facts, window = server.facts, uuid.uuid4().hex
        jobs = []
        for request in requests:
            salt = f"{window}/{request.prompt_id}"
            body = facts.dialect.parameters(sampling, request.prompt_id, salt)
            body["model"] = facts.model
            if self.tokenizer is None:
                path, body["messages"] = "/v1/chat/completions", list(request.messages)
            else:
                path, body["prompt"] = "/v1/completions", list(request.token_ids)
            jobs.append(Job(request.prompt_id, path, body))
        return jobs


def _load(cell: Cell, count: int) -> Load:
    """When a cell's requests are sent."""
    if cell.request_rate:
        arrivals = poisson_arrivals(count, cell.request_rate, (cell.seed, cell.repeat))
        return partial(open_loop, arrivals_s=arrivals)
    return partial(closed_loop, count=count, width=cell.batch_size)


def _sampling(cell: Cell, max_tokens: int, *, ignore_eos: bool) -> Sampling:
    seed = f"{cell.seed}/{cell.repeat}"
    return Sampling(cell.temperature, cell.top_k, cell.top_p, max_tokens, ignore_eos, seed)


def _seconds(value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise SpecbenchError(
            f"backend 'openai': timeout={value} is not a positive number", "Give seconds"
        )
    return seconds


BACKEND = OpenAIBackend
