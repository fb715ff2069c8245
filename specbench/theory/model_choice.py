"""Which model of acceptance predicts best what it has not seen.

Rounds are clustered, so likelihoods of different models can't be compared by counting parameters
(AIC takes rounds to be independent). Instead each gamma is left out in turn, every model is fitted
to the other gammas, and its tokens per round at the gamma left out are held against those measured
there. The error of a model is the mean of |predicted / measured - 1|.

- A model that has no answer for a gamma (PerPosition beyond the deepest position of the others, a
  beta-geometric fit to position 1 alone) is charged with the worst answer given there.
- Ties go to the simpler model: of those within TIE of the least error, the first of MODELS.

With one gamma there is nothing to leave out. Then conversations are left out, in up to FOLDS parts,
and a model's error is what it loses on the positions of those left out, in nats per evaluated
token. That judges the positions measured, not longer drafts. With fewer than MIN_CLUSTERS
conversations nothing is judged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import xlogy

from specbench.theory import by_depth
from specbench.theory.acceptance import MODELS, AcceptanceModel, Sample, totals
from specbench.theory.clusters import Numbers

TIE = 0.002
"""Errors of tokens per round as close as this, a fifth of a percent, are no reason to prefer."""

TIE_NATS = 0.0005
"""The same for a single gamma, per evaluated token."""

FOLDS = 12
MIN_CLUSTERS = 6

_SURE = 1e-6  # no chance is taken to be closer to 0 or 1 than this


@dataclass(frozen=True)
class ModelChoice:
    """The winner, fitted to everything, and what it won against.

    Attributes:
        winner: fitted to the whole sample.
        judged_by: "gamma" or "conversation": what was left out.
        errors: name of a model -> its error; the mean relative error of tokens per round for
            "gamma", nats per evaluated token for "conversation".
    """

    winner: AcceptanceModel
    judged_by: Literal["gamma", "conversation"]
    errors: Mapping[str, float]


def choose_model(sample: Sample) -> ModelChoice | None:
    """Choose among MODELS.

    Returns:
        None where nothing can be left out: nothing was evaluated, or one gamma and fewer than
        MIN_CLUSTERS clusters.
    """
    used = {gamma: counts for gamma, counts in sample.items() if counts.evaluated.any()}
    if len(used) > 1:
        return _best(used, _leave_one_gamma_out(used), "gamma", TIE)
    if used and len(next(iter(used.values())).names) >= MIN_CLUSTERS:
        return _best(used, _leave_conversations_out(used), "conversation", TIE_NATS)
    return None


def measured_tokens(sample: Sample) -> tuple[float, int]:
    """Tokens per round of full drafts, and the deepest position evaluated.

    1 + sum of survival by position: accepted / evaluated multiplied up, so a round whose draft was
    shorter counts at the positions it had.
    """
    accepted, evaluated = totals(sample)
    return by_depth.expected_tokens((accepted / evaluated).tolist()), evaluated.size


def _leave_one_gamma_out(sample: Sample) -> dict[str, float]:
    errors: dict[str, list[float]] = {model.name: [] for model in MODELS}
    for gamma, counts in sample.items():
        truth, depth = measured_tokens({gamma: counts})
        others = {other: kept for other, kept in sample.items() if other != gamma}
        fold: dict[str, float] = {}
        for model in MODELS:
            fitted = model.fit(others)
            tokens = fitted.expected_tokens(depth) if fitted else None
            if tokens is not None:
                fold[model.name] = abs(tokens / truth - 1.0)
        for name, found in errors.items():
            found.append(fold.get(name, max(fold.values())))
    return {name: float(np.mean(found)) for name, found in errors.items()}


def _leave_conversations_out(sample: Sample) -> dict[str, float]:
    ((gamma, counts),) = sample.items()
    fold_of = np.arange(len(counts.names)) % FOLDS
    losses = dict.fromkeys((model.name for model in MODELS), 0.0)
    for fold in np.unique(fold_of):
        others = {gamma: counts.rows(fold_of != fold)}
        accepted, evaluated = totals({gamma: counts.rows(fold_of == fold)})
        for model in MODELS:
            fitted = model.fit(others)
            losses[model.name] += _loss(fitted, accepted, evaluated)
    size = float(counts.evaluated.sum())
    return {name: loss / size for name, loss in losses.items()}


def _loss(model: AcceptanceModel | None, accepted: Numbers, evaluated: Numbers) -> float:
    """Minus the log-likelihood; where a model says nothing, that of a coin."""
    depths = range(1, evaluated.size + 1)
    alphas = [model.alpha_at(depth) if model else None for depth in depths]
    chances = np.array([0.5 if alpha is None else alpha for alpha in alphas])
    chances = np.clip(chances, _SURE, 1.0 - _SURE)
    return -float((xlogy(accepted, chances) + xlogy(evaluated - accepted, 1.0 - chances)).sum())


def _best(
    sample: Sample, errors: dict[str, float], by: Literal["gamma", "conversation"], tie: float
) -> ModelChoice:
    least = min(errors.values())
    for model in MODELS:
        fitted = model.fit(sample)
        if fitted is not None and errors[model.name] <= least + tie:
            return ModelChoice(fitted, by, errors)
    raise AssertionError("one of the models has the least error")
