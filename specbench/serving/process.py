"""A server of one's own: started on this machine, waited for, and gone when this process is.

The command runs under :mod:`specbench.serving.guard`, which ends it however this process ends. What
it prints goes into a log file. A server listens on the loopback interface only.
"""

from __future__ import annotations

import contextlib
import http.client
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from specbench.errors import SpecbenchError
from specbench.serving import guard

LOOPBACK = "127.0.0.1"

_PAUSE_S = 0.2
_PAGE_S = 5.0  # a health page that takes longer is no answer
_GRACE_S = 10.0
_KILLED_S = 20.0  # until a killed process is gone
_TAIL_BYTES = 20_000
_LOWEST_PORT = 10_000  # those below have owners: databases, development servers
_TRIED_PORTS = 50
_PORT_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


class ServerProcess:
    """A server that was started; stop it with :meth:`stop`.

    Args:
        command: program and arguments.
        environment: all variables that it gets.
        log: where its output goes; what is there is kept.
        name: how errors call it.
        grace_s: how long it may take to end by itself before it is killed.

    Raises:
        SpecbenchError: the program can't be run, or the log can't be written.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        name: str,
        grace_s: float = _GRACE_S,
    ) -> None:
        self.command = list(command)
        self.log = log
        self.name = name
        self._stop_s = grace_s + _KILLED_S
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with log.open("ab") as output:
                self._guard = subprocess.Popen(
                    [sys.executable, "-I", guard.__file__, str(grace_s), *command],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(environment),
                    start_new_session=True,  # Ctrl-C is for specbench, which then stops it
                )
        except OSError as error:
            raise SpecbenchError(f"{name} can't be started: {error}") from error

    @property
    def is_alive(self) -> bool:
        """Whether it runs, ready or not."""
        return self._guard.poll() is None

    def wait_until_healthy(self, port: int, path: str, timeout_s: float) -> None:
        """Wait until a page answers with 200.

        Raises:
            SpecbenchError: it ended, or was not up in time; it is stopped then.
        """
        deadline = time.monotonic() + timeout_s
        try:
            while not _is_healthy(port, path):
                if not self.is_alive:
                    raise self.ended("before it was up")
                if time.monotonic() > deadline:
                    raise SpecbenchError(
                        f"{self.name} was not up after {timeout_s:g} s: {self._last_line()}",
                        f"See {self.log}",
                    )
                time.sleep(_PAUSE_S)
        except BaseException:
            self.stop()
            raise

    def ends_within(self, seconds: float) -> bool:
        """Whether it ended by itself, or does so soon."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(seconds)
        return not self.is_alive

    def ended(self, when: str) -> SpecbenchError:
        """What to say of a server that ended by itself."""
        code = self._guard.wait()
        how = f"with exit code {code}" if 0 <= code < 128 else "by a signal"
        return SpecbenchError(
            f"{self.name} ended {how} {when}: {self._last_line()}", f"See {self.log}"
        )

    def stop(self) -> None:
        """End it with everything that it started, and wait until it is gone."""
        pipe: IO[bytes] | None = self._guard.stdin
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            self._guard.wait(self._stop_s)
        except subprocess.TimeoutExpired:
            self._guard.kill()  # the server dies with it
            self._guard.wait()

    def _last_line(self) -> str:
        """The log's last line that names an error, else its last one."""
        with contextlib.suppress(OSError), self.log.open("rb") as stream:
            stream.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            text = stream.read().decode(errors="replace")
            lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
            errors = [line for line in lines if "Error: " in line or "error: " in line]
            if lines:
                return (errors or lines)[-1][:300]
        return "it printed nothing"


def free_port() -> int:
    """A port of the loopback interface on which nothing listens now.

    A server takes seconds until it listens, and the kernel gives ports of a range to whoever
    connects or asks for any: so it is one below that range, if the kernel tells the range.

    Raises:
        SpecbenchError: all are taken.
    """
    below = range(_LOWEST_PORT, max(_LOWEST_PORT, _given_from()))
    tried = [secrets.choice(below) for _ in range(_TRIED_PORTS)] if below else []
    for port in (*tried, 0):  # of 0 the kernel makes one of its own
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((LOOPBACK, port))
            return int(probe.getsockname()[1])
    raise SpecbenchError("no port of this machine is free")


def _given_from() -> int:
    """The first port that the kernel gives by itself; 0 where it does not tell."""
    try:
        return int(_PORT_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _is_healthy(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_PAGE_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
