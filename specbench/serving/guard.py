"""Runs one command and ends it, with everything that it started, when its own stdin is closed.

``python guard.py SECONDS COMMAND...`` stands between specbench and a server. specbench holds the
other end of the pipe on stdin: however it ends, killed outright too, the kernel closes that end,
and the guard puts an end to the server, by force if it takes longer than SECONDS. If the guard
itself is killed the server goes with it. A script of the standard library alone, run by path, so
that it starts at once.

Servers start workers, some in sessions of their own. On Linux the guard adopts what is orphaned
below it (a subreaper), so that no descendant is out of its sight; elsewhere it ends the server's
process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_POLL_S = 0.1
_DIES_WITH_PARENT, _ADOPTS_ORPHANS = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER


def main(grace_s: float, command: list[str]) -> int:
    """Run a command until it ends or stdin is closed; returns its exit code, 0 if it was ended."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)  # the pipe alone decides
    _prctl(_ADOPTS_ORPHANS, 1)
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=_prepare
    )
    while server.poll() is None and not _is_closed(sys.stdin.fileno()):
        pass
    code = server.poll()
    _end(server.pid, grace_s)
    return 0 if code is None else code


def _prepare() -> None:
    """In the server's process, before it is the server."""
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_DFL)
    _prctl(_DIES_WITH_PARENT, signal.SIGKILL)


def _is_closed(pipe: int) -> bool:
    """Whether the pipe was closed; waits a moment for it."""
    readable, _, _ = select.select([pipe], [], [], _POLL_S)
    return bool(readable) and not os.read(pipe, 1)


def _end(server: int, grace_s: float) -> None:
    """Ask the server's processes to end, then kill what is left of them."""
    deadline = time.monotonic() + grace_s
    _signal_all(server, signal.SIGTERM)
    while not _reaped_all() and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    while not _reaped_all():
        _signal_all(server, signal.SIGKILL)
        time.sleep(_POLL_S)


def _signal_all(server: int, number: signal.Signals) -> None:
    """Signal the server's group, and what left it for a session of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(server, number)
    for process in _descendants(os.getpid()):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(process) != server:
                os.kill(process, number)


def _reaped_all() -> bool:
    """Take leave of children that ended; whether none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


def _descendants(root: int) -> Iterator[int]:
    """Processes below another, by what /proc says; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            parent = int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found = children.get(root, [])
    while found:
        yield from found
        found = [child for process in found for child in children.get(process, ())]


def _prctl(option: int, value: int) -> None:
    """Linux's prctl(2); nothing elsewhere."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
