"""A real vLLM on a tiny random model: text and counts are the native engine's; then it is gone.

Skipped by name where there is none; see README.md in this folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from specbench.backends.base import Backend, EngineOptions, make_backend
from specbench.backends.vllm import VllmBackend
from specbench.engine.request import Limits, Request
from specbench.records.schema import Cell
from specbench.weights.progress import SILENT
from tests.tiny_target import PROMPTS, write_target

PYTHON = os.environ.get("SPECBENCH_VLLM")
TOKENS = 24

pytestmark = pytest.mark.skipif(
    PYTHON is None, reason="no test of a real vLLM: SPECBENCH_VLLM names no python that has one"
)


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Backend]]:
    """The native engine and vLLM, on a target whose head size vLLM has."""
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    target = write_target(tmp_path / "target", head_size=32)
    options = EngineOptions(
        str(target),
        device="cpu",
        engine_python=PYTHON,
        engine_args=("--enforce-eager", "--max-num-seqs", "8"),
        logs=tmp_path / "logs",
    )
    made = {name: make_backend(name) for name in ("native", "vllm")}
    for backend in made.values():
        backend.load(options, SILENT)
    yield made
    for backend in made.values():
        backend.close()


def test_text_and_counts_are_the_native_engines(engines: dict[str, Backend]):
    native, vllm = engines.values()
    assert isinstance(vllm, VllmBackend)
    labels = {"task": "mine", "category": "x", "turn": 0, "source": "test"}
    requests = [
        Request(f"p{index}", f"p{index}", native.tokenizer(text)["input_ids"], (), labels)
        for index, text in enumerate(PROMPTS)
        if len(text) > 1  # vLLM counts a draft that is none where one token joins others: README.md
    ]
    point = {"target": "tiny", "temperature": 0.0, "task": "mine"}
    plain = Cell(drafter="none", gamma=0, baseline="first", batch_size=2, **point)
    lookup = Cell(drafter="ngram,match=first", gamma=2, batch_size=2, **point)
    for backend in engines.values():
        backend.check([lookup])
    outputs = {}
    for cell in (plain, lookup):
        native.begin_block(requests, [cell], Limits(TOKENS))
        own = native.generate(cell, requests, Limits(TOKENS))
        native.end_block()
        served = vllm.generate(cell, requests, Limits(TOKENS))
        outputs[cell.gamma] = served.requests["output_ids"]
        assert outputs[cell.gamma] == own.outputs
    rounds = own.rounds
    accepted = rounds["num_accepted"]
    counts = served.server["counts"]
    assert counts["drafts"] == sum(drafted > 0 for drafted in rounds["num_drafted"])
    assert counts["drafted"] == sum(rounds["num_drafted"])
    assert counts["accepted"] == sum(accepted) > 0
    assert counts["accepted_at"] == [sum(n > place for n in accepted) for place in range(2)]
    process = vllm._running.process if vllm._running else None
    vllm.close()
    assert process is not None
    assert not process.is_alive
