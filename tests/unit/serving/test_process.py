"""Servers of one's own: up or a reason why not, and no process of theirs is left, ever."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.serving import process as module
from specbench.serving.process import ServerProcess, free_port
from tests.fake_engine import ROOT, alive, notes, wait_until_gone, write_engine

MODULE = "vllm.entrypoints.openai.api_server"
PATIENCE_S = 60.0
Start = Callable[..., tuple[ServerProcess, int]]


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "engine")


@pytest.fixture
def start(python: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts fake engines and stops them at the end."""
    started: list[ServerProcess] = []

    def run(fault: str = "", grace_s: float = 10.0) -> tuple[ServerProcess, int]:
        port = free_port()
        command = [str(python), "-m", MODULE, "--host", "127.0.0.1", "--port", str(port)]
        process = ServerProcess(
            [*command, "--fake", fault], os.environ, tmp_path / "logs" / "x.log", "vLLM", grace_s
        )
        started.append(process)
        return process, port

    yield run
    for process in started:
        process.stop()


def test_a_server_is_up_until_it_is_stopped(start: Start, python: Path, tmp_path: Path):
    process, port = start()
    process.wait_until_healthy(port, "/health", PATIENCE_S)
    assert process.is_alive
    assert len(alive(python)) == 2
    process.stop()
    assert not process.is_alive
    assert not alive(python)  # its worker, in a session of its own, is gone too
    assert "fake engine starts" in (tmp_path / "logs" / "x.log").read_text()


def test_one_that_does_not_hear_is_killed(start: Start, python: Path):
    process, port = start("deaf", grace_s=0.3)
    process.wait_until_healthy(port, "/health", PATIENCE_S)
    process.stop()
    assert not alive(python)


def test_one_that_fails_tells_its_last_error(start: Start, python: Path):
    process, port = start("fails")
    with pytest.raises(SpecbenchError) as caught:
        process.wait_until_healthy(port, "/health", PATIENCE_S)
    assert "vLLM ended with exit code 1 before it was up" in caught.value.message
    assert "ValueError: this engine never starts" in caught.value.message
    assert "x.log" in caught.value.hint
    assert not alive(python)


def test_one_that_never_is_up_is_stopped(start: Start, python: Path):
    process, port = start("hangs")
    while not notes(python):
        time.sleep(0.05)
    with pytest.raises(SpecbenchError, match=r"vLLM was not up after 0\.5 s"):
        process.wait_until_healthy(port, "/health", 0.5)
    assert not alive(python)


def test_an_interrupt_of_the_wait_stops_it(
    start: Start, python: Path, monkeypatch: pytest.MonkeyPatch
):
    process, port = start("hangs")
    while not notes(python):
        time.sleep(0.05)

    def interrupted(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr("specbench.serving.process._is_healthy", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process.wait_until_healthy(port, "/health", PATIENCE_S)
    assert not alive(python)


@pytest.mark.parametrize("told", ["20000\t60999\n", "1024\t65535\n", "", None])
def test_a_free_port_is_none_that_the_kernel_gives_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str | None
):
    monkeypatch.setattr(module, "_PORT_RANGE", tmp_path / "range")
    if told is not None:
        (tmp_path / "range").write_text(told)
    ports = [free_port() for _ in range(50)]
    if told == "20000\t60999\n":
        assert all(10_000 <= port < 20_000 for port in ports)
    assert min(ports) > 1024


def test_a_free_port_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "range").write_text("20000\t60999\n")
    monkeypatch.setattr(module, "_PORT_RANGE", tmp_path / "range")
    with socket.socket() as other:
        other.bind((module.LOOPBACK, 0))
        taken = other.getsockname()[1]
        monkeypatch.setattr(module.secrets, "choice", lambda ports: taken)
        assert free_port() != taken


def test_a_program_that_is_not_there_is_named(tmp_path: Path):
    process = ServerProcess([str(tmp_path / "no")], os.environ, tmp_path / "x.log", "vLLM")
    with pytest.raises(SpecbenchError, match="No such file or directory"):
        process.wait_until_healthy(free_port(), "/health", PATIENCE_S)


PARENT = """
import os, sys
from pathlib import Path
from specbench.serving.process import ServerProcess, free_port
port = free_port()
command = [sys.argv[1], "-m", "vllm.entrypoints.openai.api_server", "--port", str(port)]
process = ServerProcess(command, os.environ, Path(sys.argv[2]), "vLLM", grace_s=0.5)
process.wait_until_healthy(port, "/health", 60.0)
print(process._guard.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's part of it is Linux's")
@pytest.mark.parametrize("victim", ["parent", "guard"])
def test_nothing_outlives_a_parent_or_a_guard_that_is_killed(
    python: Path, tmp_path: Path, victim: str
):
    """The guard can't look after workers when it is killed; the server goes with it."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(python), str(tmp_path / "x.log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert parent.stdout is not None
        guard = int(parent.stdout.readline())
        [note] = notes(python)
        server, worker = note["processes"]
        os.kill(parent.pid if victim == "parent" else guard, signal.SIGKILL)
        if victim == "parent":
            assert not wait_until_gone(python)
        else:
            deadline = time.monotonic() + 90.0
            while server in alive(python) and time.monotonic() < deadline:
                time.sleep(0.05)
            assert server not in alive(python)
            os.kill(worker, signal.SIGKILL)
    finally:
        parent.kill()
        parent.communicate()
