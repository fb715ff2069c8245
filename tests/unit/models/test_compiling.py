"""Compiled steps: the same tokens, few compilations, and none inside a cell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from specbench.errors import SpecbenchError
from specbench.models import compiling
from specbench.models.capture import Rerun
from specbench.models.language_model import LanguageModel
from tests.captured import run_captured
from tests.lossless import greedy_faults
from tests.tape import TapeCapture
from tests.tiny import hugging_face_greedy, noisy_copy, random_model, requests

CPU = torch.device("cpu")


@pytest.fixture
def counted(monkeypatch):
    """Counts what is compiled, and runs it without a compiler."""
    torch._dynamo.reset()
    counter, compile_ = CompileCounter(), torch.compile
    monkeypatch.setattr(torch, "compile", lambda model, mode: compile_(model, backend=counter))
    yield counter
    torch._dynamo.reset()


@pytest.mark.parametrize("by", [Rerun, TapeCapture])
def test_compiled_steps_say_the_same_and_compile_nothing_inside_a_cell(counted, by):
    target = LanguageModel(random_model("llama"), name="tiny")
    near = noisy_copy(target, 0.15)
    for model in (target, near):
        model.compile()
    texts = requests(4) + requests(2, seed=4, shortest=30)
    batch = [replace(request, prompt_id=f"q{n}") for n, request in enumerate(texts)]
    before: list[int] = []

    def wrap(decoder: Any) -> Any:
        before.append(counted.frame_count)
        return decoder

    generation, capturing = run_captured(
        target,
        "model:near",
        batch,
        gamma=3,
        batch_size=2,
        max_new_tokens=40,
        models={"near": near},
        by=by(),
        wrap=wrap,
    )
    assert greedy_faults(generation.outputs, hugging_face_greedy(target, batch, 40)) == []
    assert (capturing.eager, capturing.take_late()) == ({}, [])
    assert before == [counted.frame_count] != [0], "all of it in the warm-up"
    shapes = 3  # the target's verify, the drafter's steps of one and two tokens
    assert counted.frame_count <= 2 * shapes, "a second time for all other extents"


def test_no_compiler_is_refused_with_its_reason(monkeypatch):
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no C++ compiler here\nand a long story")

    monkeypatch.setattr(torch, "compile", broken)
    with pytest.raises(SpecbenchError) as caught:
        compiling.require_compiler(CPU)
    assert caught.value.message == "--compile does not work on cpu: no C++ compiler here"
