"""Variances that are each told by little, led towards what they have in common.

How much the cells of one block differ, or the conversations of one task, is estimated with few
degrees of freedom. Were it the same in all of them, to pool them would be best; where one differs
far more than the others, pooling takes it for too quiet and the others for too noisy. So each is
the mean of its own estimate and of a common one, weighted with their degrees of freedom. Those of
the common one are told by how far the logs of the estimates lie apart, beyond what chance explains:
the fewer the further, and all there are where chance may explain it, which is pooling.

Smyth 2004, "Linear Models and Empirical Bayes Methods for Assessing Differential Expression in
Microarray Experiments", sect. 6.2.

>>> alike = moderated([Scatter(1.0, 4), Scatter(1.2, 4), Scatter(0.9, 4)])
>>> [(round(one.variance, 3), one.freedom) for one in alike]
[(1.033, 12.0), (1.033, 12.0), (1.033, 12.0)]
>>> quiet, *_, noisy = moderated([*[Scatter(1.0, 4)] * 9, Scatter(100.0, 4)])
>>> quiet.variance < 1.3, noisy.variance > 50.0
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from specbench.theory.clusters import Numbers
from specbench.theory.scatter import Scatter, pooled

_LEAST = 1e-4  # of their mean: what is smaller has met by chance
_STEPS = 50


def moderated(told: Sequence[Scatter | None]) -> list[Scatter | None]:
    """Each variance, led towards what they have in common.

    Args:
        told: None where nothing tells one; it gets the common estimate.

    Returns:
        None for all where nothing tells any.
    """
    common = pooled(told)
    if common is None:
        return [None] * len(told)
    prior = _prior(*np.array([one for one in told if one is not None], dtype=np.float64).T)
    if prior is None or prior.freedom >= common.freedom:
        return [Scatter(common.variance, float(common.freedom))] * len(told)
    return [pooled([prior, one]) for one in told]


def _prior(variance: Numbers, freedom: Numbers) -> Scatter | None:
    """What variances have in common, of a scaled inverse chi-square that they are drawn from.

    None where they lie apart by no more than chance, give or take its standard error.
    """
    least = _LEAST * float(variance.mean())
    if variance.size < 2 or not least > 0.0:
        return None
    half, count = freedom / 2.0, variance.size
    logs = np.log(np.maximum(variance, least)) - special.digamma(half) + np.log(half)
    chance = float(special.polygamma(1, half).mean())  # variance of such a log
    fourth = float(special.polygamma(3, half).mean()) + 3.0 * chance**2  # its fourth moment
    unsure = math.sqrt((fourth - chance**2 * (count - 3) / (count - 1)) / count)
    excess = float(np.var(logs, ddof=1)) - chance - unsure
    if excess <= 0.0:
        return None
    own = _inverse_trigamma(excess)  # half its degrees of freedom
    variance_of_all = math.exp(float(logs.mean()) + float(special.digamma(own)) - math.log(own))
    return Scatter(variance_of_all, 2.0 * own)


def _inverse_trigamma(value: float) -> float:
    """Newton's method on 1 / trigamma, which is nearly straight: Smyth 2004, appendix."""
    found = 0.5 + 1.0 / value
    for _ in range(_STEPS):
        here = float(special.polygamma(1, found))
        step = here * (1.0 - here / value) / float(special.polygamma(2, found))
        found += step
        if abs(step) < 1e-10 * found:
            break
    return found
