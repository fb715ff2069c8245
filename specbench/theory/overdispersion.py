"""How much alpha differs between prompts, beyond what their few rounds make of it.

Each cluster's alpha is accepted / evaluated; its sampling variance comes from its own rounds, whose
accepted counts can be told from the counts by position. What variance is left between clusters is
estimated by moments, weighted by evaluated tokens: DerSimonian & Laird 1986, "Meta-Analysis in
Clinical Trials", and Rao, Kaplan & Cochran 1981 for ratios with weights of one's own.

Each gamma is taken apart and only the variances are pooled, since gammas may replay the same text:
as one sample their rounds would be counted several times over, and noise would pass for a
difference. Rounds of one prompt that resemble each other in turn (easy and hard passages) count as
a difference between prompts: one can't tell without more text of the same prompt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.theory import quantiles
from specbench.theory.acceptance import Counts, Sample
from specbench.theory.clusters import Numbers

MIN_CLUSTERS = 6
"""A spread between fewer clusters than this is not told."""


@dataclass(frozen=True)
class Overdispersion:
    """Standard deviation of alpha between clusters.

    Attributes:
        sd: estimate; 0 where clusters differ no more than their rounds explain.
        low, high: 95% interval; low is 0 where a difference is not shown.
        clusters: of at least two rounds.
    """

    sd: float
    low: float
    high: float
    clusters: int


def overdispersion(sample: Sample) -> Overdispersion | None:
    """How much alpha varies between clusters more than rounds alone explain.

    Args:
        sample: counts of one group, all its gammas.

    Returns:
        None where fewer than MIN_CLUSTERS clusters have two rounds.
    """
    parts = [_columns(counts) for counts in sample.values()]
    clusters = {name for names, _ in parts for name in names.tolist()}
    if len(clusters) < MIN_CLUSTERS:
        return None
    between = noise = weight = independent = 0.0
    for names, columns in parts:
        if len(names) >= 2:
            squares, yes, size, size_squared, own_noise, scaled_noise = columns.sum(axis=0)
            between += squares - yes**2 / size
            noise += own_noise - scaled_noise / size
            weight += size - size_squared / size
            independent = max(independent, float(size**2 / size_squared))
    variance, noise = between / weight, noise / weight
    # As if clusters' alphas were normal: (clusters - 1) x variance is chi-square.
    freedom = independent - 1.0
    low, high = (
        variance * freedom / float(quantiles.chi_square(0.5 + way * 0.95 / 2, freedom)) - noise
        for way in (1, -1)
    )
    sd, low, high = (math.sqrt(max(value, 0.0)) for value in (variance - noise, low, high))
    return Overdispersion(sd, low, high, len(clusters))


def _columns(counts: Counts) -> tuple[NDArray[np.str_], Numbers]:
    """Clusters with at least two rounds: their names, and what is added up over them.

    The columns are A^2 / E, A, E, E^2, E s^2 and E^2 s^2 of accepted A, evaluated E and the
    sampling variance s^2 of A / E as a ratio of sums over rounds.
    """
    kept = counts.rows(counts.evaluated[:, 0] >= 2.0)
    rounds = kept.evaluated[:, 0]
    yes, size = kept.accepted.sum(axis=1), kept.evaluated.sum(axis=1)
    alpha = (yes / size)[:, None]
    position = np.arange(1, kept.accepted.shape[1] + 1)
    # Rounds rejected at position i accepted i - 1 of i; those that ended there accepted all i.
    rejected = kept.evaluated - kept.accepted
    reached = np.pad(kept.evaluated[:, 1:], ((0, 0), (0, 1)))
    ended = kept.accepted - reached
    residuals = rejected * (position - 1 - alpha * position) ** 2
    residuals += ended * (position * (1.0 - alpha)) ** 2
    noise = rounds / (rounds - 1.0) * residuals.sum(axis=1) / size**2
    columns = [yes**2 / size, yes, size, size**2, size * noise, size**2 * noise]
    return kept.names, np.column_stack(columns)
