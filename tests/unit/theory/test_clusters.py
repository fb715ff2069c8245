from __future__ import annotations

import numpy as np

from specbench.theory.clusters import cluster_sums


def test_owners_point_at_keys_and_those_without_values_are_left_out() -> None:
    keys, owners = ["b", "a", "c", "b"], np.array([3, 0, 1, 1])
    names, (sums, counts) = cluster_sums(keys, [1.0, 2.0, 4.0, 8.0], np.ones(4), owners=owners)
    assert names.tolist() == ["a", "b"]
    assert sums.tolist() == [12.0, 3.0]
    assert counts.tolist() == [2.0, 2.0]
    spelt_out = cluster_sums([keys[owner] for owner in owners], [1.0, 2.0, 4.0, 8.0])
    assert spelt_out[0].tolist() == names.tolist()
    assert spelt_out[1][0].tolist() == sums.tolist()
