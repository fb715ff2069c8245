"""A fitted acceptance model, had the clusters other weights: resampling without a refit.

Models that share one alpha between positions (all but the beta-geometric) are ratios of sums, with
the positions that belong together as they were found. The beta-geometric's two parameters take one
step of Fisher scoring from the fit, which is right to first order (Shao & Tu 1995, The Jackknife
and Bootstrap, section on one-step estimators). With weights of 1 both give the model itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from specbench.theory.acceptance import AcceptanceModel, BetaGeometric, Iid
from specbench.theory.clusters import Numbers

_INDEPENDENT = 1e-9  # a correlation below this is the i.i.d. limit


@dataclass(frozen=True, eq=False)
class Reweighted:
    """A model with the counts that it was fitted to.

    Attributes:
        model: of acceptance.
        accepted: [clusters, positions] over all gammas.
        evaluated: [clusters, positions].
    """

    model: AcceptanceModel
    accepted: Numbers
    evaluated: Numbers

    def alphas(self, weights: Numbers, last: int) -> Numbers:
        """Alpha at positions 1 to ``last``: weights [..., clusters] -> [..., last].

        A position that the model can't tell of has the alpha of the last one it can. NaN where the
        weights leave nothing evaluated.
        """
        accepted, evaluated = weights @ self.accepted, weights @ self.evaluated
        if isinstance(self.model, BetaGeometric) and self.model.correlation > _INDEPENDENT:
            return _one_step(self.model, accepted, evaluated, last)
        pool = _pools(self.model, self.accepted.shape[1])
        member = np.eye(int(pool[-1]) + 1)[pool]  # [positions, pools]
        with np.errstate(divide="ignore", invalid="ignore"):
            by_pool = (accepted @ member) / (evaluated @ member)
        place = np.minimum(np.arange(last), pool.size - 1)
        return np.asarray(by_pool[..., pool[place]])


def _pools(model: AcceptanceModel, positions: int) -> NDArray[np.int64]:
    """Which positions share an alpha: [positions] numbered from 0 without gaps."""
    if isinstance(model, Iid | BetaGeometric):
        return np.zeros(positions, dtype=np.int64)
    alphas = [model.alpha_at(position) for position in range(1, positions + 1)]
    steps = [left != right and right is not None for left, right in pairwise(alphas)]
    return np.concatenate([[0], np.cumsum(steps)]).astype(np.int64)


def _one_step(model: BetaGeometric, accepted: Numbers, evaluated: Numbers, last: int) -> Numbers:
    """Fisher scoring from the fit: the counts are binomial, given what was evaluated."""
    depth = np.arange(accepted.shape[-1])
    alpha, slope = _beta_geometric(model.mean, model.correlation, depth)
    precision = 1.0 / (alpha * (1.0 - alpha))
    score = ((accepted - evaluated * alpha) * precision) @ slope  # [..., 2]
    information = np.einsum("...i,ia,ib->...ab", evaluated * precision, slope, slope)
    (a, b), (_, d) = np.moveaxis(information, (-2, -1), (0, 1))
    with np.errstate(divide="ignore", invalid="ignore"):  # singular where one position is left
        mean_step = (d * score[..., 0] - b * score[..., 1]) / (a * d - b**2)
        correlation_step = (a * score[..., 1] - b * score[..., 0]) / (a * d - b**2)
    mean = np.clip(model.mean + mean_step, 1e-9, 1.0 - 1e-9)
    correlation = np.clip(model.correlation + correlation_step, 0.0, 1.0 - 1e-6)
    return _beta_geometric(mean[..., None], correlation[..., None], np.arange(last))[0]


def _beta_geometric(
    mean: Numbers | float, correlation: Numbers | float, depth: NDArray[np.int64]
) -> tuple[Numbers, Numbers]:
    """Alpha [..., positions] and its slopes [positions, 2] in mean and correlation."""
    fixed = 1.0 - np.asarray(correlation)
    bottom = fixed + depth * correlation
    top = mean * fixed + depth * correlation
    slopes = np.stack([fixed / bottom, ((depth - mean) * bottom - top * (depth - 1)) / bottom**2])
    return np.asarray(top / bottom), np.moveaxis(slopes, 0, -1)
