"""The rule for trees on examples with an exact answer, on random trees, and against the chain's."""

from __future__ import annotations

import itertools

import pytest
import torch

from specbench.models.tree import Tree
from specbench.sampling.tree import TreeVerdict, verify_tree_greedy, verify_tree_sampled
from specbench.sampling.verify import verify_greedy, verify_sampled
from tests.lossless import BROKEN, SOUND
from tests.trees import VOCAB, World, draw_tokens, random_parents, tree_p_value, verify

P = torch.tensor([0.5, 0.2, 0.2, 0.1])
LAST = 1 - 2.0**-53
"""The largest uniform."""


def grid(points: int) -> torch.Tensor:
    return (torch.arange(points, dtype=torch.float64) + 0.5) / points


def siblings(tokens: list[int], accept: list[float], residual: float = 0.5, q=None) -> TreeVerdict:
    """One row, one level: P judges some children of the root, each with its own uniform."""
    count = len(tokens)
    return verify_tree_sampled(
        P.expand(1, count + 1, 4),
        torch.tensor([tokens]),
        torch.tensor([count]),
        torch.zeros(1, count, dtype=torch.long),
        torch.tensor([[0] + [1] * count]),
        None if q is None else torch.tensor(q).expand(1, count, 4),
        torch.tensor([[accept]], dtype=torch.float64),
        torch.full((1, 2), residual, dtype=torch.float64),
    )


def test_a_sibling_is_accepted_with_what_is_left_of_p():
    """After token 0 (p = 0.5) was rejected, token 1 has 0.2 / 0.5."""
    assert siblings([0, 1], [0.49, LAST]).path.tolist() == [[0, 1]]
    assert siblings([0, 1], [0.51, 0.39]).path.tolist() == [[0, 2]]
    rejected = siblings([0, 1], [0.51, 0.41])
    assert rejected.num_accepted.tolist() == [0]
    assert rejected.num_evaluated.tolist() == [1]
    assert rejected.overlap.tolist() == [[pytest.approx(0.7)]]
    assert siblings([0, 1], [0.51, 0.41], 0.66).next_token.tolist() == [2]
    assert siblings([0, 1], [0.51, 0.41], 0.67).next_token.tolist() == [3]


def test_when_the_children_cover_p_one_is_accepted():
    verdict = siblings([3, 1, 0, 2], [LAST] * 4)
    assert verdict.path.tolist() == [[0, 4]]
    assert verdict.overlap.tolist() == [[pytest.approx(1.0)]]


def test_the_softmax_would_not_do_for_chosen_children():
    """Averaged over a grid of uniforms: chosen children judged as if they had been drawn."""
    q = torch.tensor([0.4, 0.3, 0.2, 0.1])
    axes = torch.meshgrid(grid(40), grid(40), grid(24), indexing="ij")
    first, second, last = (axis.flatten() for axis in axes)
    rows = len(first)

    def distance(given: torch.Tensor | None) -> float:
        verdict = verify_tree_sampled(
            P.expand(rows, 3, 4),
            torch.tensor([[0, 1]]).expand(rows, -1),
            torch.full((rows,), 2),
            torch.zeros(rows, 2, dtype=torch.long),
            torch.tensor([[0, 1, 1]]).expand(rows, -1),
            given,
            torch.stack([first, second], dim=1)[:, None],
            last[:, None].expand(-1, 2),
        )
        node = verdict.path[:, 1]
        token = torch.where(node > 0, node - 1, verdict.next_token)
        output = torch.bincount(token, minlength=4) / rows
        return (output - P).abs().sum().item() / 2

    assert distance(None) < 1e-3
    assert distance(q.expand(rows, 2, 4)) > 0.29


@pytest.mark.parametrize("drawn", [False, True], ids=["chosen", "drawn"])
@pytest.mark.parametrize("seed", range(3))
def test_random_trees_leave_the_targets_distribution(seed, drawn):
    assert tree_p_value(seed, drawn=drawn) > SOUND


def test_the_softmax_as_q_of_chosen_children_is_seen():
    assert tree_p_value(0, drawn=False, q="softmax", rows=20_000) < BROKEN


def naive_greedy(target_ids, tokens, parents, length):
    """Follow the target's choices from the root."""
    path = [0]
    while True:
        wanted = target_ids[path[-1]]
        found = [
            index + 1
            for index in range(length)
            if parents[index] == path[-1] and tokens[index] == wanted
        ]
        if not found:
            children = any(parents[index] == path[-1] for index in range(length))
            return path, wanted, len(path) - 1 + children
        path.append(found[0])


def test_greedy_follows_the_targets_choices():
    random = torch.Generator().manual_seed(3)
    rows, nodes = 400, 9
    tokens = torch.randint(0, 3, (rows, nodes), generator=random)
    choices = torch.randint(0, 3, (rows, nodes + 1), generator=random)
    lengths = torch.randint(0, nodes + 1, (rows,), generator=random)
    parents = random_parents(World(0), rows, nodes, levels=4, siblings=3)
    verdict = verify_tree_greedy(choices, tokens, lengths, parents, 4)
    for row in range(rows):
        path, next_token, evaluated = naive_greedy(
            choices[row].tolist(), tokens[row].tolist(), parents[row].tolist(), int(lengths[row])
        )
        accepted = len(path) - 1
        assert verdict.num_accepted[row] == accepted
        assert verdict.path[row].tolist() == path + path[-1:] * (4 - accepted)
        assert verdict.next_token[row] == next_token
        assert verdict.num_evaluated[row] == evaluated
        chances = verdict.overlap[row, :evaluated].tolist()
        assert chances == [1.0] * accepted + [0.0] * (evaluated - accepted)


def test_the_counts_of_a_sampled_tree():
    """A path's nodes are each other's children; ending at a leaf evaluates no further level."""
    world = World(5)
    parents = random_parents(world, 2000, 7, levels=3, siblings=3)
    lengths = (world.uniform(2000) * 8).long()
    draft = draw_tokens(world, parents, lengths, drawn=False)
    verdict = verify(world, draft, None)
    leaf_ends = 0
    for row in range(2000):
        accepted, evaluated = int(verdict.num_accepted[row]), int(verdict.num_evaluated[row])
        path = verdict.path[row, : accepted + 1].tolist()
        assert path[-1] <= lengths[row]
        assert all(parents[row, b - 1] == a for a, b in itertools.pairwise(path))
        children = [i for i in range(int(lengths[row])) if parents[row, i] == path[-1]]
        assert evaluated == accepted + bool(children)
        leaf_ends += accepted > 0 and not children
    assert leaf_ends > 100


def test_the_overlap_is_the_chance_of_acceptance():
    """Accepted minus overlap, over evaluated levels, averages to 0."""
    for drawn in (False, True):
        world = World(6)
        parents = random_parents(world, 40_000, 6, levels=2, siblings=3)
        lengths = torch.full((40_000,), 6)
        draft = draw_tokens(world, parents, lengths, drawn=drawn)
        verdict = verify(world, draft, draft.q if drawn else None)
        level = torch.arange(2)
        evaluated = level < verdict.num_evaluated[:, None]
        accepted = level < verdict.num_accepted[:, None]
        excess = (accepted.double() - verdict.overlap)[evaluated]
        assert abs(excess.mean()) < 4 * excess.std() / len(excess) ** 0.5
        assert ((verdict.overlap >= 0) & (verdict.overlap <= 1)).all()


@pytest.mark.parametrize("drawn", [False, True], ids=["one-hot", "sampled"])
def test_a_chain_as_a_tree_is_judged_as_the_chain(drawn):
    world = World(9)
    rows, nodes = 3000, 4
    parents = torch.arange(nodes).expand(rows, -1)
    lengths = (world.uniform(rows) * (nodes + 1)).long()
    draft = draw_tokens(world, parents[:, :2], lengths, drawn=drawn)
    p, q = world.p[draft.prefixes], draft.q if drawn else None
    lengths = lengths.clamp(max=2)
    accept, residual = world.uniform(rows, 2), world.uniform(rows, 3)
    chain = verify_sampled(p, draft.tokens, lengths, q, accept, residual)
    depths = Tree.from_parents(draft.parents).depths
    tree = verify_tree_sampled(
        p, draft.tokens, lengths, draft.parents, depths, q, accept[..., None], residual
    )
    assert 0 < chain.num_accepted.double().mean() < 2
    assert torch.equal(tree.num_accepted, chain.num_accepted)
    assert torch.equal(tree.next_token, chain.next_token)
    if chain.overlap is not None:
        evaluated = torch.arange(2) < tree.num_evaluated[:, None]
        assert torch.allclose(tree.overlap.float()[evaluated], chain.overlap[evaluated])
    greedy = verify_greedy(p.argmax(-1), draft.tokens, lengths)
    tree = verify_tree_greedy(p.argmax(-1), draft.tokens, lengths, draft.parents, 2)
    assert torch.equal(tree.num_accepted, greedy.num_accepted)
    assert torch.equal(tree.next_token, greedy.next_token)


def test_padding_is_never_accepted():
    """Padding is a child of the root by its numbers, and carries the target's favourite token."""
    p = torch.eye(VOCAB)[0].expand(1, 3, VOCAB)
    for length, accepted in ((0, 0), (1, 0), (2, 1)):
        verdict = verify_tree_sampled(
            p,
            torch.tensor([[3, 0]]),
            torch.tensor([length]),
            torch.zeros(1, 2, dtype=torch.long),
            torch.tensor([[0, 1, 1]]),
            None,
            torch.full((1, 1, 2), 0.5, dtype=torch.float64),
            torch.full((1, 2), 0.5, dtype=torch.float64),
        )
        assert verdict.num_accepted.tolist() == [accepted]
        assert verdict.num_evaluated.tolist() == [int(length > 0)]
        assert verdict.next_token.tolist() == [0]


def test_a_child_outside_the_support_of_q_is_not_accepted():
    """q has two tokens; a third child can't have been drawn from it, whatever p says."""
    q = [0.6, 0.4, 0.0, 0.0]
    verdict = siblings([0, 1, 2], [LAST, LAST, 0.0], q=q)
    assert verdict.num_accepted.tolist() == [0]
