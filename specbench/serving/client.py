"""HTTP to one server: pages, and streams whose every event gets the time at which it arrived.

Nothing is tried twice: a request that was answered at the second try was slow or lost at the first,
and a measurement must not hide that. Every wait has an end.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx2

from specbench.errors import SpecbenchError
from specbench.serving.address import Address, api_key

Event = dict[str, Any]
OnEvent = Callable[[float, Event], None]
"""Called with the arrival, in seconds of ``time.perf_counter``, and the event."""

_ABSENT = (404, 405, 501)  # a page that this server does not have
_QUOTED = 200  # characters of an answer that an error repeats


@dataclass(frozen=True)
class Deadlines:
    """Seconds until waiting ends: for a connection, a whole page, a stream's next event."""

    connect_s: float = 10.0
    page_s: float = 30.0
    silence_s: float = 300.0


class Client:
    """A server's client; an async context manager.

    Proxies of the environment are honoured, except for servers on this machine. Redirects are not
    followed, so that only the URL which was given is contacted.
    """

    def __init__(self, address: Address, deadlines: Deadlines | None = None) -> None:
        self.address = address
        self.deadlines = deadlines or Deadlines()
        self._key = api_key()
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx2.Timeout(None, connect=self.deadlines.connect_s),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
            trust_env=not address.is_loopback,
        )

    async def __aenter__(self) -> Client:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.__aexit__(exception_type, exception, trace)

    async def text(self, path: str) -> str | None:
        """A page's text; None where the server has no such page.

        Raises:
            SpecbenchError: no answer in time, or an error.
        """
        return await self._page("GET", path)

    async def json(self, path: str) -> Any:
        """A page's JSON; None where the server has no such page.

        Raises:
            SpecbenchError: no answer in time, an error, or no JSON.
        """
        text = await self._page("GET", path)
        if text is None:
            return None
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._problem(path, f"sent no JSON: {self._quoted(text)!r}") from error

    async def post(self, path: str) -> bool:
        """Ask for something that needs no body; False where the server can't do it.

        Raises:
            SpecbenchError: no answer in time, or an error.
        """
        return await self._page("POST", path) is not None

    async def stream(self, path: str, body: Mapping[str, Any], on_event: OnEvent) -> None:
        """Post a request and hand on its server-sent events as they arrive, to the last.

        Raises:
            SpecbenchError: an error, a damaged or unfinished stream, or silence past the deadline.
        """
        silence_s, now = self.deadlines.silence_s, asyncio.get_running_loop().time
        url = self.address.url(path)
        try:
            async with (
                asyncio.timeout(silence_s) as patience,
                self._http.stream("POST", url, json=body) as response,
            ):
                await self._refuse(path, response)
                rest = b""
                async for part in response.aiter_bytes():
                    arrived = time.perf_counter()
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:  # not by splitlines: a token may hold another line break
                        if not line.startswith(b"data:"):
                            continue  # a comment that keeps the connection open says nothing
                        patience.reschedule(now() + silence_s)
                        data = line[len(b"data:") :].strip()
                        if data == b"[DONE]":
                            return
                        on_event(arrived, self._event(path, data))
                raise self._problem(path, "broke the stream off before [DONE]")
        except TimeoutError:
            raise self._problem(path, f"was silent for {silence_s:g} s") from None
        except httpx2.HTTPError as error:
            raise self._problem(path, _reason(error)) from error

    async def _page(self, method: str, path: str) -> str | None:
        try:
            async with asyncio.timeout(self.deadlines.page_s):
                response = await self._http.request(method, self.address.url(path))
        except TimeoutError:
            waited = f"sent no answer in {self.deadlines.page_s:g} s"
            raise self._problem(path, waited) from None
        except httpx2.HTTPError as error:
            raise self._problem(path, _reason(error)) from error
        if response.status_code in _ABSENT:
            return None
        await self._refuse(path, response)
        return response.text

    async def _refuse(self, path: str, response: httpx2.Response) -> None:
        """Raises SpecbenchError unless the server said 200."""
        if response.status_code == 200:
            return
        content = (await response.aread()).decode(errors="replace")
        hints = {401: _KEY_HINT, 403: _KEY_HINT, 503: "Wait until it is up"}
        raise self._problem(
            path,
            f"answered with HTTP {response.status_code}: {self._quoted(content) or 'nothing more'}",
            hints.get(response.status_code, ""),
        )

    def _event(self, path: str, data: bytes) -> Event:
        try:
            event = json.loads(data)
        except ValueError as error:
            quoted = self._quoted(data.decode(errors="replace"))
            raise self._problem(path, f"streamed no JSON: {quoted!r}") from error
        if not isinstance(event, dict) or event.get("error"):
            raise self._problem(path, f"streamed an error: {self._quoted(json.dumps(event))}")
        return event

    def _quoted(self, text: str) -> str:
        """The beginning of what a server said, in one line and without the key."""
        short = " ".join(text.split())
        if self._key:
            short = short.replace(self._key, "***")
        return short if len(short) <= _QUOTED else f"{short[:_QUOTED]} ..."

    def _problem(self, path: str, what: str, hint: str = "") -> SpecbenchError:
        return SpecbenchError(f"the server at {self.address.root} {what} ({path})", hint)


_KEY_HINT = "Put its key into the environment variable SPECBENCH_API_KEY"


def _reason(error: httpx2.HTTPError) -> str:
    """A failed connection or a broken answer, in words that fit after "the server at X"."""
    detail = str(error) or type(error).__name__
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        return f"does not answer: {detail}"
    return f"broke off: {detail}"
