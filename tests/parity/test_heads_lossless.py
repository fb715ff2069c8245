"""Greedy output with heads is Hugging Face's, ids and length, chains and trees."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from specbench.engine.request import Generation, Request
from tests import published, trained
from tests.lossless import greedy_faults, watch_caches
from tests.tiny import (
    GREEDY,
    alpha,
    hugging_face_greedy,
    language_model,
    requests,
    run_cell,
    with_references,
)

LENGTH = 12
GAMMAS = (1, 2, 4)
BATCH_SIZES = {1: 3, 3: 7, 8: 10}
"""Batch size and number of prompts: more prompts than slots, so slots are refilled."""

SPECS = (
    "medusa:{}/medusa",
    "medusa:{}/medusa,vocab=30",
    "medusa:{}/medusa,tree=12",
    "eagle:{}/eagle",
    "eagle:{}/eagle,vocab=30",
    "eagle:{}/eagle,tree=12,topk=3",
    "eagle3:{}/eagle3",
    "eagle3:{}/eagle3,tree=12,topk=3",
)
CHAINS = tuple(spec for spec in SPECS if "," not in spec)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Iterator[Path]:
    """Heads trained on some of the prompts."""
    made, target = tmp_path_factory.mktemp("heads"), language_model("llama")
    trained.train_medusa(made / "medusa", target, prompts()[1:6])
    trained.train_eagle(made / "eagle", target, prompts()[1:6])
    trained.train_eagle3(made / "eagle3", target, prompts()[1:6])
    for kind in ("medusa", "eagle"):
        published.write_ranking(made / kind, range(60, 10, -1))
    return made


@functools.cache
def prompts() -> tuple[Request, ...]:
    return tuple(requests(10))


@functools.cache
def reference(stop_tokens: tuple[int, ...] = ()) -> list[list[int]]:
    return hugging_face_greedy(language_model("llama"), prompts(), LENGTH, stop_tokens)


def cell(spec: str, batch_size: int = 3, **options) -> Generation:
    batch = options.pop("batch", prompts()[: BATCH_SIZES[batch_size]])
    options.setdefault("max_new_tokens", LENGTH)
    return run_cell(language_model("llama"), spec, batch, batch_size=batch_size, **options)


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("spec", SPECS)
def test_every_kind_gamma_and_batch_size(folder, spec, gamma, batch_size):
    generation = cell(spec.format(folder), batch_size, gamma=gamma)
    assert greedy_faults(generation.outputs, reference()[: len(generation.outputs)]) == []
    assert 0 < alpha(generation) < 1
    assert max(generation.rounds["draft_levels"]) == gamma


@pytest.mark.parametrize("spec", SPECS)
def test_a_stop_token_cuts_inside_a_draft(folder, spec):
    stops = tuple({output[position] for output in reference()[:3] for position in (4, 9)})
    expected = reference(stops)[:7]
    assert {len(output) for output in expected} > {LENGTH}, "some must stop, some must not"
    generation = cell(spec.format(folder), gamma=4, stop_tokens=stops)
    assert greedy_faults(generation.outputs, expected) == []


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_outputs(folder, spec, length):
    generation = cell(spec.format(folder), gamma=4, max_new_tokens=length)
    assert generation.outputs == [output[:length] for output in reference()[:7]]


@pytest.mark.parametrize("spec", SPECS)
def test_fewer_prompts_than_slots_and_prompts_of_one_token(folder, spec):
    generation = cell(spec.format(folder), 8, gamma=4, batch=prompts()[:2])
    assert greedy_faults(generation.outputs, reference()[:2]) == []
    batch = [Request(f"one{token}", "c", [token]) for token in (5, 6, 7)]
    expected = hugging_face_greedy(language_model("llama"), batch, LENGTH)
    outputs = cell(spec.format(folder), 1, gamma=3, batch=batch).outputs
    assert greedy_faults(outputs, expected) == []


@pytest.mark.parametrize("kind", ["gpt2", "opt", "qwen2", "mistral"])
def test_medusa_on_other_architectures(tmp_path, kind):
    """One with output weights tied to its embeddings among them."""
    changes = {"tie_word_embeddings": True} if kind == "qwen2" else {}
    target = language_model(kind, **changes)
    batch = requests(7, seed=3)
    head = trained.train_medusa(tmp_path, target, batch[:4])
    expected = hugging_face_greedy(target, batch, LENGTH)
    for text in ("", ",tree=12"):
        spec = f"medusa:{head}{text}"
        generation = run_cell(target, spec, batch, gamma=3, batch_size=3, max_new_tokens=LENGTH)
        assert greedy_faults(generation.outputs, expected) == []
        assert alpha(generation) > 0.1


@pytest.mark.parametrize("kind", ["qwen2", "mistral", "gpt2"])
def test_eagle_on_other_architectures(tmp_path, kind):
    target = language_model(kind)
    batch = requests(7, seed=3)
    trained.train_eagle(tmp_path / "eagle", target, batch[:4], steps=50)
    trained.train_eagle3(tmp_path / "eagle3", target, batch[:4], steps=50)
    expected = hugging_face_greedy(target, batch, LENGTH)
    for name in ("eagle", "eagle3"):
        generation = run_cell(
            target,
            f"{name}:{tmp_path / name}",
            batch,
            gamma=3,
            batch_size=3,
            max_new_tokens=LENGTH,
        )
        assert greedy_faults(generation.outputs, expected) == []
        assert alpha(generation) > 0.1


@pytest.mark.parametrize("spec", SPECS)
def test_the_targets_cache_is_right_before_every_round(folder, spec):
    watch, generation = watch_caches(
        language_model("llama"),
        spec.format(folder),
        requests(5),
        gamma=3,
        batch_size=3,
        sampling=GREEDY,
    )
    assert 0 < alpha(generation) < 1
    assert watch.checked > 10
    assert watch.target_gap < 1e-5


@pytest.mark.parametrize("spec", CHAINS)
def test_a_replay_that_costs_a_head(folder, spec):
    """``cost=`` passes the target's states on, whatever is committed."""
    target = language_model("llama")
    batch = with_references(target, prompts()[:5], LENGTH + 4)
    generation = run_cell(
        target,
        f"synthetic:0.6,cost={spec.format(folder)}",
        batch,
        gamma=3,
        batch_size=2,
        max_new_tokens=LENGTH,
    )
    assert generation.outputs == [request.reference[:LENGTH] for request in batch]
