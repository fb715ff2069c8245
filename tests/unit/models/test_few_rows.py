"""Linear layers in the other order: the same numbers, only where measured to be faster."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from specbench.models import few_rows
from specbench.models.few_rows import MOST_ROWS, FewRowsLinear, use_fast_order


@pytest.fixture
def everything_is_faster(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(few_rows, "_seconds", lambda first, second, weights: (2.0, 1.0))


@pytest.mark.usefixtures("everything_is_faster")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 5), (4, 1), (1, MOST_ROWS), (2, 40)])
def test_the_product_is_the_same_and_contiguous(bias: bool, shape: tuple[int, int]):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(24, 56, bias=bias))
    fast = copy.deepcopy(plain)
    assert use_fast_order(fast) == list(range(1, MOST_ROWS + 1))
    inputs = torch.randn(*shape, 24)
    output = fast(inputs)
    assert type(fast[0]) is FewRowsLinear
    assert output.is_contiguous()
    torch.testing.assert_close(output, plain(inputs), rtol=1e-5, atol=1e-5)


def test_a_count_of_rows_is_swapped_only_where_it_is_clearly_faster(
    monkeypatch: pytest.MonkeyPatch,
):
    answers = iter([(1.0, 1.0), (1.2, 1.0), (1.05, 1.0), (3.0, 1.0), (1.0, 2.0), (1.0, 0.5)])
    monkeypatch.setattr(few_rows, "_seconds", lambda first, second, weights: next(answers))
    model = nn.Sequential(nn.Linear(8, 8))
    assert use_fast_order(model) == [2, 5, 6, 7, 8, 16]


@pytest.mark.usefixtures("everything_is_faster")
def test_other_dtypes_and_layers_stay_as_they_are():
    half = nn.Sequential(nn.Linear(8, 8)).bfloat16()
    assert use_fast_order(half) == []
    assert type(half[0]) is nn.Linear
    assert use_fast_order(nn.Sequential(nn.LayerNorm(8))) == []


def test_a_real_measurement_gives_rows_within_bounds():
    rows = use_fast_order(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 128)))
    assert set(rows) <= set(range(1, MOST_ROWS + 1))
