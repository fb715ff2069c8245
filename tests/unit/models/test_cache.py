"""The cache's bookkeeping, without any model."""

from __future__ import annotations

import pytest
import torch

from specbench.models.cache import RowCache

CPU = torch.device("cpu")


def states(rows: int, width: int, value: float) -> torch.Tensor:
    """[B, H = 2, S, D = 3]; the number tells which write it was."""
    return torch.full((rows, 2, width, 3), float(value))


def written(cache: RowCache, row: int) -> list[float]:
    return cache.keys[0][row, 0, :, 0].tolist()


def test_tokens_go_where_each_row_starts():
    cache = RowCache(2, 6)
    assert cache.expect([0, 0], 3, CPU) == 3
    keys, values = cache.update(states(2, 3, 1), states(2, 3, -1), 0)
    assert keys.shape == values.shape == (2, 2, 3, 3)
    assert cache.expect([3, 1], 2, CPU) == 5
    keys, values = cache.update(states(2, 2, 2), states(2, 2, -2), 0)
    assert keys.shape == (2, 2, 5, 3)
    assert written(cache, 0) == [1, 1, 1, 2, 2, 0]
    assert written(cache, 1) == [1, 2, 2, 0, 0, 0]
    assert torch.equal(cache.values[0], -cache.keys[0])
    assert cache.get_seq_length() == 5


def test_rolling_back_is_starting_earlier():
    cache = RowCache(1, 6)
    cache.expect([0], 5, CPU)
    cache.update(states(1, 5, 1), states(1, 5, 1), 0)
    assert cache.expect([2], 2, CPU) == 4
    keys, _ = cache.update(states(1, 2, 2), states(1, 2, 2), 0)
    assert keys[0, 0, :, 0].tolist() == [1, 1, 2, 2]


def test_different_values_per_row_and_position_stay_apart():
    cache = RowCache(3, 8)
    fresh = torch.arange(3 * 2 * 2 * 3, dtype=torch.float32).reshape(3, 2, 2, 3)
    cache.expect([0, 4, 1], 2, CPU)
    keys, values = cache.update(fresh, fresh + 100, 0)
    for row, start in enumerate([0, 4, 1]):
        assert torch.equal(keys[row, :, start : start + 2], fresh[row])
        assert torch.equal(values[row, :, start : start + 2], fresh[row] + 100)


def test_keys_and_values_may_differ_in_width():
    cache = RowCache(1, 4)
    cache.expect([0], 2, CPU)
    keys, values = cache.update(torch.ones(1, 2, 2, 3), torch.ones(1, 2, 2, 5), 0)
    assert (keys.shape[-1], values.shape[-1]) == (3, 5)


def test_a_snapshot_is_a_copy_and_fits_any_row():
    cache = RowCache(1, 3)
    cache.expect([0], 3, CPU)
    for layer in range(2):
        cache.update(states(1, 3, layer + 1), states(1, 3, layer + 5), layer)
    snapshot = cache.snapshot(0, 2)
    cache.keys[0].zero_()
    other = RowCache(3, 7)
    other.restore(1, snapshot)
    assert written(other, 1) == [1, 1, 0, 0, 0, 0, 0]
    assert written(other, 0) == written(other, 2) == [0] * 7
    assert other.values[1][1, 0, :, 0].tolist() == [6, 6, 0, 0, 0, 0, 0]
    assert snapshot.num_bytes == 2 * 2 * (2 * 2 * 3) * 4, "K and V of 2 layers, float32"


def test_there_is_an_end():
    cache = RowCache(2, 4)
    with pytest.raises(ValueError, match="slot 4 is beyond the cache's 4 slots"):
        cache.expect([0, 3], 2, CPU)
    assert cache.expect([0, 2], 2, CPU) == 4
