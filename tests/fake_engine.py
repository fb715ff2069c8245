"""A vLLM that is none: an environment whose ``python`` starts the scripted server of this folder.

``--fake`` among its arguments says what goes wrong:

* ``fails``: it ends with an error before it is up; ``hangs``: it never is up;
* ``crashes``: a server that speculates ends while it answers the first measured request;
* ``slow``: a second between chunks, the first of which is noted;
* ``deaf``: it does not hear SIGTERM.

Every server also starts a worker in a session of its own, and notes all process ids.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIFE_S = 600.0
"""No process of a test is left for longer, whatever fails."""

METHODS = ("ngram", "draft_model", "eagle", "eagle3", "medusa", "suffix", "mtp")


def write_engine(
    folder: Path,
    methods: tuple[str, ...] = METHODS,
    *,
    samples: bool = True,
    package: str = "vllm-fake",
) -> Path:
    """Write an environment; returns its ``python``.

    Args:
        methods: what it can draft with.
        samples: its drafter can be told to sample.
        package: that the module ``vllm`` comes with.
    """
    module = folder / "vllm"
    places = {
        "__init__.py": "",
        "config/speculative.py": f"METHODS = {json.dumps(methods)}\n"
        + ("draft_sample_method = 'greedy'\n" if samples else ""),
        "entrypoints/__init__.py": "",
        "entrypoints/openai/__init__.py": "",
        "entrypoints/openai/api_server.py": "from tests.fake_engine import main\n\nmain()\n",
    }
    for name, text in places.items():
        (module / name).parent.mkdir(parents=True, exist_ok=True)
        (module / name).write_text(text, encoding="utf-8")
    information = folder / f"{package.replace('-', '_')}-1.2.3.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Name: {package}\nVersion: 1.2.3\n", encoding="utf-8")
    (information / "top_level.txt").write_text("vllm\n", encoding="utf-8")
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="{folder}:{ROOT}" FAKE_NOTES="{folder}/notes" '
        f'exec "{sys.executable}" "$@"\n',
        encoding="utf-8",
    )
    python.chmod(0o755)
    return python


def notes(python: Path) -> list[dict[str, Any]]:
    """What every started server noted: its arguments and process ids, in order."""
    file = python.parent / "notes"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def answers(python: Path) -> bool:
    """Whether a slow server has begun to answer."""
    return _answers(python.parent).exists()


def _answers(folder: Path) -> Path:
    return folder / "answers"


def alive(python: Path) -> list[int]:
    """Which of all the noted processes are there."""
    processes = [process for note in notes(python) for process in note["processes"]]
    return [process for process in processes if _is_there(process)]


def wait_until_gone(python: Path, timeout_s: float = 90.0) -> list[int]:
    """The noted processes that are left after a while."""
    deadline = time.monotonic() + timeout_s
    while (left := alive(python)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def main() -> None:
    """The server: what ``python -m vllm.entrypoints.openai.api_server`` runs."""
    timer = threading.Timer(LIFE_S, lambda: os._exit(1))
    timer.daemon = True
    timer.start()
    parser = argparse.ArgumentParser()
    for name in ("model", "host", "port", "dtype", "speculative-config"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--fake", default="")
    options = parser.parse_args()
    drafting = json.loads(options.speculative_config or "null")
    if options.fake == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    worker = subprocess.Popen(
        [sys.executable, "-c", f"import time; time.sleep({LIFE_S})"], start_new_session=True
    )
    note = {
        "processes": [os.getpid(), worker.pid],
        "drafting": drafting,
        "dtype": options.dtype,
        "reports": os.environ.get("VLLM_NO_USAGE_STATS"),
    }
    with Path(os.environ["FAKE_NOTES"]).open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(note) + "\n")
    print("fake engine starts", flush=True)
    if options.fake == "fails":
        raise ValueError("this engine never starts")
    if options.fake == "hangs":
        time.sleep(LIFE_S)
    _serve(int(options.port), drafting, options.fake)


def _serve(port: int, drafting: dict[str, Any] | None, fault: str) -> None:
    from tests.fake_server import FakeServer

    gamma = drafting["num_speculative_tokens"] if drafting else 2
    fake = FakeServer(accepted=(gamma, 0, 1) if drafting else None, gamma=gamma)
    fake.step_s = 0.02  # longer than a busy machine may keep the client waiting
    if fault == "slow":
        fake.step_s = 1.0
        fake.on_chunk = lambda number: _answers(Path(os.environ["FAKE_NOTES"]).parent).touch()
    if fault == "crashes" and drafting:
        fake.on_chunk = lambda number: os._exit(3) if number == 2 else None
    with fake.serving(port):
        signal.pause()
