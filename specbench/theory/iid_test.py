"""Is acceptance i.i.d. by depth? One alpha against one per position, right for clustered rounds.

The statistic is the likelihood ratio of the two models. Its textbook distribution, chi-square, is
for independent rounds. Rounds of one prompt are not: at temperature 0 each gamma replays the same
text, and the textbook test then rejects i.i.d. acceptance in 15 to 32% of runs instead of 5%.

So the p-value is bootstrapped over clusters with the null imposed: each cluster's residuals
accepted - alpha x evaluated keep their size but get a random sign, all positions of a cluster the
same one, and the statistic is computed again. Under the null a cluster's residuals are as likely
the other way round, so this holds its level at few clusters, where a covariance between 8 positions
can't be estimated. Kline & Santos 2012, "A Score Based Approach to Wild Bootstrap Inference"; Liu
1988, "Bootstrap Procedures under some Non-I.I.D. Models"; Canay, Santos & Shaikh 2021, "The Wild
Bootstrap with a 'Small' Number of 'Large' Clusters".

What is tested is the pooled acceptance by depth. Where alpha differs between prompts but not within
them, deep positions are reached by easy prompts only, so the pooled alpha rises with depth and is
rightly rejected: one alpha predicts the tokens per round of such a run wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from specbench.theory.acceptance import Sample, by_cluster
from specbench.theory.clusters import Numbers

MIN_CLUSTERS = 6
"""With 5 clusters the data and its mirror image alone are 2 of 32 sign patterns: never below 5%."""

ALL_PATTERNS_TO = 11
"""Up to so many clusters all sign patterns are tried."""

RESAMPLES = 2000
"""Random sign patterns above that."""

_LEAST = 5.0  # acceptances and rejections that a position should have under the null (Cochran 1954)
_BLOCK = 500  # sign patterns at a time, for memory


@dataclass(frozen=True)
class IidTest:
    """The test's outcome.

    Attributes:
        statistic: likelihood ratio, 2 x the difference of log-likelihoods; None where nothing can
            be compared.
        p_value: chance of one as large if acceptance is i.i.d.; None with fewer than MIN_CLUSTERS
            clusters, or where fewer than two positions can be told apart. With 6 clusters it is a
            multiple of 1 in 64.
        clusters: that evaluated anything.
        positions: told apart; the deepest ones, evaluated rarely, count as one.
    """

    statistic: float | None
    p_value: float | None
    clusters: int
    positions: int


def iid_test(sample: Sample, seed: int = 0) -> IidTest:
    """Test one alpha for all positions against one for each.

    Args:
        sample: counts of one group, all its gammas: positions are shared between them.
        seed: of the random signs.
    """
    if not sample:
        return IidTest(None, None, 0, 0)
    _, accepted, evaluated = by_cluster(sample)
    used = evaluated[:, 0] > 0.0
    accepted, evaluated = _join_thin(accepted[used], evaluated[used])
    clusters, positions = accepted.shape
    if positions < 2:
        return IidTest(None, None, clusters, positions)
    total = evaluated.sum(axis=0)
    alpha = float(accepted.sum() / total.sum())
    statistic = float(likelihood_ratio(accepted.sum(axis=0), total))
    if clusters < MIN_CLUSTERS:
        return IidTest(statistic, None, clusters, positions)
    residuals = accepted - alpha * evaluated
    # Each resample has an alpha of its own: take out what a cluster does to it.
    residuals -= residuals.sum(axis=1, keepdims=True) * (total / total.sum())
    reached = tried = 0
    for signs in _signs(clusters, seed):
        resampled = np.clip(alpha * total + signs @ residuals, 0.0, total)
        reached += int((likelihood_ratio(resampled, total) >= statistic * (1.0 - 1e-9)).sum())
        tried += len(signs)
    return IidTest(statistic, reached / tried, clusters, positions)


def likelihood_ratio(accepted: Numbers, evaluated: Numbers) -> Numbers:
    """2 x log-likelihood of one alpha per position over one alpha, on the last axis.

    Args:
        accepted: [..., positions].
        evaluated: [positions] or [..., positions], above 0.
    """
    rejected, total = evaluated - accepted, evaluated.sum(axis=-1)
    yes = accepted.sum(axis=-1)
    free = xlogy(accepted, accepted / evaluated) + xlogy(rejected, rejected / evaluated)
    one = xlogy(yes, yes / total) + xlogy(total - yes, (total - yes) / total)
    return np.asarray(2.0 * (free.sum(axis=-1) - one))


def _join_thin(accepted: Numbers, evaluated: Numbers) -> tuple[Numbers, Numbers]:
    """Positions evaluated too rarely to be judged alone, joined to the last one that is not."""
    total = evaluated.sum(axis=0)
    if not total.sum() > 0.0:
        return accepted[:, :0], evaluated[:, :0]
    alpha = float(accepted.sum() / total.sum())
    enough = total * min(alpha, 1.0 - alpha) >= _LEAST
    last = max(int(np.argmin(enough)) if not enough.all() else enough.size, 1) - 1
    starts = np.arange(last + 1)
    return (np.add.reduceat(accepted, starts, axis=1), np.add.reduceat(evaluated, starts, axis=1))


def _signs(clusters: int, seed: int) -> Iterator[Numbers]:
    """Blocks of sign patterns [some, clusters]; one of them leaves the data as it is."""
    if clusters <= ALL_PATTERNS_TO:
        patterns = np.arange(2**clusters)[:, None] >> np.arange(clusters)
        yield np.where(patterns & 1, -1.0, 1.0)
        return
    yield np.ones((1, clusters))
    generator = np.random.default_rng([seed, clusters])
    for _ in range(RESAMPLES // _BLOCK):
        drawn = generator.integers(0, 2, (_BLOCK, clusters), dtype=np.int8)
        yield np.where(drawn, -1.0, 1.0)
