"""Every check of losslessness is seen to fail on trees too: faults planted one at a time."""

from __future__ import annotations

import functools

import pytest
import torch

from specbench.drafters.model import ModelDrafter
from specbench.engine import _tree_round
from specbench.models.cache import RowCache
from specbench.models.language_model import LanguageModel
from specbench.models.tree import Tree
from specbench.sampling import tree as rule
from specbench.sampling.rng import Uniforms
from specbench.sampling.warp import SamplingParams, warp
from tests.lossless import (
    BROKEN,
    SOUND,
    enumerated_joint,
    greedy_faults,
    joint_p_value,
    watch_caches,
)
from tests.tiny import (
    OncePerPrompt,
    copies,
    hugging_face_greedy,
    language_model,
    noisy_copy,
    requests,
    run_cell,
)
from tests.trees import tree_p_value

TREE = "model:near,tree=14,topk=3"
GAMMA = 3

# ---- greedy: ids and lengths, and caches


@functools.cache
def greedy_target() -> LanguageModel:
    return language_model("llama", seed=0)


@functools.cache
def greedy_models() -> dict[str, LanguageModel]:
    return {"near": noisy_copy(greedy_target(), 0.15), "same": greedy_target()}


@functools.cache
def expected() -> list[list[int]]:
    return hugging_face_greedy(greedy_target(), requests(5), 12)


def greedy_cell(spec: str = TREE):
    return run_cell(
        greedy_target(),
        spec,
        requests(5),
        gamma=GAMMA,
        batch_size=3,
        max_new_tokens=12,
        models=greedy_models(),
    )


def accepted_per_round(generation) -> float:
    """What a fault of the drafter costs: alpha hardly shows it, ending at a leaf being free."""
    accepted = generation.rounds["num_accepted"]
    return sum(accepted) / len(accepted)


def greedy_check(spec: str = TREE) -> list[str]:
    """The parity test in small: what is wrong with the output."""
    return greedy_faults(greedy_cell(spec).outputs, expected())


def cache_check(spec: str = TREE):
    """The rollback test in small."""
    return watch_caches(
        greedy_target(),
        spec,
        requests(5),
        gamma=GAMMA,
        batch_size=3,
        sampling=SamplingParams(),
        models=greedy_models(),
    )


def test_without_a_fault_the_checks_pass():
    assert greedy_check() == []
    watch, _ = cache_check()
    assert max(watch.target_gap, watch.drafter_gap) < 1e-5


def test_an_ancestor_missing_from_the_mask(monkeypatch):
    """The target's nodes don't see their grandparents."""
    sound = Tree.from_parents.__func__

    def faulty(cls, parents):
        tree = sound(cls, parents)
        above = tree.depths[:, :, None] - tree.depths[:, None]
        return Tree(tree.depths, tree.ancestors & (above != 2))

    monkeypatch.setattr(Tree, "from_parents", classmethod(faulty))
    assert greedy_check()


def test_siblings_that_see_each_other(monkeypatch):
    """The plain causal mask over a tree's slots."""
    sound = Tree.from_parents.__func__

    def faulty(cls, parents):
        tree = sound(cls, parents)
        return Tree(tree.depths, torch.ones_like(tree.ancestors).tril())

    monkeypatch.setattr(Tree, "from_parents", classmethod(faulty))
    assert greedy_check()


def test_positions_by_slot_instead_of_by_depth(monkeypatch):
    sound = Tree.from_parents.__func__

    def faulty(cls, parents):
        tree = sound(cls, parents)
        slots = torch.arange(tree.depths.shape[1]).expand_as(tree.depths)
        return Tree(slots, tree.ancestors)

    monkeypatch.setattr(Tree, "from_parents", classmethod(faulty))
    assert greedy_check()


def test_the_path_is_not_moved(monkeypatch):
    monkeypatch.setattr(RowCache, "keep_path", lambda self, starts, paths: None)
    assert greedy_check()
    assert cache_check()[0].target_gap > 1e-2


def test_the_neighbours_of_the_path_are_moved(monkeypatch):
    sound = RowCache.keep_path

    def faulty(self, starts, paths):
        sound(self, starts, torch.where(paths > 1, paths - 1, paths))

    monkeypatch.setattr(RowCache, "keep_path", faulty)
    assert greedy_check()
    assert cache_check()[0].target_gap > 1e-2


def test_the_path_is_moved_slot_by_slot_over_itself(monkeypatch):
    """Of the last node only, as if the nodes before it already lay right."""
    sound = RowCache.keep_path

    def faulty(self, starts, paths):
        last = torch.arange(paths.shape[1]).expand_as(paths).clone()
        last[:, -1] = paths[:, -1]
        sound(self, starts, last)

    monkeypatch.setattr(RowCache, "keep_path", faulty)
    assert greedy_check()


def test_a_child_of_another_node_is_accepted(monkeypatch):
    """The walk goes to any accepted node of the next level."""

    def faulty(self, accepted, levels):
        depth = torch.zeros_like(self.parents)
        for _ in range(levels):
            above = depth.gather(1, (self.parents - 1).clamp(min=0))
            depth = torch.where(self.parents > 0, above + 1, 0)
        path = [torch.zeros_like(self.parents[:, 0])]
        for level in range(levels):
            on_level = accepted & (depth == level)
            path.append(
                torch.where(on_level.any(dim=1), on_level.long().argmax(dim=1) + 1, path[-1])
            )
        nodes = torch.stack(path, dim=1)
        return nodes, (nodes[:, 1:] != nodes[:, :-1]).sum(dim=1)

    monkeypatch.setattr(rule._Family, "walk", faulty)
    assert greedy_check()


def test_the_drafter_takes_its_tree_for_its_text(monkeypatch):
    """It does not reread what was accepted: output stays right, its cache and acceptance do not."""
    before = accepted_per_round(greedy_cell())
    sound = ModelDrafter.commit

    def faulty(self, num_accepted, hidden=None):
        sound(self, num_accepted, hidden)
        for slot, accepted in enumerate(num_accepted):
            self._cached[slot] = self._lengths_at_draft[slot] + min(accepted, GAMMA - 1)

    monkeypatch.setattr(ModelDrafter, "commit", faulty)
    watch, generation = cache_check()
    assert greedy_faults(generation.outputs, expected()) == []
    assert watch.drafter_gap > 1e-2
    assert accepted_per_round(generation) < before - 0.1


def test_the_drafters_tree_hangs_below_wrong_parents(monkeypatch):
    """Its nodes see the root only. Legal for the output, seen in what is accepted."""
    spec = "model:same,tree=14,topk=3"
    before = accepted_per_round(greedy_cell(spec))
    sound = Tree.extended

    def faulty(self, parents):
        tree = sound(self, parents)
        above = tree.depths[:, :, None] - tree.depths[:, None]
        return Tree(tree.depths, tree.ancestors & ((above == 0) | (tree.depths[:, None] == 0)))

    monkeypatch.setattr(Tree, "extended", faulty)
    assert greedy_check(spec) == []
    assert accepted_per_round(greedy_cell(spec)) < before - 0.1


# ---- sampling: chi-square against the enumerated joint distribution

PROMPT = (3, 1, 4, 1, 5, 2, 6, 3, 1, 4)
COOL = SamplingParams(0.7)


@functools.cache
def target() -> LanguageModel:
    return language_model("llama", vocab_size=8, seed=4)


@functools.cache
def models() -> dict[str, LanguageModel]:
    return {"near": OncePerPrompt(noisy_copy(target(), 0.5))}


@functools.cache
def joint():
    return enumerated_joint(target(), PROMPT, COOL, 3)


def p_value() -> float:
    """The sampling test in small."""
    outputs = run_cell(
        target(),
        TREE,
        copies(PROMPT, 1200),
        gamma=2,
        batch_size=64,
        sampling=COOL,
        max_new_tokens=3,
        models=models(),
    ).outputs
    return joint_p_value(outputs, joint())


def test_without_a_fault_the_chi_square_passes():
    assert p_value() > SOUND


def test_the_softmax_is_given_as_q_of_chosen_children(monkeypatch):
    """What looks natural, since the softmax chose them: q(x) instead of 1."""
    sound = _tree_round.verify_tree_sampled

    def faulty(p, tokens, lengths, parents, depths, q, accept, residual):
        own = p.gather(1, parents[..., None].expand(-1, -1, p.shape[2])).sqrt()
        softmax = own / own.sum(dim=2, keepdim=True)
        return sound(p, tokens, lengths, parents, depths, softmax, accept, residual)

    monkeypatch.setattr(_tree_round, "verify_tree_sampled", faulty)
    assert p_value() < BROKEN
    assert tree_p_value(1, drawn=False, q="softmax", rows=20_000) < BROKEN


class Unnormalised(rule._Chosen):
    """Accepts every sibling with p(x), rejected ones before it or not."""

    def __init__(self, p, tokens, family, uniforms):
        super().__init__(p, tokens, family, uniforms)
        rows = torch.arange(p.shape[0])[:, None]
        self.accepted = family.real & (uniforms < p[rows, family.parents, tokens])


def test_siblings_are_accepted_without_renormalising(monkeypatch):
    monkeypatch.setattr(rule, "_Chosen", Unnormalised)
    assert tree_p_value(1, drawn=False) < BROKEN


def test_drawn_siblings_are_accepted_without_renormalising_p(monkeypatch):
    """norm(max(0, p - q)) left at max(0, p - q)."""
    sound = rule._normalised

    def faulty(mass, otherwise):
        return mass if otherwise is not mass else sound(mass, otherwise)

    monkeypatch.setattr(rule, "_normalised", faulty)
    assert tree_p_value(1, drawn=True) < BROKEN


def test_drawn_siblings_keep_the_q_of_the_first(monkeypatch):
    monkeypatch.setattr(rule, "_without_siblings", lambda q, tokens, family: q)
    assert tree_p_value(0, drawn=True) < BROKEN


@pytest.mark.parametrize("kind", ["_Chosen", "_Drawn"])
def test_the_next_token_is_drawn_from_p_after_a_rejection(monkeypatch, kind):
    """The residual is skipped."""

    def faulty(self, end):
        return self._p[torch.arange(len(end)), end]

    monkeypatch.setattr(getattr(rule, kind), "rest", faulty)
    assert tree_p_value(1, drawn=kind == "_Drawn", rows=20_000) < BROKEN
    if kind == "_Chosen":
        assert p_value() < BROKEN


def test_one_uniform_for_all_siblings(monkeypatch):
    sound = Uniforms.at
    monkeypatch.setattr(
        Uniforms,
        "at",
        lambda self, stream, positions, width=1, *, sibling=0: sound(
            self, stream, positions, width
        ),
    )
    assert p_value() < BROKEN


def test_the_target_warped_at_another_temperature(monkeypatch):
    monkeypatch.setattr(
        _tree_round, "warp", lambda logits, params: warp(logits, SamplingParams(1.0))
    )
    assert p_value() < BROKEN
