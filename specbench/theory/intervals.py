"""How sure a ratio of sums is, when rounds of one prompt resemble each other.

The unit is the cluster: a conversation for tokens, a time block for seconds that a batch shares.
Below 24 clusters the interval is Student's t on the linearised cluster residuals, from 24 up a
bootstrap over clusters. Both work on a scale where the ratio is unbounded (the logit of a
proportion, the log of a rate), so an interval never leaves the possible range and keeps its
coverage close to the boundary, where a symmetric one falls to 85%.

Long conversations weigh more than short ones, so that n of them say as much as fewer equal ones do:
Student's t counts those, and is kept from 24 up where they are fewer than 16.

- Ratio of sums and its cluster-robust variance: Cochran, Sampling Techniques, 3rd ed., ch. 6.
- Residuals of those that weigh most, corrected: MacKinnon & White 1985 (HC2).
- How many equal ones unequal ones stand for: Kish, Survey Sampling (1965), sect. 11.7.
- Bootstrap: specbench.theory.bootstrap.
- Parts with variances of their own: Welch 1947.

>>> interval = ratio_interval([8, 6, 9], [10, 10, 10])
>>> f"{interval.estimate:.3f} {interval.low:.2f} {interval.high:.2f} {interval.method}"
'0.767 0.28 0.96 cluster-t'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from specbench.errors import SpecbenchError
from specbench.theory import quantiles
from specbench.theory.bootstrap import bca
from specbench.theory.clusters import MIN_TIME_BLOCKS, Numbers, same_length

BOOTSTRAP_FROM = 24
"""Clusters from which the bootstrap is used."""

_ALIKE = 16.0
"""Equal clusters that those must stand for: bootstraps of fewer cover 90%."""

ASSUMED_CORRELATION = 0.05
"""Correlation of two acceptances within a prompt, used only where the sample can't tell: when every
token was accepted or none was. 0.05 is a standard deviation of 0.1 between prompts of alpha 0.7."""


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval.

    Attributes:
        estimate: the ratio itself, inside [low, high].
        low: lower end.
        high: upper end.
        clusters: independent units it rests on (of the part with the fewest, if there are several).
        method: "cluster-t", "bootstrap", "boundary" or "independent-t".
    """

    estimate: float
    low: float
    high: float
    clusters: int
    method: str

    @property
    def ends(self) -> tuple[float, float]:
        """(low, high), as records keep it."""
        return self.low, self.high


def ratio_interval(
    numerators: ArrayLike,
    denominators: ArrayLike,
    level: float = 0.95,
    seed: int = 0,
    *,
    upper: float = 1.0,
) -> Interval | None:
    """Interval of sum(numerators) / sum(denominators), one entry per cluster.

    For alpha give accepted and evaluated; for accepted tokens per round give accepted and rounds
    with `upper=gamma`; for a rate without a bound `upper=math.inf`. Where nothing or everything was
    accepted (or all residuals vanish), clusters show no variance, and the exact binomial interval
    (Clopper and Pearson 1934) is taken with the sample shrunk by the design effect of
    ASSUMED_CORRELATION. An unbounded rate without any variance gets an interval of no width.

    Args:
        numerators: [clusters] at least 0.
        denominators: [clusters] at least 0; clusters with 0 are left out.
        level: confidence level.
        seed: of the bootstrap.
        upper: largest possible ratio.

    Returns:
        None where fewer than two clusters, or no positive rate, leave nothing to say.

    Raises:
        SpecbenchError: the arrays don't fit together, or the level is no probability.
    """
    top, bottom = _pair(numerators, denominators)
    _check_level(level)
    count = top.size
    if count < 2:
        return None
    ratio = float(top.sum() / bottom.sum())
    residuals = (top - ratio * bottom) / bottom.sum()
    variance, freedom = _spread(residuals, bottom / bottom.sum())
    error = math.sqrt(variance)
    bounded = math.isfinite(upper)
    if error <= 1e-12 * max(ratio, 1e-300) or (bounded and ratio in (0.0, upper)):
        if not bounded:
            return Interval(ratio, ratio, ratio, count, "boundary") if ratio > 0.0 else None
        low, high = _exact(ratio / upper, bottom, level)
        return Interval(ratio, upper * low, upper * high, count, "boundary")
    if _many(count, freedom):
        columns = np.column_stack([top, bottom])
        low, high = bca(_first_ratio, columns, residuals, level, seed)
        return Interval(ratio, min(low, ratio), max(high, ratio), count, "bootstrap")
    reach = float(quantiles.student_t(0.5 + level / 2, freedom)) * error
    if bounded:
        share = ratio / upper
        middle, reach = math.log(share / (1 - share)), reach / upper / (share * (1 - share))
        low, high = (upper * float(special.expit(middle + way * reach)) for way in (-1, 1))
    else:
        low, high = ratio * math.exp(-reach / ratio), ratio * math.exp(reach / ratio)
    return Interval(ratio, low, high, count, "cluster-t")


def paired_ratio_of_ratios(
    base_numerators: ArrayLike,
    base_denominators: ArrayLike,
    numerators: ArrayLike,
    denominators: ArrayLike,
    seed: int = 0,
) -> Interval | None:
    """95% interval of (base sum ratio) / (sum ratio) when entry i of all four is the same cluster.

    The speedup at batch size 1: seconds over tokens of the baseline, then of the cell, per prompt.
    Pairing takes out what makes one prompt slower than another for both.

    Args:
        base_numerators, base_denominators: [clusters] e.g. seconds and tokens of the baseline.
        numerators, denominators: [clusters] the same of the cell.
        seed: of the bootstrap.

    Returns:
        None where fewer than two clusters, or a total of zero, leave nothing to say.

    Raises:
        SpecbenchError: the arrays don't fit together.
    """
    parts = (base_numerators, base_denominators, numerators, denominators)
    columns = np.column_stack(same_length(*parts))
    totals, count = columns.sum(axis=0), len(columns)
    if count < 2 or not (totals > 0.0).all():
        return None
    ratio = float(_ratio_of_ratios(totals))
    shares = columns / totals
    residuals = (shares[:, 0] - shares[:, 1]) - (shares[:, 2] - shares[:, 3])
    variance, freedom = _spread(residuals, (shares[:, 1] + shares[:, 3]) / 2)
    if _many(count, freedom) and variance > 1e-24:
        low, high = bca(_ratio_of_ratios, columns, residuals, 0.95, seed)
        return Interval(ratio, min(low, ratio), max(high, ratio), count, "bootstrap")
    reach = float(quantiles.student_t(0.975, freedom)) * math.sqrt(variance)
    return Interval(ratio, ratio * math.exp(-reach), ratio * math.exp(reach), count, "cluster-t")


def product_of_ratios(parts: Sequence[tuple[ArrayLike, ArrayLike]]) -> Interval | None:
    """95% interval of a product of ratios of sums that vary independently of each other.

    The speedup at batch size > 1: a step belongs to several prompts, so prompts can't be paired.
    But tokens per row and round vary between prompts, and seconds per step over time; the two are
    taken apart, each with its own units, and put together by Welch's t on the log scale. Time
    blocks alone cover 66 to 91% when prompts differ, because neighbouring blocks share prompts.

    Args:
        parts: per ratio its numerators and denominators, one entry per independent unit; swap the
            two for a quotient.

    Returns:
        None where a part has fewer than two units or a total of zero.

    Raises:
        SpecbenchError: the arrays don't fit together.
    """
    estimate, found, units = 1.0, [], []
    for numerators, denominators in parts:
        top, bottom = _pair(numerators, denominators)
        if top.size < 2 or not top.sum() > 0.0:
            return None
        shares = bottom / bottom.sum()
        estimate *= float(top.sum() / bottom.sum())
        found.append(_spread(top / top.sum() - shares, shares))
        units.append(top.size)
    return _welch(estimate, found, min(units))


Strata = Sequence[Sequence[ArrayLike]]
"""Of each stratum, such as the steps of one gamma, its numerators and its denominators [blocks]."""


def two_sample_ratio(first: Strata, second: Strata) -> Interval | None:
    """95% interval of (ratio of first sums) / (ratio of second), at least 8 time blocks in each.

    For ratios of times, such as seconds per drafter step over seconds per baseline step. Blocks
    vary about their own stratum's ratio: strata are all there, so that what they differ by is no
    chance (Cochran, Sampling Techniques, 3rd ed., sect. 6.11, the combined ratio estimate).

    Args:
        first, second: the strata of each sample, of two blocks or more.

    Returns:
        None where a sample has fewer than MIN_TIME_BLOCKS blocks, a total of zero, or a stratum of
        one block.

    Raises:
        SpecbenchError: the arrays don't fit together.
    """
    estimate, parts = 1.0, []
    for strata, power in ((first, 1.0), (second, -1.0)):
        pairs = [_pair(*stratum) for stratum in strata]
        top, bottom = (sum(float(pair[side].sum()) for pair in pairs) for side in (0, 1))
        sizes = [pair[0].size for pair in pairs]
        if sum(sizes) < MIN_TIME_BLOCKS or min(sizes) < 2 or not top > 0.0:
            return None
        variance = 0.0
        for (tops, bottoms), size in zip(pairs, sizes, strict=True):
            residuals = tops / top - bottoms / bottom
            residuals -= residuals.mean()
            variance += size / (size - 1) * float(residuals @ residuals)
        estimate *= (top / bottom) ** power
        parts.append((variance, sum(sizes) - len(sizes)))
    return _welch(estimate, parts, min(freedom for _, freedom in parts) + 1)


def _spread(residuals: Numbers, shares: Numbers) -> tuple[float, float]:
    """Variance of a linearised ratio, and its degrees of freedom, at least 1.

    Of n equal clusters n / (n - 1) times the sum of squares, and n - 1.

    Args:
        residuals: [clusters] what each adds to the ratio.
        shares: [clusters] of each in the denominators; they sum to 1.
    """
    told = np.maximum(1.0 - shares, 1e-12)  # a cluster draws the ratio to itself by its share
    return float((residuals**2 / told).sum()), max(1.0 / float(shares @ shares) - 1.0, 1.0)


def _many(count: int, freedom: float) -> bool:
    """Whether clusters are enough, and alike enough, for the bootstrap."""
    return count >= BOOTSTRAP_FROM and freedom >= _ALIKE - 1.0


def _welch(estimate: float, parts: Sequence[tuple[float, float]], clusters: int) -> Interval:
    """An interval on the log scale from independent variances and their degrees of freedom."""
    variance, freedom = sum(part for part, _ in parts), 1.0
    if variance > 0.0:
        freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts)
    reach = float(quantiles.student_t(0.975, freedom)) * math.sqrt(variance)
    low, high = estimate * math.exp(-reach), estimate * math.exp(reach)
    return Interval(estimate, low, high, clusters, "independent-t")


def _exact(share: float, bottom: Numbers, level: float) -> tuple[float, float]:
    """Clopper-Pearson with the number of trials divided by the assumed design effect."""
    trials = float(bottom.sum())
    size = float(bottom @ bottom) / trials  # mean cluster size, as a random trial sees it
    trials /= 1.0 + max(size - 1.0, 0.0) * ASSUMED_CORRELATION
    hits, tail = share * trials, (1.0 - level) / 2
    low = float(quantiles.beta(tail, hits, trials - hits + 1)) if share > 0.0 else 0.0
    high = float(quantiles.beta(1 - tail, hits + 1, trials - hits)) if share < 1.0 else 1.0
    return min(low, share), max(high, share)


def _first_ratio(totals: Numbers) -> Numbers:
    return np.asarray(totals[..., 0] / totals[..., 1])


def _ratio_of_ratios(totals: Numbers) -> Numbers:
    return np.asarray(totals[..., 0] / totals[..., 1] / (totals[..., 2] / totals[..., 3]))


def _pair(numerators: ArrayLike, denominators: ArrayLike) -> tuple[Numbers, Numbers]:
    top, bottom = same_length(numerators, denominators)
    return top[bottom > 0.0], bottom[bottom > 0.0]


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise SpecbenchError(
            f"confidence level {level} is out of range", "Give one between 0 and 1"
        )
