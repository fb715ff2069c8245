"""The speedup of one drafter at every gamma, fitted, and what it would be without some clusters.

    speedup = tokens per round / round time in units of T1

Tokens of a chain come from its acceptance model, the lengths of its drafts and what is cut at an
output's end, as in :mod:`specbench.analysis.prediction.held_out`; here the gamma itself is among
what the model was fitted to, and it is moved towards the counts where these are shown to lie off it
(:mod:`specbench.analysis.recommending.misfit`). Trees and adaptive drafts have no such model: their
tokens are counted. Round times come from a :mod:`specbench.analysis.recommending.clock`.

All of it is a function of cluster sums, so a thousand resamples cost a few products of matrices.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specbench.analysis.pooling import GroupKey
from specbench.analysis.recommending.clock import Clock, shares_at
from specbench.analysis.recommending.clusters import (
    Clusters,
    baselines_of,
    conversations,
    plain_blocks,
)
from specbench.analysis.recommending.misfit import Misfit, misfit_of
from specbench.analysis.rounds.evidence import Evidence
from specbench.theory.acceptance import AcceptanceModel, by_cluster
from specbench.theory.clusters import Numbers, ratio
from specbench.theory.reweighted import Reweighted


@dataclass(frozen=True, eq=False)
class Tokens:
    """Tokens that a round puts out.

    Attributes:
        acceptance: of a chain; None where tokens are counted.
        lengths: measured gamma -> [clusters, gamma + 1] rounds by draft length.
        emitted: measured gamma -> [clusters] tokens after cuts.
        output: mean tokens of an answer, the first one apart.
        misfit: of a chain's acceptance model; None where it can't be told.
    """

    acceptance: Reweighted | None
    lengths: Mapping[int, Numbers]
    emitted: Mapping[int, Numbers]
    output: float
    misfit: Misfit | None = None

    def per_round(self, gammas: Sequence[int], weights: Numbers) -> Numbers:
        """Weights [..., clusters] -> [..., gammas]."""
        if self.acceptance is None:
            return self._counted(gammas, weights)
        modelled = self._modelled(self.acceptance, gammas, weights)
        if self.misfit is None or not any(self.misfit.moved.values()):
            return modelled
        return np.asarray(modelled * np.exp(self.off(weights) @ self.misfit.shares(gammas)))

    def off(self, weights: Numbers) -> Numbers:
        """Log of counted / modelled tokens: weights [..., clusters] -> [..., measured gammas]."""
        assert self.acceptance is not None
        known = list(self.emitted)
        modelled = self._modelled(self.acceptance, known, weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log(self._counted(known, weights) / modelled))

    def _counted(self, gammas: Sequence[int], weights: Numbers) -> Numbers:
        rounds = [weights @ self.lengths[gamma].sum(axis=1) for gamma in gammas]
        tokens = [weights @ self.emitted[gamma] for gamma in gammas]
        return ratio(np.stack(tokens, axis=-1), np.stack(rounds, axis=-1))

    def _modelled(self, model: Reweighted, gammas: Sequence[int], weights: Numbers) -> Numbers:
        alive = np.cumprod(model.alphas(weights, max(gammas)), axis=-1)
        found = []
        for gamma in gammas:
            shares = shares_at(gamma, self.lengths, weights)
            reaching = np.cumsum(shares[..., ::-1], axis=-1)[..., ::-1][..., 1:]
            survival = reaching * alive[..., :gamma]
            committed = 1.0 + survival.sum(axis=-1)
            cut_tokens = survival @ np.arange(1.0, gamma + 1.0) / committed
            found.append(committed * self.output / (self.output + cut_tokens))
        return np.stack(found, axis=-1)


@dataclass(frozen=True, eq=False)
class GroupSpeed:
    """A group's speedups.

    Attributes:
        key: of the group.
        gammas: that can be told: a chain's from the smallest measured to the largest, else the
            measured ones.
        clusters: that they depend on.
        tokens, clock: of a round.
        plain: [clusters, 2] seconds and steps of plain decoding.
        baselines: of the setting.
    """

    key: GroupKey
    gammas: tuple[int, ...]
    clusters: Clusters
    tokens: Tokens
    clock: Clock
    plain: Numbers
    baselines: int

    def step_s(self, weights: Numbers) -> Numbers:
        """T1."""
        seconds, steps = np.moveaxis(weights @ self.plain, -1, 0)
        return ratio(seconds, steps)

    def logs(self, weights: Numbers) -> Numbers:
        """Log speedups: weights [..., clusters] -> [..., gammas]; NaN where they can't tell."""
        step_s = self.step_s(weights)[..., None]
        seconds = self.clock.seconds(self.gammas, weights)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.tokens.per_round(self.gammas, weights) * step_s / seconds)
        return np.where(np.isfinite(logs), logs, np.nan)

    def influences(self) -> dict[Hashable, Numbers]:
        """Set of clusters -> [clusters, gammas]: what each adds to the logs."""
        return {key: self.clusters.influence(key, self.logs) for key in self.clusters.sets}

    def pulls(self, gamma: int) -> dict[Hashable, float]:
        """Cell -> how far its own deviation moves the log speedup."""
        found: dict[Hashable, float] = {
            ("cell", self.key, known): -pull for known, pull in self.clock.pulls(gamma).items()
        }
        for baseline in range(self.baselines):
            found["baseline", self.key.setting, baseline] = 1.0 / self.baselines
        return found


def tokens_of(
    key: GroupKey, evidence: Evidence, clusters: Clusters, model: AcceptanceModel | None
) -> Tokens:
    """The tokens of a group.

    Args:
        model: of a chain's acceptance; None counts them.
    """
    where = conversations(key.setting.task)
    acceptance = None
    if model is not None:
        names, accepted, evaluated = by_cluster(evidence.sample)
        acceptance = Reweighted(
            model,
            clusters.aligned(where, names, accepted),
            clusters.aligned(where, names, evaluated),
        )
    parts = evidence.tokens.items()
    tokens = Tokens(
        acceptance,
        {gamma: clusters.aligned(where, part.names, part.lengths) for gamma, part in parts},
        {gamma: clusters.aligned(where, part.names, part.emitted) for gamma, part in parts},
        evidence.output,
    )
    if acceptance is None:
        return tokens
    off = tokens.off(np.ones(clusters.size))
    influence = clusters.influence(where, tokens.off)
    return replace(tokens, misfit=misfit_of(list(tokens.emitted), off, influence))


def plain_of(key: GroupKey, evidence: Evidence, clusters: Clusters) -> Numbers:
    """Seconds and steps of plain decoding: [clusters, 2]."""
    plain = evidence.plain
    sums = np.column_stack([plain.seconds, plain.steps])
    if evidence.paired:
        return clusters.aligned(conversations(key.setting.task), plain.names, sums)
    total = np.zeros((clusters.size, 2))
    for label, names in baselines_of(evidence).items():
        mask = np.isin(plain.names, names)
        total += clusters.aligned(plain_blocks(key, label), names, sums[mask])
    return total
