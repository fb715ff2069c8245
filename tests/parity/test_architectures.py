"""Greedy output is ``generate``'s for every behaviour of caches and positions, and every family.

Rows are ragged, and texts of models with windows are longer than the window, prompts too.
"""

from __future__ import annotations

import functools

import pytest

from specbench.models import language_model
from specbench.models.cache import RowCache
from specbench.models.language_model import LanguageModel
from specbench.sampling.warp import SamplingParams
from tests.families import FAMILIES, WINDOW, Family, tiny
from tests.lossless import greedy_faults, watch_caches
from tests.tiny import alpha, hugging_face_greedy, noisy_copy, requests, run_cell
from tests.tiny_seq2seq import generate_greedily

LENGTH = 16
CHAIN, TREE = "model:near", "model:near,tree=8,topk=3"
DEEP, LEVELS = "model:same,tree=24,topk=2", 10
"""Trees deeper than the window, of which whole paths are accepted."""

BEHAVIOURS = ("llama", "opt", "mistral", "gemma2", "gemma3_text", "deepseek_v2", "deepseek_v3")
"""One family or two per behaviour: windows in all layers and in some, dense layers and experts."""
WINDOWED = ("mistral", "gemma2")
EQUAL = 1e-5

of_every_behaviour = pytest.mark.parametrize("kind", BEHAVIOURS)


def family(kind: str) -> Family:
    return next(found for found in FAMILIES if found.kind == kind)


@functools.cache
def models(kind: str) -> tuple[LanguageModel, dict[str, LanguageModel]]:
    """A target and what its drafter may be."""
    target = tiny(family(kind))
    return target, {"near": noisy_copy(target, 0.1), "same": target}


@functools.cache
def expected(kind: str) -> list[list[int]]:
    return hugging_face_greedy(models(kind)[0], requests(5, seed=3), LENGTH)


def faults(kind: str, spec: str | None, gamma: int, batch_size: int = 3) -> list[str]:
    target, near = models(kind)
    batch = requests(5, seed=3)[: batch_size + 2]
    generation = run_cell(
        target, spec, batch, gamma=gamma, batch_size=batch_size, max_new_tokens=LENGTH, models=near
    )
    assert spec is None or 0 < alpha(generation) <= 1
    return greedy_faults(generation.outputs, expected(kind)[: len(batch)])


@of_every_behaviour
def test_the_baseline(kind):
    assert faults(kind, None, 0) == []


@of_every_behaviour
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("gamma", [1, 4])
@pytest.mark.parametrize("spec", [CHAIN, TREE])
def test_every_behaviour(kind, spec, gamma, batch_size):
    assert faults(kind, spec, gamma, batch_size) == []


@of_every_behaviour
def test_the_first_layers_of_every_behaviour(kind):
    assert faults(kind, "early-exit:1", 4) == []


def caches_gap(kind: str, spec: str, gamma: int) -> float:
    """The largest difference between caches before rounds and a fresh prefill's."""
    target, drafters = models(kind)
    sampling = SamplingParams(0.4, top_k=20)
    options = {"gamma": gamma, "batch_size": 3, "sampling": sampling, "models": drafters}
    watch, _ = watch_caches(target, spec, requests(4, seed=3), **options)
    assert watch.checked > 3
    return max(watch.target_gap, watch.drafter_gap)


@of_every_behaviour
@pytest.mark.parametrize("spec", [CHAIN, TREE])
def test_caches_before_every_round_are_a_fresh_prefills(kind, spec):
    assert caches_gap(kind, spec, 3) < EQUAL


# ---- the window


@pytest.mark.parametrize("kind", WINDOWED)
def test_these_texts_leave_the_window_and_are_others_without_it(kind):
    prompts = [len(request.token_ids) for request in requests(5, seed=3)]
    assert min(prompts) < WINDOW < max(prompts)
    wide = LanguageModel(models(kind)[0].model, name="wide")
    wide._windows = dict.fromkeys(wide._windows)
    outputs = run_cell(wide, None, requests(5, seed=3), batch_size=3, max_new_tokens=LENGTH).outputs
    assert len(greedy_faults(outputs, expected(kind))) == 5


@pytest.mark.parametrize("kind", WINDOWED)
@pytest.mark.parametrize("spec", [CHAIN, TREE])
def test_a_window_ignored_in_verification_is_caught(monkeypatch, kind, spec):
    sound = language_model.masks_by_layer

    def ignoring(windows, visible, *places):
        return sound(dict.fromkeys(windows) if visible.shape[1] > 1 else windows, visible, *places)

    prepared(kind)
    monkeypatch.setattr(language_model, "masks_by_layer", ignoring)
    assert faults(kind, spec, 4)


@pytest.mark.parametrize("kind", WINDOWED)
@pytest.mark.parametrize("spec", [CHAIN, TREE])
def test_a_cache_that_forgets_what_left_the_window_of_a_draft_is_caught(monkeypatch, kind, spec):
    """After a rollback the window reaches back to keys that the drafted tokens did not see."""
    sound = RowCache.update

    def forgetting(self, *given, **options):
        keys, values = sound(self, *given, **options)
        for stored in (keys, values):
            stored[:, :, : max(0, self._extent - WINDOW)] = 0
        return keys, values

    prepared(kind)
    monkeypatch.setattr(RowCache, "update", forgetting)
    assert faults(kind, spec, 4, batch_size=1)


@pytest.mark.parametrize("kind", WINDOWED)
def test_a_tree_deeper_than_the_window(kind):
    assert faults(kind, DEEP, LEVELS) == []


def prepared(kind: str) -> None:
    """What a fault is to be held against is made before it is planted."""
    models(kind), expected(kind)


# ---- every family


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.kind)
def test_every_family(family):
    from transformers import CONFIG_MAPPING

    if family.kind not in CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {family.kind}")
    target = tiny(family)
    near = {"near": noisy_copy(target, 0.1)}
    batch = requests(3, seed=3)
    reference = (generate_greedily if target.has_encoder else hugging_face_greedy)(
        target, batch, 10
    )
    for spec in (CHAIN,) if target.has_encoder else (CHAIN, TREE):
        outputs = run_cell(
            target, spec, batch, gamma=3, batch_size=3, max_new_tokens=10, models=near
        ).outputs
        assert greedy_faults(outputs, reference) == [], spec
