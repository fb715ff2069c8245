"""Drafters with random weights: of the right dimensions, run for their time, never for their α."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from specbench.drafters.base import build_drafter, drafter_class
from specbench.drafters.spec import parse_spec
from specbench.errors import SpecbenchError
from specbench.heads import random_heads
from specbench.models.language_model import LanguageModel
from specbench.weights import placement
from tests.tiny import language_model, make_drafter, requests, run_cell, with_references

LENGTH, GAMMA = 12, 3


@pytest.fixture(scope="module")
def target() -> LanguageModel:
    return language_model("llama")


@pytest.fixture(scope="module")
def shape(target: LanguageModel) -> LanguageModel:
    """The same model, as if its weights had been drawn for a shape."""
    return LanguageModel(target.model, name="shape:tiny")


def head_shapes(target: LanguageModel, spec: str) -> dict[str, tuple[int, ...]]:
    drafter = make_drafter(target, spec)
    head = drafter.heads if spec.startswith("medusa") else drafter.head
    return {name: tuple(weight.shape) for name, weight in head.named_parameters()}


def test_an_eagle_head_is_a_layer_like_the_targets(target):
    found = head_shapes(target, "eagle:shape")
    assert found["fc.weight"] == (32, 64)
    layer = dict(target.model.model.layers[0].named_parameters())
    for name, weight in layer.items():
        if name != "input_layernorm.weight":  # EAGLE heads have none
            assert found[f"layers.0.{name}"] == tuple(weight.shape)
    assert len(found) == len(layer) + 1  # and fc's bias


def test_an_eagle3_head_reads_three_states_and_has_an_output_layer(target, monkeypatch):
    monkeypatch.setattr(random_heads, "EAGLE3_IDS", 40)
    found = head_shapes(target, "eagle3:shape")
    assert found["fc.weight"] == (32, 96)
    assert found["midlayer.self_attn.q_proj.weight"] == (32, 64)
    assert found["lm_head.weight"] == (40, 32)
    drafter = make_drafter(target, "eagle3:shape")
    assert drafter.ids.tolist() == list(range(40))
    monkeypatch.setattr(random_heads, "EAGLE3_IDS", 32_000)
    assert head_shapes(target, "eagle3:shape")["lm_head.weight"] == (61, 32)


def test_medusa_heads_are_as_many_as_asked_for_before_the_targets_own_output(target):
    assert len(make_drafter(target, "medusa:shape").heads) == 5
    assert set(head_shapes(target, "medusa:shape,heads=3")) == {
        f"{head}.0.linear.{part}" for head in range(3) for part in ("weight", "bias")
    }
    cut = make_drafter(target, "medusa:shape,heads=3,vocab=16")
    assert cut.output.ids.tolist() == list(range(16))


def test_gamma_beyond_the_heads_cannot_exist():
    spec = parse_spec("medusa:shape,heads=3")
    kind, at = drafter_class(spec), {"temperature": 0.0, "batch_size": 1}
    assert kind.impossible(spec, gamma=3, **at) is None
    assert kind.impossible(spec, gamma=4, **at) == "gamma 4 is beyond the 3 Medusa heads"


@pytest.mark.parametrize("spec", ["eagle:shape", "eagle3:shape", "medusa:shape"])
def test_weights_are_in_the_targets_dtype_deterministic_and_finite(target, spec):
    half = LanguageModel(copy.deepcopy(target.model).to(torch.bfloat16), name="half")
    heads = []
    for _ in range(2):
        torch.rand(1)  # what was drawn before does not matter
        drafter = make_drafter(half, spec)
        heads.append(drafter.heads if spec.startswith("medusa") else drafter.head)
        assert drafter.weights["served_from"] == "random weights, seed 0"
        assert drafter.weights["sha256"] is None
    assert torch.get_default_dtype() == torch.float32
    for one, other in zip(heads[0].parameters(), heads[1].parameters(), strict=True):
        assert one.dtype == torch.bfloat16
        assert torch.equal(one, other)
        assert torch.isfinite(one).all()
        assert one.dim() == 1 or one.std() > 0
    for buffer in heads[0].buffers():
        assert buffer.dtype == torch.float32  # rotary frequencies


def test_heads_that_do_not_fit_are_refused(target, monkeypatch):
    monkeypatch.setattr(placement, "available_bytes", lambda device: 1000)
    with pytest.raises(SpecbenchError, match=r"eagle:shape takes .* GB, and cpu has 1e-06 GB free"):
        make_drafter(target, "eagle:shape")


COSTS = [
    "eagle:shape",
    "eagle3:shape",
    "medusa:shape",
    "model:shape:smollm2-135m",
    "early-exit:1",
    "ngram",
]


@pytest.mark.parametrize("cost", COSTS)
def test_on_a_shape_the_coin_decides_in_float32_too(shape, cost):
    """A flip of random weights can't derail the replay, and no token is a stop token."""
    batch = with_references(shape, requests(4), LENGTH + GAMMA + 1)
    for request in batch:
        request.reference[3] = 2  # a Llama's stop token, which means nothing here
    models = {"shape:smollm2-135m": language_model("llama", seed=3)}
    drafter = make_drafter(shape, f"synthetic:1,cost={cost}", models)
    generation = run_cell(shape, drafter, batch, gamma=GAMMA, batch_size=2, max_new_tokens=LENGTH)
    assert set(generation.rounds["replayed"]) == {True}
    assert set(generation.rounds["num_drafted"]) == {GAMMA}
    assert set(generation.rounds["num_accepted"]) == {GAMMA}
    assert generation.outputs == [request.reference[:LENGTH] for request in batch]


@pytest.mark.parametrize("cost", ["eagle:shape", "model:shape:smollm2-135m"])
def test_a_synthetic_drafter_stands_for_the_weights_and_keys_of_its_cost(shape, cost):
    batch = with_references(shape, requests(3), LENGTH + GAMMA + 1)
    models = {"shape:smollm2-135m": language_model("llama", seed=3)}
    drafter = make_drafter(shape, f"synthetic:0.5,cost={cost}", models)
    assert drafter.cache is None
    run_cell(shape, drafter, batch, gamma=GAMMA, batch_size=2, max_new_tokens=LENGTH)
    assert drafter.cache is drafter.cost.cache
    assert drafter.cache.bytes_per_token > 0
    assert drafter.weights == drafter.cost.weights


def test_the_cost_drafter_draws_last_and_rolls_back_as_the_coin_says(shape, monkeypatch):
    """Its kernels are then in flight when the target verifies, as a real drafter's are."""
    batch = with_references(shape, requests(3), LENGTH + GAMMA + 1)
    drafter = make_drafter(shape, "synthetic:0.6,cost=early-exit:1")
    order: list[str] = []
    pad, propose, commit = drafter._pad, drafter.cost.propose, drafter.cost.commit

    def noted(name, method):
        def call(*arguments, **options):
            order.append(name)
            return method(*arguments, **options)

        return call

    committed: list[list[int]] = []

    def commit_noted(num_accepted, hidden=None):
        committed.append(list(num_accepted))
        commit(num_accepted, hidden)

    monkeypatch.setattr(drafter, "_pad", noted("copy", pad))
    monkeypatch.setattr(drafter.cost, "propose", noted("draft", propose))
    monkeypatch.setattr(drafter.cost, "commit", commit_noted)
    generation = run_cell(shape, drafter, batch, gamma=GAMMA, max_new_tokens=LENGTH)
    steps = max(generation.rounds["step"]) + 1
    assert order == ["copy", "copy", "draft"] * steps
    assert [accepted for (accepted,) in committed] == generation.rounds["num_accepted"]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("eagle:shape:llama-3.1-8b", "a head has the dimensions of its target"),
        ("medusa:shape,heads=0", "heads=0"),
        ("medusa:some/path,heads=3", "heads= is for medusa:shape"),
        ("medusa,heads=3", "heads= is for medusa:shape"),
        ("eagle:shape,heads=3", "no option 'heads'"),
        ("model:shape", "names no shape"),
        ("model:shape:", "unknown shape ''"),
        ("model:shape:lama-3.2-1b", "Did you mean 'llama-3.2-1b'"),
        ("synthetic:0.5,cost=eagle:shape,tree=8", "chains of fixed length"),
        ("synthetic:0.5,cost=ngram,max=2,gamma=auto", "no option 'gamma'"),
        ("synthetic:0.5,cost=early-exit:1,gamma=auto", "chains of fixed length"),
        ("synthetic:0.5,cost=model:shape:nothing", "unknown shape 'nothing'"),
    ],
)
def test_a_spec_that_cannot_be_right_is_refused_before_anything_is_loaded(spec, says):
    parsed = parse_spec(spec)
    with pytest.raises(SpecbenchError) as caught:
        drafter_class(parsed).check(parsed)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "random"),
    [
        ("eagle:shape", True),
        ("medusa:shape,heads=4", True),
        ("model:shape:llama-3.2-1b", True),
        ("model:shape:./folder,gamma=auto", True),
        ("model:shape/llama", False),
        ("eagle:./shape", False),
        ("model:org/shape", False),
        ("ngram", False),
        ("synthetic:0.8,cost=eagle:shape", False),
    ],
)
def test_which_specs_have_random_weights(spec, random):
    assert parse_spec(spec).has_random_weights is random


def test_a_folder_called_shape_is_not_read(target, tmp_path: Path, monkeypatch):
    (tmp_path / "shape").mkdir()
    monkeypatch.chdir(tmp_path)
    assert make_drafter(target, "medusa:shape,heads=2").weights["name"] == "medusa:shape"
    with pytest.raises(SpecbenchError, match=r"has no config\.json"):
        build_drafter("medusa:./shape", _host(target))


def _host(target):
    from specbench.drafters.base import Host

    return Host(target, {}.__getitem__)
