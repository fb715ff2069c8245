"""The accept rule on examples small enough to know the exact answer.

The numbers are such that every threshold lies between the points of a grid of uniforms, so that
averaging over the grid gives the output distribution exactly, not up to chance.
"""

from __future__ import annotations

import pytest
import torch

from specbench.sampling.verify import overlap, verify_greedy, verify_sampled
from specbench.sampling.warp import sample

P = torch.tensor([0.5, 0.2, 0.2, 0.1])
LAST = 1 - 2.0**-53
"""The largest uniform."""


def grid(points: int) -> torch.Tensor:
    return (torch.arange(points, dtype=torch.float64) + 0.5) / points


def output_distribution(q: torch.Tensor | None, drafted: int, num_accept: int, num_residual: int):
    """Distribution of the first committed token given the drafted one, and the acceptance rate."""
    accept, residual = torch.meshgrid(grid(num_accept), grid(num_residual), indexing="ij")
    rows = accept.numel()
    verdict = verify_sampled(
        P.expand(rows, 2, 4),
        torch.full((rows, 1), drafted),
        torch.ones(rows, dtype=torch.long),
        None if q is None else q.expand(rows, 1, 4),
        accept.reshape(rows, 1),
        residual.reshape(rows, 1).expand(rows, 2),
    )
    accepted = verdict.num_accepted
    first = torch.where(accepted == 1, drafted, verdict.next_token)
    return torch.bincount(first, minlength=4) / rows, accepted.double().mean().item()


@pytest.mark.parametrize(
    "q", [[0.25, 0.25, 0.25, 0.25], [0.1, 0.1, 0.4, 0.4], [0.8, 0.0, 0.0, 0.2]]
)
def test_output_is_distributed_as_p_whatever_q_is(q):
    q = torch.tensor(q)
    output, acceptance = torch.zeros(4), 0.0
    for drafted in range(4):
        found, accepted = output_distribution(q, drafted, 40, 40)
        output += q[drafted] * found
        acceptance += q[drafted].item() * accepted
    assert torch.allclose(output, P, atol=1e-6)
    assert acceptance == pytest.approx(torch.minimum(P, q).sum().item())


@pytest.mark.parametrize("drafted", range(4))
def test_a_one_hot_draft_is_accepted_with_p_and_leaves_p(drafted):
    output, acceptance = output_distribution(None, drafted, 10, 360)
    assert torch.allclose(output, P, atol=1e-6)
    assert acceptance == pytest.approx(P[drafted].item())


def test_the_residual_of_a_rejection():
    """p - q = .4, .1, -.2, -.3: the correction is token 0 four times out of five, never 2 or 3."""
    q = torch.tensor([0.1, 0.1, 0.4, 0.4])
    verdict = verify_sampled(
        P.expand(10, 2, 4),
        torch.full((10, 1), 3),
        torch.ones(10, dtype=torch.long),
        q.expand(10, 1, 4),
        torch.full((10, 1), 0.9),
        grid(10)[:, None].expand(10, 2),
    )
    assert verdict.num_accepted.tolist() == [0] * 10
    assert torch.bincount(verdict.next_token, minlength=4).tolist() == [8, 2, 0, 0]


def test_one_uniform_for_draft_and_acceptance_would_bias():
    """Why streams are apart: a shared uniform never lets the last token through."""
    q, uniforms = torch.tensor([0.4, 0.3, 0.1, 0.2]), grid(1000)
    drafted = sample(q.expand(1000, 4), uniforms)
    verdict = verify_sampled(
        P.expand(1000, 2, 4),
        drafted[:, None],
        torch.ones(1000, dtype=torch.long),
        q.expand(1000, 1, 4),
        uniforms[:, None],
        torch.rand(1000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0)),
    )
    first = torch.where(verdict.num_accepted == 1, drafted, verdict.next_token)
    assert torch.bincount(first, minlength=4)[3] == 0


def test_rows_with_drafts_of_different_lengths():
    """Padding is never accepted; each row's next token comes from its own position."""
    sure = torch.eye(5)[[1, 2, 3]]  # the target is sure of 1, then 2, then 3
    p = sure.expand(4, 3, 5)
    tokens = torch.tensor([[1, 2], [1, 2], [1, 2], [4, 2]])
    lengths = torch.tensor([0, 1, 2, 2])
    uniforms = torch.full((4, 3), 0.5, dtype=torch.float64)
    verdict = verify_sampled(p, tokens, lengths, None, uniforms[:, :2], uniforms)
    assert verdict.num_accepted.tolist() == [0, 1, 2, 0]
    assert verdict.next_token.tolist() == [1, 2, 3, 1]
    greedy = verify_greedy(p.argmax(-1), tokens, lengths)
    assert greedy.num_accepted.tolist() == [0, 1, 2, 0]
    assert greedy.next_token.tolist() == [1, 2, 3, 1]


def test_a_row_that_drafted_nothing_samples_from_p():
    """Not from a residual of its padding: all of p's tokens come out, in p's proportions."""
    for q in (None, torch.full((10, 1, 4), 0.25)):
        verdict = verify_sampled(
            P.expand(10, 2, 4),
            torch.zeros(10, 1, dtype=torch.long),
            torch.zeros(10, dtype=torch.long),
            q,
            torch.zeros(10, 1),
            grid(10)[:, None].expand(10, 2),
        )
        assert torch.bincount(verdict.next_token, minlength=4).tolist() == [5, 2, 2, 1]


def test_no_row_drafted_anything():
    tokens = torch.zeros(10, 0, dtype=torch.long)
    none = torch.zeros(10, dtype=torch.long)
    for q in (None, torch.zeros(10, 0, 4)):
        verdict = verify_sampled(
            P.expand(10, 1, 4), tokens, none, q, torch.zeros(10, 0), grid(10)[:, None]
        )
        assert verdict.num_accepted.tolist() == [0] * 10
        assert torch.bincount(verdict.next_token, minlength=4).tolist() == [5, 2, 2, 1]
    assert verify_greedy(torch.full((10, 1), 7), tokens, none).next_token.tolist() == [7] * 10


def test_the_bonus_token_comes_from_the_last_position():
    p = torch.stack([torch.tensor([0.0, 1.0, 0.0, 0.0]), P]).expand(10, 2, 4)
    verdict = verify_sampled(
        p,
        torch.ones(10, 1, dtype=torch.long),
        torch.ones(10, dtype=torch.long),
        torch.tensor([0.0, 1.0, 0.0, 0.0]).expand(10, 1, 4),
        torch.full((10, 1), LAST, dtype=torch.float64),
        torch.stack([torch.zeros(10), grid(10)], dim=1),
    )
    assert verdict.num_accepted.tolist() == [1] * 10
    assert torch.bincount(verdict.next_token, minlength=4).tolist() == [5, 2, 2, 1]


def one(p, token, q, accept, residual=0.5):
    p, q = torch.tensor(p), None if q is None else torch.tensor(q)[None, None]
    return verify_sampled(
        p.expand(1, 2, -1),
        torch.tensor([[token]]),
        torch.tensor([1]),
        q,
        torch.tensor([[accept]], dtype=torch.float64),
        torch.full((1, 2), residual, dtype=torch.float64),
    )


def test_a_residual_that_sums_to_zero_falls_back_to_p():
    """Rounding can leave p below q everywhere."""
    p, q = [0.5, 0.4999, 0.0], [0.5, 0.5001, 0.0]
    for residual, expected in ((0.1, 0), (0.9, 1), (LAST, 1)):
        verdict = one(p, 1, q, LAST, residual)
        assert verdict.num_accepted.item() == 0
        assert verdict.next_token.item() == expected


def test_a_one_hot_draft_of_a_sure_target():
    assert one([0.0, 1.0], 1, None, LAST).num_accepted.item() == 1
    wrong = one([0.0, 1.0], 0, None, 0.0)
    assert wrong.num_accepted.item() == 0
    assert wrong.next_token.item() == 1


@pytest.mark.parametrize("q", [None, [0.5, 0.5]])
def test_an_impossible_token_is_rejected_even_by_the_smallest_uniform(q):
    verdict = one([0.0, 1.0], 0, q, 0.0)
    assert verdict.num_accepted.item() == 0
    assert verdict.next_token.item() == 1


def test_the_smallest_uniform_accepts_what_is_possible_at_all():
    assert one([1e-30, 1.0], 0, [1.0, 0.0], 0.0).num_accepted.item() == 1


def test_equal_distributions_accept_under_the_largest_uniform():
    for probability in (0.1, 0.3, 1e-7, 1 / 3):
        p = [probability, 1 - probability]
        assert one(p, 0, p, LAST).num_accepted.item() == 1


def test_overlap_per_kind_of_draft():
    q = [0.1, 0.9]
    assert one([0.4, 0.6], 0, None, 0.5).overlap.tolist() == [[pytest.approx(0.4)]]
    assert one([0.4, 0.6], 0, q, 0.5).overlap is None
    assert overlap(torch.tensor([0.4, 0.6]), torch.tensor(q)).item() == pytest.approx(0.7)


def test_greedy_accepts_a_prefix_only():
    choices = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]])
    tokens = torch.tensor([[1, 9, 3], [1, 2, 3], [9, 2, 3]])
    verdict = verify_greedy(choices, tokens, torch.tensor([3, 3, 3]))
    assert verdict.num_accepted.tolist() == [1, 3, 0]
    assert verdict.next_token.tolist() == [2, 4, 1]
    assert verdict.overlap.tolist() == [[1, 0, 1], [1, 1, 1], [0, 1, 1]]
