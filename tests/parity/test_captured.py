"""Captured steps say what forwards as they are say: on a tape that repeats as a CUDA graph does.

The stand-in keeps addresses and Python's numbers as a graph does (``tests/tape.py``), so whatever
would go stale in a graph goes stale here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from specbench.engine.request import Request
from specbench.models import cache as cache_module
from specbench.models import capture
from specbench.models.cache import RowCache
from specbench.models.capture import StepShape
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams
from tests import published, trained
from tests.captured import run_captured
from tests.lossless import greedy_faults
from tests.tiny import (
    ARCHITECTURES,
    alpha,
    hugging_face_greedy,
    language_model,
    noisy_copy,
    requests,
    run_cell,
    with_references,
)

LENGTH = 12
COUNT = {1: 3, 3: 7}
"""Prompts by batch size: more than slots, so that slots are refilled."""

NOT_CAPTURED = {"gpt_neo": "not permitted while capturing: tensor"}
"""Architectures whose forward no graph can hold: this one makes a tensor of a number per layer."""

SPECS = (
    "ngram",
    "model:near",
    "model:near,gamma=auto",
    "model:near,tree=12,topk=3",
    "early-exit:1",
    "early-exit:1,gamma=auto",
    "synthetic:0.6",
    "synthetic:0.6,cost=model:near",
    "synthetic:0.6,cost=eagle:{}/eagle",
    "medusa:{}/medusa",
    "medusa:{}/medusa,vocab=30",
    "medusa:{}/medusa,tree=12",
    "eagle:{}/eagle",
    "eagle:{}/eagle,vocab=30",
    "eagle:{}/eagle,gamma=auto",
    "eagle:{}/eagle,tree=12,topk=3",
    "eagle3:{}/eagle3",
    "eagle3:{}/eagle3,tree=12,topk=3",
)


@functools.cache
def target() -> LanguageModel:
    return language_model("llama")


@functools.cache
def models() -> dict[str, LanguageModel]:
    return {"near": noisy_copy(target(), 0.15), "same": target()}


@functools.cache
def prompts() -> tuple[Request, ...]:
    return tuple(with_references(target(), requests(7), LENGTH + 5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    """Heads trained on some of the prompts."""
    made = tmp_path_factory.mktemp("heads")
    trained.train_medusa(made / "medusa", target(), prompts()[1:6])
    trained.train_eagle(made / "eagle", target(), prompts()[1:6])
    trained.train_eagle3(made / "eagle3", target(), prompts()[1:6])
    for kind in ("medusa", "eagle"):
        published.write_ranking(made / kind, range(60, 10, -1))
    return made


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("batch_size", COUNT)
@pytest.mark.parametrize("gamma", [1, 4])
@pytest.mark.parametrize("spec", [None, *SPECS])
def test_the_output_is_that_of_forwards_as_they_are(folder, spec, gamma, batch_size, temperature):
    if spec is not None and spec.startswith("synthetic") and temperature > 0:
        pytest.skip("synthetic drafters replay greedy output")
    spec = spec and spec.format(folder)
    options = {
        "gamma": gamma if spec else 0,
        "batch_size": batch_size,
        "sampling": SamplingParams(temperature),
        "max_new_tokens": LENGTH,
        "models": models(),
    }
    batch = prompts()[: COUNT[batch_size]]
    generation, capturing = run_captured(target(), spec, batch, **options)
    assert capturing.eager == {}
    assert capturing.take_late() == [], "every shape was captured before the cell"
    assert capturing.captured["tiny-llama"] > 0
    plain = run_cell(target(), spec, batch, **options)
    assert generation.outputs == plain.outputs
    assert generation.rounds["num_accepted"] == plain.rounds["num_accepted"]
    if temperature == 0:
        baseline = run_cell(target(), None, batch, max_new_tokens=LENGTH)
        assert greedy_faults(generation.outputs, baseline.outputs) == []
    if spec is not None and gamma == 4:
        assert 0 < alpha(generation) < 1


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_architecture(kind):
    model = language_model(kind)
    near = {"near": noisy_copy(model, 0.1)}
    batch = requests(4, seed=3)
    expected = hugging_face_greedy(model, batch, 10)
    for spec, gamma in ((None, 0), ("model:near", 3), ("early-exit:1", 2)):
        generation, capturing = run_captured(
            model, spec, batch, gamma=gamma, batch_size=3, max_new_tokens=10, models=near
        )
        assert greedy_faults(generation.outputs, expected) == [], spec
        assert capturing.take_late() == []
        if kind in NOT_CAPTURED:
            assert capturing.captured == {}
            assert all(NOT_CAPTURED[kind] in reason for reason in capturing.eager.values())
        else:
            assert capturing.eager == {}


@pytest.mark.parametrize("spec", ["ngram", "model:near", "model:near,tree=12,topk=3"])
def test_texts_across_many_sizes_and_a_stop_token(spec):
    """Rows from 3 to over 90 tokens: attention covers ever more slots, in one batch."""
    batch = requests(4) + requests(3, seed=2, shortest=40)
    batch = [Request(f"q{index}", r.conversation, r.token_ids) for index, r in enumerate(batch)]
    expected = hugging_face_greedy(target(), batch, 50)
    stops = [expected[0][20]]
    generation, capturing = run_captured(
        target(),
        spec,
        batch,
        gamma=4,
        batch_size=3,
        max_new_tokens=50,
        stop_tokens=stops,
        models=models(),
    )
    assert greedy_faults(generation.outputs, hugging_face_greedy(target(), batch, 50, stops)) == []
    assert (capturing.eager, capturing.take_late()) == ({}, [])


# ---- planted faults: each goes red


def wrong_outputs(spec: str | None = "model:near") -> bool:
    batch = prompts()
    generation, capturing = run_captured(
        target(),
        spec,
        batch,
        gamma=4 if spec else 0,
        batch_size=3,
        max_new_tokens=LENGTH,
        models=models(),
    )
    assert capturing.eager == {}, "the fault must be replayed, not run as it is"
    baseline = run_cell(target(), None, batch, max_new_tokens=LENGTH)
    return greedy_faults(generation.outputs, baseline.outputs) != []


@pytest.mark.parametrize("spec", [None, "model:near"])
def test_sound_steps_have_none(spec):
    assert not wrong_outputs(spec)


@pytest.mark.parametrize("spec", [None, "model:near"])
def test_a_start_that_is_a_number_from_python_is_seen(monkeypatch, spec):
    """Every replay writes where the captured run wrote."""
    sound = RowCache._expect_at

    def faulty(self, start, width, extent):
        sound(self, torch.full_like(start, extent - width), width, extent)

    monkeypatch.setattr(RowCache, "_expect_at", faulty)
    assert wrong_outputs(spec)


@pytest.mark.parametrize("spec", [None, "model:near"])
def test_an_extent_that_is_too_short_is_seen(monkeypatch, spec):
    """Attention does not reach the last tokens."""
    monkeypatch.setattr(cache_module, "round_up", lambda length: max(16, length // 16 * 16))
    assert wrong_outputs(spec)


@pytest.mark.parametrize("spec", [None, "model:near"])
def test_a_stale_input_is_seen(monkeypatch, spec):
    """Tokens are not copied into their buffer again."""
    sound, seen = capture._fill, set()

    def faulty(buffers, values):
        if len(buffers) == 2 and buffers[1].dtype == torch.long:  # starts and tokens
            if id(buffers[1]) in seen:
                buffers, values = buffers[:1], values[:1]
            else:
                seen.add(id(buffers[1]))
        sound(buffers, values)

    monkeypatch.setattr(capture, "_fill", faulty)
    assert wrong_outputs(spec)


def test_states_that_are_kept_without_a_copy_are_seen(folder, monkeypatch):
    """The states of a prompt are overwritten by the next prompt of its size."""
    sound = LanguageModel.read_prompt

    def faulty(self, token_ids, cache, hidden_layers=()):
        with monkeypatch.context() as patched:
            patched.setattr(torch.Tensor, "clone", lambda tensor: tensor)
            return sound(self, token_ids, cache, hidden_layers)

    batch, spec = prompts(), f"medusa:{folder}/medusa"
    options = {"gamma": 4, "batch_size": 3, "max_new_tokens": LENGTH}
    plain = run_cell(target(), spec, batch, **options)
    generation, _ = run_captured(target(), spec, batch, **options)
    assert generation.rounds["num_accepted"] == plain.rounds["num_accepted"]
    monkeypatch.setattr(LanguageModel, "read_prompt", faulty)
    generation, _ = run_captured(target(), spec, batch, **options)
    assert generation.outputs != plain.outputs


def test_a_shape_that_was_not_rehearsed_runs_as_it_is_and_is_named(monkeypatch):
    """Late, but right."""
    monkeypatch.setattr(LanguageModel, "rehearse", lambda self, *_, **__: None)
    batch = prompts()
    generation, capturing = run_captured(
        target(), "model:near", batch, gamma=4, batch_size=3, max_new_tokens=LENGTH, models=models()
    )
    baseline = run_cell(target(), None, batch, max_new_tokens=LENGTH)
    assert greedy_faults(generation.outputs, baseline.outputs) == []
    late = capturing.take_late()
    assert str(StepShape("tiny-llama", 5, 16)) in late
    assert str(StepShape("tiny-llama+noise", 1, 16)) in late
    assert capturing.take_late() == []
