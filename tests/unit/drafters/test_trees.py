"""Trees as drafters propose them: grown where the drafter is confident, or of a fixed form."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import pytest
import torch

from specbench.drafters import _shapes
from specbench.drafters._shapes import best_shape, draft_shape, no_shape, read_shape, shape_of
from specbench.drafters._tree import TreeSize
from specbench.drafters.base import Draft, drafter_class
from specbench.drafters.spec import parse_spec
from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel
from specbench.models.tree import Tree
from specbench.sampling.warp import SamplingParams
from tests.tiny import (
    language_model,
    make_drafter,
    make_session,
    noisy_copy,
    requests,
    run_cell,
    shared_prefills,
)


@torch.inference_mode()
def drafted(spec: str, gamma: int, near: LanguageModel, sampling=SamplingParams()):  # noqa: B008
    """A drafter's first draft on a ragged batch with one empty slot, and the batch's texts."""
    target = language_model("llama")
    drafter = make_drafter(target, spec, {"near": near})
    batch = requests(3)
    session = make_session(
        target, batch, gamma=gamma, batch_size=4, sampling=sampling, drafter=drafter
    )
    drafter.start(session)
    prefills = shared_prefills(target, batch)
    for slot, request in enumerate(batch):
        session.target_cache.restore(slot, prefills[request.prompt_id].snapshot)
        row = session.rows[slot]
        row.tokens = [*request.token_ids, 7]
        row.prompt_length, row.prompt_id, row.active = len(request.token_ids), "p", True
        drafter.begin(slot, {})
    return drafter.propose(gamma), [row.tokens for row in session.rows.slots[:3]]


def tree_of(draft: Draft, slot: int) -> list[tuple[int, ...]]:
    """The token paths of a row's nodes, in the draft's order."""
    paths: list[tuple[int, ...]] = [()]
    for index in range(draft.lengths[slot]):
        parent = int(draft.parents[slot, index])
        paths.append((*paths[parent], int(draft.tokens[slot, index])))
    return paths[1:]


@torch.inference_mode()
def expected_tree(model: LanguageModel, text, gamma, nodes, topk, temperature=1.0):
    """EAGLE-2's expansion, one path at a time and without any cache."""

    def children(path):
        ids = torch.tensor([[*text, *path]])
        scores = (model.model(ids, use_cache=False).logits[0, -1] / temperature).log_softmax(-1)
        best = scores.topk(topk)
        return zip(best.indices.tolist(), best.values.tolist(), strict=True)

    found: list[tuple[float, tuple[int, ...]]] = []
    frontier: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    for _ in range(gamma):
        level = [
            (score + own, (*path, token))
            for score, path in frontier
            for token, own in children(path)
        ]
        found += level
        frontier = sorted(level, reverse=True)[:topk]
    return {path for _, path in sorted(found, reverse=True)[:nodes]}


@pytest.mark.parametrize("temperature", [0.0, 0.6])
@pytest.mark.parametrize(("gamma", "nodes", "topk"), [(1, 4, 3), (3, 16, 4), (4, 9, 2), (3, 6, 1)])
def test_the_most_probable_nodes_are_kept(gamma, nodes, topk, temperature):
    near = noisy_copy(language_model("llama"), 0.3)
    spec = f"model:near,tree={nodes},topk={topk}"
    draft, texts = drafted(spec, gamma, near, SamplingParams(temperature))
    for slot, text in enumerate(texts):
        ours = tree_of(draft, slot)
        theirs = expected_tree(near, text, gamma, nodes - 1, topk, temperature or 1.0)
        assert set(ours) == theirs
        assert len(set(ours)) == len(ours) == draft.lengths[slot]
    assert draft.lengths[3] == draft.levels[3] == 0, "an empty slot drafts nothing"
    assert draft.levels[:3] == [gamma] * 3
    assert draft.probs is None


def test_parents_come_first_and_siblings_are_counted():
    near = noisy_copy(language_model("llama"), 0.3)
    draft, _ = drafted("model:near,tree=30,topk=4", 4, near)
    nodes = torch.arange(1, draft.tokens.shape[1] + 1)
    assert draft.tokens.shape == draft.parents.shape == (4, 29)
    assert (draft.parents < nodes).all()
    for slot in range(3):
        most = torch.bincount(draft.parents[slot]).max()
        assert most <= draft.siblings == 4


def test_a_sure_drafter_keeps_parents_before_children_of_equal_probability():
    """Logits so far apart that children are exactly as probable as their parents."""
    sure = noisy_copy(language_model("llama"), 0.0)
    with torch.no_grad():
        sure.model.get_output_embeddings().weight.mul_(1000)
    draft, texts = drafted("model:near,tree=6,topk=3", 4, sure)
    for slot in range(len(texts)):
        paths = tree_of(draft, slot)
        assert len(set(paths)) == 5
        assert len(max(paths, key=len)) == 4, "the sure path goes all the way down"


def test_the_drafter_rereads_what_a_tree_round_accepted():
    """Every round drafts the same tree as a drafter that starts there."""
    target = language_model("llama")
    near = noisy_copy(target, 0.2)
    batch = requests(5)
    spec = "model:near,tree=12,topk=3"
    drafter = make_drafter(target, spec, {"near": near})
    seen = []
    propose = drafter.propose

    def keep(gamma):
        draft = propose(gamma)
        for slot, row in enumerate(drafter.rows.slots):
            if row.active:
                seen.append((list(row.tokens), set(tree_of(draft, slot))))
        return draft

    drafter.propose = keep
    run_cell(target, drafter, batch, gamma=3, batch_size=3, max_new_tokens=10)
    assert len(seen) > 15
    for text, paths in seen:
        assert paths == expected_tree(near, text, 3, 11, 3)


def test_rows_shorter_than_what_another_row_has_to_reread():
    """A prompt of one token joins a row that accepted a whole draft."""
    target = language_model("llama")
    long, short = requests(1)[0], requests(1, shortest=1, seed=1)[0]
    batch = [long, replace(short, prompt_id="a", token_ids=[5])]
    batch += [replace(short, prompt_id=name, token_ids=[6]) for name in "bcd"]
    options = {"batch_size": 2, "max_new_tokens": 9}
    expected = run_cell(target, None, batch, **options).outputs
    models = {"same": target}
    generation = run_cell(
        target, "model:same,tree=6,topk=1", batch, gamma=5, models=models, **options
    )
    assert generation.outputs == expected
    assert set(generation.rounds["num_accepted"]) == {5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model:d,tree=1", "tree=1 is not a whole number of at least 2"),
        ("model:d,tree=many", "tree=many is not a whole number"),
        ("model:d,topk=3", "topk= needs a tree"),
        ("model:d,tree=chain,topk=3", "topk= needs a tree"),
        ("model:d,tree=8,topk=0", "topk=0 is not a whole number of at least 1"),
        ("model:d,trees=8", "has no option 'trees'"),
    ],
)
def test_what_cannot_be_right_is_refused(text, message):
    spec = parse_spec(text)
    with pytest.raises(SpecbenchError) as raised:
        drafter_class(spec).check(spec)
    assert message in str(raised.value)


def test_a_budget_without_room_for_a_full_path_is_dropped():
    spec = parse_spec("model:d,tree=4")
    kind = drafter_class(spec)
    options = {"temperature": 0.0, "batch_size": 1}
    assert [kind.impossible(spec, gamma=gamma, **options) for gamma in (1, 3)] == [None, None]
    reason = kind.impossible(spec, gamma=4, **options)
    assert reason == "tree=4 has no room for 4 levels below the root"
    assert kind.impossible(parse_spec("model:d,tree=chain"), gamma=9, **options) is None


def test_sizes():
    size = TreeSize.of(parse_spec("model:d,tree=60"))
    assert (size.nodes, size.topk) == (60, 10)
    assert [size.most_drafted(gamma) for gamma in (1, 2, 5)] == [10, 59, 59]
    assert TreeSize.of(parse_spec("model:d,tree=5")).topk == 4, "never more than there is room for"
    assert TreeSize.of(parse_spec("model:d")) is None
    assert TreeSize.of(parse_spec("model:d,tree=chain")) is None


# ---- fixed forms


@pytest.mark.parametrize(("levels", "nodes"), [(1, 4), (3, 3), (3, 15), (4, 63), (5, 25)])
def test_built_in_forms_are_trees_of_the_wanted_size_with_a_full_path(levels, nodes):
    shape = best_shape(levels, nodes)
    paths = shape.paths
    assert len(paths) == len(set(paths)) == nodes
    assert (0,) * levels in paths
    assert shape.levels == levels
    assert all(path[:-1] in {(), *paths} for path in paths)
    assert all((*path[:-1], rank) in paths for path in paths for rank in range(path[-1]))
    tree = Tree.from_parents(torch.tensor([shape.parents]))
    assert tree.depths[0, 1:].tolist() == [len(path) for path in paths]


def test_more_nodes_extend_fewer():
    for smaller, larger in itertools.pairwise((4, 7, 12, 30)):
        assert set(best_shape(3, smaller).paths) <= set(best_shape(3, larger).paths)


def test_forms_from_files(tmp_path):
    paths = [[0], [1], [0, 0], [0, 1], [1, 0], [0, 0, 0]]
    (tmp_path / "tree.json").write_text(json.dumps(paths[::-1]))
    (tmp_path / "tree.txt").write_text("0\n1\n0,0\n0 1\n\n 1, 0\n0,0,0\n")
    wanted = ((0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0))
    for name in ("tree.json", "tree.txt"):
        assert read_shape(tmp_path / name).paths == wanted
        spec = parse_spec(f"medusa:x,tree={tmp_path / name}")
        assert shape_of(spec, 3).paths == wanted
        assert shape_of(spec, 2).paths == wanted[:5]
        assert no_shape(spec, 3) is None
        assert no_shape(spec, 4) == f"tree {tmp_path / name} has 3 levels"
    assert read_shape(tmp_path / "tree.txt").parents == [0, 0, 1, 1, 2, 3]
    assert read_shape(tmp_path / "tree.txt").siblings == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[[0], [0, 0, 1]]", "path [0, 0, 1] has no parent"),
        ("[[0], [0]]", "path [0] is empty or given twice"),
        ("[[0], 3]", "3 is no path"),
        ("[[0], [-1]]", "[-1] is no path"),
        ("[[0], [true]]", "[true] is no path"),
        ("[[0]", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("9" * 5000, "is no path"),
        ("0\nzero", "line 2: 'zero' is no path"),
        ("\n", "has no paths"),
        ("[]", "has no paths"),
    ],
)
def test_a_file_that_is_no_tree_is_refused(tmp_path, content, message):
    file = tmp_path / "tree"
    file.write_text(content)
    with pytest.raises(SpecbenchError) as raised:
        read_shape(file)
    assert message in str(raised.value)
    assert str(file) in str(raised.value)


def test_a_file_of_far_too_many_nodes_is_refused_soon(tmp_path, monkeypatch):
    """No node is compared with many others: of 60 000 that would take minutes."""
    nodes, compared = 5000, itertools.count()

    class Rank(int):
        __hash__ = int.__hash__

        def __eq__(self, other):
            assert next(compared) < 10 * nodes
            return int(self) == int(other)

    monkeypatch.setattr(_shapes, "int", Rank, raising=False)
    file = tmp_path / "tree.txt"
    file.write_text("\n".join(map(str, range(nodes))))
    with pytest.raises(SpecbenchError, match="a tree of 5001 nodes is beyond"):
        no_shape(parse_spec(f"medusa:x,tree={file}"), 1)
    assert next(compared) > 0, "ranks were counted"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SpecbenchError, match=r"cannot read tree .*gone\.txt: No such file"):
        read_shape(tmp_path / "gone.txt")


def test_a_form_is_filled_with_each_levels_best_guesses():
    target = language_model("llama")
    session = make_session(target, requests(2), gamma=2, batch_size=2)
    session.rows[1].active = True
    logits = torch.randn(2, 2, 61, generator=torch.Generator().manual_seed(0))
    draft = draft_shape(logits, best_shape(2, 6), session, 61)
    order = logits.argsort(dim=-1, descending=True)
    for index, path in enumerate(best_shape(2, 6).paths):
        assert torch.equal(draft.tokens[:, index], order[:, len(path) - 1, path[-1]])
    assert draft.lengths == [0, 6]
    assert draft.levels == [0, 2]
    narrow = draft_shape(logits[..., :3], best_shape(2, 30), session, 61)
    assert int(narrow.tokens.max()) == 2
    assert narrow.siblings == 3
    ids = torch.arange(61).flip(0)
    assert torch.equal(
        draft_shape(logits, best_shape(2, 6), session, 61, ids).tokens, 60 - draft.tokens
    )
