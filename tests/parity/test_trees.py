"""Trees are as lossless as chains: greedy output, caches after every round, and the record."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
import torch

from specbench.drafters.model import ModelDrafter
from specbench.records.identities import identities
from specbench.records.schema import Cell
from specbench.records.summary import summarize
from specbench.sampling.warp import SamplingParams
from tests.lossless import greedy_faults, watch_caches
from tests.tiny import (
    ARCHITECTURES,
    alpha,
    hugging_face_greedy,
    language_model,
    noisy_copy,
    requests,
    run_cell,
)

LENGTH = 12
BATCH_SIZES = {1: 3, 3: 7, 8: 10}
TREES = ("model:near,tree=8", "model:near,tree=8,topk=2", "model:near,tree=20,topk=3")
SURE = "model:sure,tree=16,topk=3"
SAMPLED = SamplingParams(0.4, top_k=20)
EQUAL = 1e-5


@functools.cache
def models():
    target = language_model("llama")
    gpt2 = language_model("gpt2", seed=3)
    sure = noisy_copy(target, 0.0)  # the target's choices, and so probable that all are kept
    with torch.no_grad():
        sure.model.get_output_embeddings().weight.mul_(10)
    near, other = noisy_copy(target, 0.15), language_model(seed=9)
    return {"near": near, "same": target, "sure": sure, "other": other, "gpt2": gpt2}


@functools.cache
def reference(stop_tokens: tuple[int, ...] = ()) -> list[list[int]]:
    return hugging_face_greedy(language_model("llama"), requests(10), LENGTH, stop_tokens)


def cell(spec: str | None, batch_size: int = 3, **options):
    batch = options.pop("batch", requests(10)[: BATCH_SIZES[batch_size]])
    options = {"max_new_tokens": LENGTH, "gamma": 4, **options}
    return run_cell(
        language_model("llama"), spec, batch, batch_size=batch_size, models=models(), **options
    )


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("gamma", [1, 2, 4])
@pytest.mark.parametrize("spec", TREES)
def test_every_tree_gamma_and_batch_size(spec, gamma, batch_size):
    generation = cell(spec, batch_size, gamma=gamma)
    assert greedy_faults(generation.outputs, reference()[: len(generation.outputs)]) == []
    assert 0 < alpha(generation) < 1
    assert set(generation.rounds["draft_levels"]) == {gamma}


@pytest.mark.parametrize("gamma", [1, 2, 4])
def test_all_accepted(gamma):
    generation = cell(SURE, gamma=gamma)
    assert greedy_faults(generation.outputs, reference()[:7]) == []
    assert set(generation.rounds["num_accepted"]) == {gamma}
    assert set(generation.rounds["num_evaluated"]) == {gamma}


def test_none_accepted():
    generation = cell("model:other,tree=4,topk=1", gamma=3)
    assert greedy_faults(generation.outputs, reference()[:7]) == []
    assert alpha(generation) < 0.2


def test_a_tree_accepts_more_than_a_chain():
    """Siblings catch what the first choice misses, on every level."""
    chain, tree = cell("model:near"), cell("model:near,tree=40,topk=3")
    assert alpha(tree) > alpha(chain) + 0.1
    positions = [
        path for path in tree.rounds["path"] if path and path != sorted(range(1, len(path) + 1))
    ]
    assert len(positions) > 5, "paths through later siblings were taken"


@pytest.mark.parametrize("spec", [*TREES, SURE])
def test_a_stop_token_cuts_inside_a_tree(spec):
    stops = tuple({output[position] for output in reference()[:3] for position in (4, 9)})
    expected = reference(stops)[:7]
    generation = cell(spec, stop_tokens=stops)
    assert greedy_faults(generation.outputs, expected) == []
    emitted, accepted = (generation.rounds[f"num_{what}"] for what in ("emitted", "accepted"))
    assert any(e < a + 1 for e, a in zip(emitted, accepted, strict=True)), "some round is cut"


@pytest.mark.parametrize("length", [1, 2, 3])
def test_short_outputs(length):
    generation = cell("model:near,tree=8,topk=3", max_new_tokens=length)
    assert generation.outputs == [output[:length] for output in reference()[:7]]


def test_fewer_prompts_than_slots():
    generation = cell("model:near,tree=8,topk=3", 8, batch=requests(10)[:2])
    assert greedy_faults(generation.outputs, reference()[:2]) == []


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_architecture(kind):
    target = language_model(kind)
    near = {"near": noisy_copy(target, 0.1)}
    batch = requests(4, seed=3)
    expected = hugging_face_greedy(target, batch, 8)
    generation = run_cell(
        target,
        "model:near,tree=8,topk=3",
        batch,
        gamma=3,
        batch_size=3,
        max_new_tokens=8,
        models=near,
    )
    assert greedy_faults(generation.outputs, expected) == []


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_both_attention_implementations(attention):
    target = language_model("llama", attn_implementation=attention)
    batch = requests(4, seed=5)
    expected = hugging_face_greedy(target, batch, 10)
    near = {"near": noisy_copy(target, 0.1)}
    generation = run_cell(
        target, TREES[2], batch, gamma=3, batch_size=3, max_new_tokens=10, models=near
    )
    assert greedy_faults(generation.outputs, expected) == []


# ---- a chain written as a tree


@pytest.mark.parametrize("gamma", [1, 3])
def test_only_children_give_the_chains_rounds(gamma):
    """Greedy: the same tokens, counts and caches round by round."""
    chain, tree = cell("model:near", gamma=gamma), cell(f"model:near,tree={gamma + 1}", gamma=gamma)
    if gamma > 1:
        tree = cell(f"model:near,tree={gamma + 1},topk=1", gamma=gamma)
    assert tree.outputs == chain.outputs
    for column in ("num_drafted", "num_evaluated", "num_accepted", "num_emitted", "overlap"):
        assert tree.rounds[column] == chain.rounds[column], column
    assert chain.rounds["path"] == [None] * len(chain.rounds["path"])
    assert tree.rounds["path"] == [
        list(range(1, accepted + 1)) for accepted in tree.rounds["num_accepted"]
    ]


@pytest.mark.parametrize("sampling", [SamplingParams(), SAMPLED], ids=["greedy", "sampled"])
def test_a_chain_handed_over_as_a_tree_is_the_chain_to_the_last_bit(monkeypatch, sampling):
    """The same drafts, with parents 0, 1, 2, ...; sampled ones keep their q."""
    chain = cell("model:near", gamma=3, sampling=sampling)
    sound = ModelDrafter.propose

    def as_tree(self, gamma):
        draft = sound(self, gamma)
        parents = torch.arange(gamma).expand_as(draft.tokens)
        return replace(draft, parents=parents, levels=draft.lengths)

    monkeypatch.setattr(ModelDrafter, "propose", as_tree)
    tree = cell("model:near", gamma=3, sampling=sampling)
    assert tree.outputs == chain.outputs
    for column in ("num_drafted", "draft_levels", "num_evaluated", "num_accepted", "num_emitted"):
        assert tree.rounds[column] == chain.rounds[column], column
    assert tree.rounds["path"] != chain.rounds["path"]


# ---- caches


@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("gamma", [1, 2, 4])
@pytest.mark.parametrize("sampling", [SamplingParams(), SAMPLED], ids=["greedy", "sampled"])
def test_caches_are_right_before_every_round(sampling, gamma, batch_size):
    watch, generation = watched("model:near,tree=16,topk=3", sampling, gamma, batch_size)
    assert 0 < alpha(generation) < 1
    assert watch.checked > 5
    assert watch.target_gap < EQUAL
    assert watch.drafter_gap < EQUAL


def watched(spec, sampling=SamplingParams(), gamma=3, batch_size=3):  # noqa: B008
    return watch_caches(
        language_model("llama"),
        spec,
        requests(batch_size + 2),
        gamma=gamma,
        batch_size=batch_size,
        sampling=sampling,
        models=models(),
    )


def test_a_gap_of_a_whole_draft_is_normal():
    watch, _ = watched(SURE, gamma=4)
    assert watch.behind == 5
    assert max(watch.target_gap, watch.drafter_gap) < EQUAL


def test_a_drafter_of_another_architecture():
    watch, _ = watched("model:gpt2,tree=16,topk=4", SAMPLED)
    assert max(watch.target_gap, watch.drafter_gap) < EQUAL


# ---- the record


@pytest.mark.parametrize("sampling", [SamplingParams(), SAMPLED], ids=["greedy", "sampled"])
def test_the_record_of_a_tree(sampling):
    spec, temperature = "model:near,tree=16,topk=3", sampling.temperature
    generation = cell(spec, gamma=4, sampling=sampling)
    key = Cell(
        target="t", drafter=spec, gamma=4, temperature=temperature, batch_size=3, task="tiny"
    )
    rounds = generation.rounds
    assert identities(key, rounds, generation.requests) == []
    assert set(rounds["num_verified"]) == {16}
    assert set(rounds["num_drafted"]) == {15}
    for index, path in enumerate(rounds["path"]):
        accepted, evaluated = rounds["num_accepted"][index], rounds["num_evaluated"][index]
        assert len(path) == accepted
        assert accepted <= evaluated <= min(accepted + 1, 4)
        assert len(rounds["overlap"][index]) == evaluated
    fields = summarize(key, rounds, generation.requests)
    assert fields["tree_nodes"] == 16
    assert fields["draft_length_mean"] == 4
    assert len(fields["alpha_by_position"]) == 4
    assert 0 < fields["alpha_overlap"] <= 1
    assert fields["tau"] <= 5
