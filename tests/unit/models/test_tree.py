"""Trees as depths, ancestors and masks; a model's forward over them against plain forwards."""

from __future__ import annotations

import itertools

import pytest
import torch

from specbench.models.cache import RowCache
from specbench.models.tree import Tree
from tests.tiny import language_model

ROWS = [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14], [3]]
PARENTS = torch.tensor([[0, 0, 1, 1, 3, 2], [0, 1, 2, 3, 4, 5], [0, 0, 0, 0, 0, 0]])
TOKENS = torch.tensor([[1, 2, 3, 4, 5, 6, 7], [7, 8, 9, 1, 2, 3, 4], [9, 8, 7, 6, 5, 4, 3]])


def path_to(parents: list[int], node: int) -> list[int]:
    """Node numbers from the root to a node, root included."""
    path = [node]
    while node:
        node = parents[node - 1]
        path.append(node)
    return path[::-1]


def random_parents(rows: int, nodes: int, seed: int) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    columns = [torch.randint(0, index + 1, (rows,), generator=random) for index in range(nodes)]
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("nodes", [1, 2, 3, 8, 21])
def test_depths_and_ancestors(nodes):
    parents = random_parents(5, nodes, seed=nodes)
    tree = Tree.from_parents(parents)
    assert tree.ancestors.dtype == torch.bool
    for row, own in enumerate(parents.tolist()):
        for node in range(nodes + 1):
            path = path_to(own, node)
            assert tree.depths[row, node] == len(path) - 1
            assert tree.ancestors[row, node].nonzero().flatten().tolist() == path


def test_the_longest_chain_and_no_node_at_all():
    chain = Tree.from_parents(torch.arange(40)[None])
    assert chain.depths.tolist() == [list(range(41))]
    assert torch.equal(chain.ancestors[0], torch.ones(41, 41).tril().bool())
    alone = Tree.from_parents(torch.zeros(2, 0, dtype=torch.long))
    root = Tree.root(2, torch.device("cpu"))
    assert torch.equal(alone.depths, root.depths)
    assert torch.equal(alone.ancestors, root.ancestors)


def test_growing_gives_the_same_tree():
    parents = torch.tensor([[0, 0, 0, 1, 3, 3, 4, 4, 6], [0, 0, 0, 2, 2, 1, 5, 5, 5]])
    grown = Tree.root(2, torch.device("cpu"))
    for level in range(0, 9, 3):
        grown = grown.extended(parents[:, level : level + 3])
    whole = Tree.from_parents(parents)
    assert torch.equal(grown.depths, whole.depths)
    assert torch.equal(grown.ancestors, whole.ancestors)


def test_what_nodes_see_of_a_cache():
    tree = Tree.from_parents(torch.tensor([[0, 0, 1], [0, 1, 2]]))
    seen = tree.visible(torch.tensor([2, 0]), extent=7, last=2).long().tolist()
    assert seen[0] == [[1, 1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 0, 1, 0]]
    assert seen[1] == [[1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0]]


def test_positions_of_what_lies_in_a_cache():
    tree = Tree.from_parents(torch.tensor([[0, 0, 1], [0, 1, 2]]))
    places = tree.positions(torch.tensor([2, 0]), extent=6).tolist()
    assert places[0] == [0, 1, 2, 3, 3, 4]
    assert places[1][:4] == [0, 1, 2, 3]


@torch.inference_mode()
def prefilled(model, capacity: int = 20) -> tuple[RowCache, list[int]]:
    """A ragged batch; returns its cache and where each row goes on."""
    cache = model.new_cache(3, capacity)
    for row, tokens in enumerate(ROWS):
        alone = model.new_cache(1, len(tokens))
        model.prefill(tokens, alone)
        cache.restore(row, alone.snapshot(0, len(tokens)))
    return cache, [len(tokens) for tokens in ROWS]


@pytest.mark.parametrize("kind", ["llama", "gpt2", "opt", "phi", "gpt_neo", "falcon", "olmo2"])
@torch.inference_mode()
def test_every_node_gets_what_its_path_alone_would_get(kind):
    model = language_model(kind)
    cache, starts = prefilled(model)
    tree = Tree.from_parents(PARENTS)
    last = model.config.num_hidden_layers
    output = model.forward(TOKENS, cache, starts, tree=tree, hidden_layers=(0, last))
    for row, parents in enumerate(PARENTS.tolist()):
        for node in range(7):
            path = path_to(parents, node)
            text = [*ROWS[row], *TOKENS[row, path].tolist()]
            alone = model.model(torch.tensor([text]), use_cache=False, output_hidden_states=True)
            assert torch.allclose(output.logits[row, node], alone.logits[0, -1], atol=1e-5)
            for layer in (0, last):
                ours, theirs = output.hidden[layer][row, node], alone.hidden_states[layer][0, -1]
                assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("kind", ["mistral", "qwen2"])
@torch.inference_mode()
def test_windows_of_a_tree_count_positions_and_not_slots(monkeypatch, kind):
    """Node 2 is one behind the root and two slots; node 4 is too far from it to see it."""
    model = language_model(kind, sliding_window=2, use_sliding_window=True, max_window_layers=1)
    parents = [0, 0, 2, 3, 4, 1]

    def largest_gap() -> float:
        cache, starts = prefilled(model)
        tree = Tree.from_parents(torch.tensor([parents] * 3))
        logits = model.forward(TOKENS, cache, starts, tree=tree).logits
        gaps = []
        for row, node in itertools.product(range(3), range(7)):
            text = [*ROWS[row], *TOKENS[row, path_to(parents, node)].tolist()]
            alone = model.model(torch.tensor([text]), use_cache=False).logits[0, -1]
            gaps.append((logits[row, node] - alone).abs().max().item())
        return max(gaps)

    assert largest_gap() < 1e-5
    monkeypatch.setattr(Tree, "positions", lambda tree, roots, extent: torch.arange(extent)[None])
    assert largest_gap() > 1e-2


@torch.inference_mode()
def test_a_tree_grown_level_by_level_is_the_tree_at_once():
    model = language_model("llama")
    parents = torch.tensor([[0, 0, 1, 1, 4, 3], [0, 0, 2, 1, 3, 3], [0, 0, 1, 2, 4, 4]])
    cache, starts = prefilled(model)
    whole = model.forward(TOKENS, cache, starts, tree=Tree.from_parents(parents)).logits
    cache, starts = prefilled(model)
    tree = Tree.root(3, torch.device("cpu"))
    parts = [model.forward(TOKENS[:, :1], cache, starts).logits]  # the root is an ordinary token
    for first in (1, 3, 5):
        tree = tree.extended(parents[:, first - 1 : first + 1])
        at = [start + first for start in starts]
        parts.append(model.forward(TOKENS[:, first : first + 2], cache, at, tree=tree).logits)
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-5)


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@torch.inference_mode()
def test_a_chain_written_as_a_tree_is_the_chain_to_the_last_bit(kind):
    model = language_model(kind)
    cache, starts = prefilled(model)
    chain = model.forward(TOKENS, cache, starts)
    keys, values = [k.clone() for k in cache.keys], [v.clone() for v in cache.values]
    cache, starts = prefilled(model)
    tree = Tree.from_parents(torch.arange(6).expand(3, -1))
    assert torch.equal(model.forward(TOKENS, cache, starts, tree=tree).logits, chain.logits)
    assert all(map(torch.equal, keys, cache.keys))
    assert all(map(torch.equal, values, cache.values))


@torch.inference_mode()
def test_a_kept_path_lies_as_if_it_had_been_read_alone():
    model = language_model("llama")
    cache, starts = prefilled(model)
    model.forward(TOKENS, cache, starts, tree=Tree.from_parents(PARENTS))
    paths = torch.tensor([[0, 1, 3, 5], [0, 1, 1, 1], [0, 6, 6, 6]])
    cache.keep_path(starts, paths)
    for row, count in enumerate((4, 2, 2)):
        text = [*ROWS[row], *TOKENS[row, paths[row, :count]].tolist()]
        fresh = model.new_cache(1, len(text))
        model.prefill(text, fresh)
        for ours, theirs in zip(
            (*cache.keys, *cache.values), (*fresh.keys, *fresh.values), strict=True
        ):
            assert torch.allclose(ours[row, :, : len(text)], theirs[0], atol=1e-5)
