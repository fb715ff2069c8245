from __future__ import annotations

import numpy as np
import pytest

from specbench.theory import quantiles
from specbench.theory.scatter import Scatter


@pytest.mark.parametrize("told_by", [1, 2, 3])
@pytest.mark.parametrize("cells", [0.3, 1.0, 10.0])
def test_intervals_cover_whatever_differs_most(told_by: int, cells: float) -> None:
    """Welch's degrees of freedom alone: 88% where one tells that cells differ ten times more."""
    generator, count = np.random.default_rng(0), 4000
    own = generator.chisquare(23, count) / 23
    added = cells * generator.chisquare(told_by, count) / told_by
    errors = np.abs(generator.normal(size=count)) * np.sqrt(1.0 + cells)
    reach = [
        Scatter(variance, told_by).reach(alone, 23.0, 1.0)
        for variance, alone in zip(added.tolist(), own.tolist(), strict=True)
    ]
    assert 0.94 < float((errors < reach).mean()) < 0.99


def test_what_differs_more_makes_no_interval_narrower() -> None:
    cells = Scatter(0.05**2, 1.0)
    reach = [cells.reach(own**2, 23.0, 1.5) for own in (0.0, 0.01, 0.03, 0.1, 0.3)]
    assert reach == sorted(reach)
    assert reach[0] == pytest.approx(quantiles.student_t(0.975, 1.0) * 0.05 * np.sqrt(1.5))


def test_without_cells_it_is_the_clusters_alone() -> None:
    assert Scatter(0.0, 1.0).reach(4.0, 5.0, 1.0) == pytest.approx(
        2.0 * quantiles.student_t(0.975, 5.0)
    )
