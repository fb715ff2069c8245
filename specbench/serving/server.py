"""One server as a backend uses it: its address, what it is, and an event loop when it is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from specbench.errors import SpecbenchError
from specbench.serving.address import Address
from specbench.serving.answers import Answer
from specbench.serving.client import Client, Deadlines
from specbench.serving.load import closed_loop
from specbench.serving.survey import ServerFacts, survey
from specbench.serving.window import Job, Load, Window, ask, measure

WARM_UP_TOKENS = 8
"""Of each answer that is asked for before anything is measured."""

Value = TypeVar("Value")


class Server:
    """A running server.

    Args:
        address: where it listens.
        deadlines: of every wait.
        model: the one to measure where it serves several.
    """

    def __init__(self, address: Address, deadlines: Deadlines, model: str | None = None) -> None:
        self.address = address
        self._deadlines = deadlines
        self._model = model
        self._facts: ServerFacts | None = None

    @property
    def facts(self) -> ServerFacts:
        """What it is; asked once.

        Raises:
            SpecbenchError: it does not answer, or is no OpenAI-compatible server.
        """
        if self._facts is None:
            self._facts = self._run(lambda client: survey(client, self._model))
        return self._facts

    def answers(self, jobs: Sequence[Job]) -> list[Answer]:
        """Send all jobs at once, outside any window.

        Raises:
            SpecbenchError: one of them failed.
        """

        async def all_of(client: Client) -> list[Answer]:
            found: dict[int, Answer] = {}

            async def send(number: int, due_s: float) -> None:
                found[number] = await ask(client, jobs[number], due_s)

            await closed_loop(send, len(jobs), len(jobs))
            return [found[number] for number in range(len(jobs))]

        return self._run(all_of)

    def measure(self, jobs: Sequence[Job], load: Load) -> Window:
        """Send the jobs as a load says, and read the server's counters around them.

        Raises:
            SpecbenchError: a request failed, or the window can't be trusted.
        """
        dialect = self.facts.dialect
        return self._run(lambda client: measure(client, dialect, jobs, load))

    def refuse_unlike(self, plain: Server) -> None:
        """Raises SpecbenchError if another server can't be the baseline of this one."""
        mine, theirs, where = self.facts, plain.facts, plain.address.root
        if theirs.speculates:
            raise SpecbenchError(
                f"the baseline's server at {where} speculates", "Start it without a drafter"
            )
        for name, one, other in (
            ("kind", mine.dialect.name, theirs.dialect.name),
            ("version", mine.version, theirs.version),
            ("model", mine.model, theirs.model),
        ):
            if one != other:
                raise SpecbenchError(
                    f"the baseline's server at {where} has another {name}: {other}, not {one}",
                    "A speedup needs one engine and one model",
                )

    def _run(self, work: Callable[[Client], Coroutine[Any, Any, Value]]) -> Value:
        async def connected() -> Value:
            async with Client(self.address, self._deadlines) as client:
                return await work(client)

        return asyncio.run(connected())
