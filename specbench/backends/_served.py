"""What engines that are servers share: requests sent, streams measured, nothing seen inside.

Prompts are sent as token ids where there is a tokenizer, so that they are those of every other
engine; else as messages, and the server's own chat template makes the prompt. The server's requests
have no rounds: see :mod:`specbench.records.served`.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from specbench.backends.base import Backend
from specbench.backends.spec import BackendSpec
from specbench.engine.request import Generation, Limits, Request
from specbench.errors import SpecbenchError
from specbench.records.schema import Cell
from specbench.serving.columns import request_columns
from specbench.serving.dialects import Sampling
from specbench.serving.load import closed_loop, open_loop, poisson_arrivals
from specbench.serving.server import WARM_UP_TOKENS, Server
from specbench.serving.window import Job, Load

STOPS_OF_ITS_OWN = frozenset({-1})
"""Which ids end an output a server keeps to itself."""

UNLIMITED = 2**31
"""The context of a server that does not tell it."""


class ServedBackend(Backend):
    """Measures cells on servers; which one a cell needs, and how it is had, is for the subclass."""

    in_process = False
    chat_template_args: Mapping[str, Any]

    def __init__(self) -> None:
        self._warm: set[tuple[str, int]] = set()

    @abstractmethod
    def server_of(self, cell: Cell) -> Server:
        """The server that decodes as a cell says.

        Raises:
            SpecbenchError: it can't be had.
        """

    @abstractmethod
    def plain_server(self) -> Server:
        """A server whose greedy output is the target's own."""

    def begin_block(
        self, requests: Sequence[Request], cells: Sequence[Cell], limits: Limits
    ) -> None:
        """Nothing is shared: a server is warmed up when a cell first needs it."""

    def generate(self, cell: Cell, requests: Sequence[Request], limits: Limits) -> Generation:
        server = self.server_of(cell)
        self._warm_up(server, requests[: cell.batch_size], cell)
        sampling = sampling_of(cell, limits.max_new_tokens, ignore_eos=not limits.stop_tokens)
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
        server = self.plain_server()
        sampling = Sampling(0.0, 0, 1.0, limits.max_new_tokens, not limits.stop_tokens)
        return [answer.text for answer in server.answers(self._jobs(server, requests, sampling))]

    def cost(self, cell: Cell) -> dict[str, float | None]:
        return {}

    def _warm_up(self, server: Server, requests: Sequence[Request], cell: Cell) -> None:
        """A few tokens at the cell's concurrency, once."""
        shape = (server.address.root, cell.batch_size)
        if shape not in self._warm:
            self._warm.add(shape)
            sampling = sampling_of(cell, WARM_UP_TOKENS, ignore_eos=False)
            server.answers(self._jobs(server, requests, sampling))

    def _jobs(self, server: Server, requests: Sequence[Request], sampling: Sampling) -> list[Job]:
        """Requests ready to be sent: token ids where there is a tokenizer, else messages.

        Each gets a salt of its own, so that no repeat finds its prompt in the prefix cache.
        """
        facts, window = server.facts, uuid.uuid4().hex
        jobs = []
        for number, request in enumerate(requests):
            salt = f"{window}-{number}"  # a prompt's name may hold what vLLM takes in no salt: @ /
            body = facts.dialect.parameters(sampling, request.prompt_id, salt)
            body["model"] = facts.model
            if self.tokenizer is None:
                path, body["messages"] = "/v1/chat/completions", list(request.messages)
                if self.chat_template_args:
                    body["chat_template_kwargs"] = dict(self.chat_template_args)
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


def sampling_of(cell: Cell, max_tokens: int, *, ignore_eos: bool) -> Sampling:
    """How a cell's requests choose tokens."""
    seed = f"{cell.seed}/{cell.repeat}"
    return Sampling(cell.temperature, cell.top_k, cell.top_p, max_tokens, ignore_eos, seed)


def seconds_of(spec: BackendSpec, option: str, default: float) -> float:
    """An option that is a time.

    Raises:
        SpecbenchError: it is no positive number.
    """
    value = spec.options.get(option, str(default))
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise SpecbenchError(
            f"backend {spec.kind!r}: {option}={value} is not a positive number", "Give seconds"
        )
    return seconds
