"""One measured window: the counters before, the requests, the counters after, and what fits.

A window is thrown away, with the reason, if any request failed, if the server restarted or its
counters were reset, or if it answered somebody else as well: then its numbers are not of these
requests. What a server does not count can't be checked, and is said.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specbench.errors import SpecbenchError
from specbench.records.served.counts import Counts
from specbench.serving.answers import Answer
from specbench.serving.client import Client, Event
from specbench.serving.counters import Page, Rise
from specbench.serving.dialects import Dialect
from specbench.serving.load import Send
from specbench.serving.survey import read_page

Load = Callable[[Send], Awaitable[None]]
"""A load of :mod:`specbench.serving.load`, with everything but ``send`` given."""

COUNTING_S = 5.0
"""A server may count a request a moment after its last token was sent: so long is waited for it."""

_PAUSE_S = 0.05


@dataclass(frozen=True)
class Job:
    """A request ready to be sent.

    Attributes:
        name: what errors call it.
        path: of the interface, e.g. ``/v1/completions``.
    """

    name: str
    path: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Window:
    """What happened.

    Attributes:
        started_s: in seconds of ``time.perf_counter``, as all times of the answers.
        seconds: from the first request sent to the last token that arrived.
        answers: one per job.
        counts: what the server's counters of speculation rose by.
        cached_tokens: prompt tokens that came from the prefix cache; None where not counted.
        notes: what could not be checked.
    """

    started_s: float
    seconds: float
    answers: list[Answer]
    counts: Counts
    cached_tokens: int | None = None
    notes: list[str] = field(default_factory=list)


async def measure(client: Client, dialect: Dialect, jobs: Sequence[Job], load: Load) -> Window:
    """Send the jobs as a load says and read the counters around them.

    Raises:
        SpecbenchError: a request failed, the server is not alone ours, or it restarted.
    """
    if dialect.flush_path:
        await client.post(dialect.flush_path)
    before = await read_page(client, dialect)
    answers: dict[int, Answer] = {}

    async def send(number: int, due_s: float) -> None:
        answers[number] = await ask(client, jobs[number], due_s)

    started = time.perf_counter()
    await load(send)
    in_order = [answers[number] for number in range(len(jobs))]
    seconds = max(answer.chunk_s[-1] for answer in in_order) - started
    if before is None:
        notes = ["the server tells no counters: other traffic would go unseen"]
        return Window(started, seconds, in_order, Counts(), None, notes)
    rise = await _counted(client, dialect, before, len(jobs))
    notes = _refuse_foreign(rise, dialect, in_order)
    cached = rise.total(*dialect.cached)
    return Window(started, seconds, in_order, dialect.counts(rise), cached, notes)


async def ask(client: Client, job: Job, due_s: float) -> Answer:
    """Send one request and take in its stream.

    Raises:
        SpecbenchError: it failed; names the request.
    """
    answer = Answer(due_s, time.perf_counter())

    def take(arrived_s: float, event: Event) -> None:
        answer.add(arrived_s, event)

    try:
        await client.stream(job.path, job.body, take)
        return answer.checked()
    except SpecbenchError as error:
        raise SpecbenchError(f"request {job.name}: {error.message}", error.hint) from error


async def _counted(client: Client, dialect: Dialect, before: Page, requests: int) -> Rise:
    """The counters once the last request is counted, or when that has been waited for."""
    deadline = time.perf_counter() + COUNTING_S
    while True:
        after = await read_page(client, dialect)
        if after is None:
            raise SpecbenchError("the server's counters were gone after the measurement")
        rise = Rise(before, after)
        rise.refuse_restart()
        finished = _finished(rise, dialect)
        if finished is None or finished >= requests or time.perf_counter() > deadline:
            return rise
        await asyncio.sleep(_PAUSE_S)


def _finished(rise: Rise, dialect: Dialect) -> int | None:
    """Requests that ended by themselves: an aborted one may be left of a cell that failed."""
    total = rise.total(*dialect.finished)
    reasons = [rise.by_label(name, "finished_reason") for name in dialect.finished]
    aborted = sum(ended.get("abort", 0) for ended in reasons)
    return None if total is None else total - aborted


def _refuse_foreign(rise: Rise, dialect: Dialect, answers: Sequence[Answer]) -> list[str]:
    """Check that everything which the server counted was ours; what can't be checked.

    Raises:
        SpecbenchError: it was not.
    """
    requests, tokens = len(answers), sum(answer.num_tokens or 0 for answer in answers)
    notes = []
    for counted, ours, what in (
        (_finished(rise, dialect), requests, "requests"),
        (rise.total(*dialect.generated), tokens, "output tokens"),
    ):
        if counted is None:
            notes.append(f"the server counts no {what}: other traffic might go unseen")
        elif counted != ours:
            raise SpecbenchError(
                f"foreign traffic: the server counted {counted} {what} in the measured time, "
                f"{ours} of them were asked for here",
                _ALONE,
            )
    return notes


_ALONE = "Measure a server that nobody else uses"
