from __future__ import annotations

import math

import pytest
import torch

from specbench.sampling.moments import moments


def test_of_even_and_certain_distributions() -> None:
    found = moments(torch.tensor([[0.25] * 4, [0.0, 1.0, 0.0, 0.0]]))
    assert found.entropy.tolist() == pytest.approx([math.log(4), 0.0])
    assert found.second_moment.tolist() == pytest.approx([math.log(4) ** 2, 0.0])
    assert found.max_p.tolist() == pytest.approx([0.25, 1.0])


def test_by_hand() -> None:
    p = [0.7, 0.2, 0.1]
    found = moments(torch.tensor(p))
    assert float(found.entropy) == pytest.approx(-sum(x * math.log(x) for x in p))
    assert float(found.second_moment) == pytest.approx(sum(x * math.log(x) ** 2 for x in p))
    assert float(found.max_p) == pytest.approx(0.7)


def test_what_rounding_adds_is_no_negative_entropy() -> None:
    found = moments(torch.tensor([1.0 + 1e-7, 0.0]))
    assert (float(found.entropy), float(found.max_p)) == (0.0, 1.0)
