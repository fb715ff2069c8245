from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from specbench.theory.bootstrap import expanded_ends


def test_percentiles_are_moved_out_for_few_clusters() -> None:
    values = stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    for clusters in (6, 24, 1000):
        reach = math.sqrt(clusters / (clusters - 1)) * stats.t.ppf(0.975, clusters - 1)
        assert expanded_ends(values, clusters, 0.95) == pytest.approx((-reach, reach), rel=0.01)


def test_ends_may_lie_beyond_everything() -> None:
    values = np.concatenate([np.linspace(4.0, 8.0, 900), np.full(100, np.inf)])
    low, high = expanded_ends(values, 24, 0.95)
    assert 4.0 < low < 4.2
    assert high == math.inf
