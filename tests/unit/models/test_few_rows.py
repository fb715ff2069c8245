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
    plain, swapped = dict.fromkeys((1, 2), 2.0), dict.fromkeys(range(2, MOST_ROWS + 1), 1.0)
    monkeypatch.setattr(few_rows, "_time_both", lambda weights: (plain, swapped))


@pytest.mark.usefixtures("everything_is_faster")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (3, 5), (4, 1), (1, MOST_ROWS), (2, 40)])
def test_the_product_is_the_same_and_contiguous(bias: bool, shape: tuple[int, int]):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(24, 56, bias=bias))
    fast = copy.deepcopy(plain)
    assert use_fast_order(fast) == {rows: max(rows, 2) for rows in range(1, MOST_ROWS + 1)}
    inputs = torch.randn(*shape, 24)
    output = fast(inputs)
    assert type(fast[0]) is FewRowsLinear
    assert output.is_contiguous()
    torch.testing.assert_close(output, plain(inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "columns"), [(1, 2), (3, 4), (5, 16), (16, 16)])
def test_rows_of_zeros_change_nothing(rows: int, columns: int):
    layer = nn.Linear(24, 56)
    layer.__class__, layer.columns = FewRowsLinear, {rows: columns}
    inputs = torch.randn(rows, 24)
    expected = nn.functional.linear(inputs, layer.weight, layer.bias)
    torch.testing.assert_close(layer(inputs), expected, rtol=1e-5, atol=1e-5)


def test_a_count_of_rows_is_swapped_only_where_it_is_clearly_faster(
    monkeypatch: pytest.MonkeyPatch,
):
    plain = {1: 1.0, 2: 1.2, 3: 1.05, 5: 3.0, 9: 1.0, 16: 1.0}
    swapped = dict.fromkeys(range(2, MOST_ROWS + 1), 1.0) | {16: 0.8}
    monkeypatch.setattr(few_rows, "_time_both", lambda weights: (plain, swapped))
    assert use_fast_order(nn.Sequential(nn.Linear(8, 8))) == dict.fromkeys(range(1, 17), 16)
    swapped[16] = 1.0
    expected = {2: 2, 5: 5, 6: 6, 7: 7, 8: 8}
    assert use_fast_order(nn.Sequential(nn.Linear(8, 8))) == expected


def test_rows_are_filled_up_to_a_count_that_is_clearly_faster(monkeypatch: pytest.MonkeyPatch):
    plain = dict.fromkeys((1, 3), 9.0)
    swapped = {count: float(count) for count in range(2, MOST_ROWS + 1)} | {3: 4.5, 7: 8.1}
    monkeypatch.setattr(few_rows, "_time_both", lambda weights: (plain, swapped))
    chosen = use_fast_order(nn.Sequential(nn.Linear(8, 8)))
    assert chosen == {1: 2, 2: 2, 3: 4, 4: 4, 5: 5, 6: 6, 7: 7, 8: 8}


@pytest.mark.usefixtures("everything_is_faster")
def test_other_dtypes_and_layers_stay_as_they_are():
    half = nn.Sequential(nn.Linear(8, 8)).bfloat16()
    assert use_fast_order(half) == {}
    assert type(half[0]) is nn.Linear
    assert use_fast_order(nn.Sequential(nn.LayerNorm(8))) == {}


def test_a_real_measurement_gives_rows_within_bounds():
    rows = use_fast_order(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 128)))
    assert all(1 <= count <= columns <= MOST_ROWS for count, columns in rows.items())
