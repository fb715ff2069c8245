"""One gamma taken to be unmeasured: what the others say about it, and how sure that is.

Everything here can be had without some clusters, which is what the jackknife needs. Clusters go by
name: conversations, and above batch size 1 time blocks for what is measured in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.acceptance.replayed import ReplayedTokens
from specbench.analysis.rounds.evidence import Evidence
from specbench.analysis.rounds.model import capped
from specbench.records.steps import Numbers
from specbench.theory.acceptance import AcceptanceModel, by_cluster
from specbench.theory.round_lines import RoundLines
from specbench.theory.scatter import scatter_of

FOLDS = 20
"""Conversations are left out in at most so many parts: models are fitted anew without each."""

Names = NDArray[np.str_]
NOBODY: Names = np.array([], dtype=np.str_)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """A gamma beside the others.

    Attributes:
        evidence: of all gammas.
        others: without this one.
        model: of acceptance, fitted to the others.
        lines: of round times, fitted to the others.
        replayed: tokens of rounds on a trace, in the place of the model's; None: the model's.
    """

    gamma: int
    evidence: Evidence
    others: Evidence
    model: AcceptanceModel
    lines: RoundLines
    replayed: ReplayedTokens | None = None

    def predicted_tokens(self, dropped: Names = NOBODY) -> float:
        """Tokens that a round puts out, by the others; NaN where they can't tell."""
        if self.replayed is not None:
            return self.replayed.per_round(self.gamma, _kept(self.replayed.names, dropped))
        model: AcceptanceModel | None = self.model
        if dropped.size:
            kept = {
                gamma: counts.rows(_kept(counts.names, dropped))
                for gamma, counts in self.others.sample.items()
            }
            model = type(self.model).fit(kept)
        shares = _lengths_at(_lengths(self.others.tokens, dropped), self.gamma)
        return math.nan if model is None or shares is None else self._output(model, shares)

    def predicted_seconds(self, dropped: Names = NOBODY) -> float:
        """Time of a round, by the others; NaN where they can't tell."""
        shares = _lengths_at(_lengths(self.others.times, dropped), self.gamma)
        if shares is None:
            return math.nan
        weights = _kept(self.lines.names, dropped).astype(np.float64)
        idle, seconds = float(shares[0]), 0.0
        if idle < 1.0:
            length = _mean_length(shares)
            seconds = (1.0 - idle) * self.lines.round_time(length, self._rounds, weights)
        if idle > 0.0:
            seconds += idle * (self.lines.idle(weights) or math.nan)
        return seconds

    @cached_property
    def _rounds(self) -> Numbers:
        """[names of the lines] rounds that each would do at this gamma, up to a common factor.

        Conversations do as many as at the nearest other gamma, times what one alpha of their own
        makes of the tokens of both: one that accepts much needs fewer of long drafts.
        """
        if not self.evidence.paired:  # time blocks all have the same step
            return np.ones(self.lines.names.size)
        drafting = [gamma for gamma, part in self.others.times.items() if part.rounds.any()]
        near = min(drafting, key=lambda known: abs(known - self.gamma))
        part = self.others.times[near]
        rounds = np.zeros(self.lines.names.size)
        rounds[np.searchsorted(self.lines.names, part.names)] = part.rounds
        names, accepted, evaluated = by_cluster(self.others.sample)
        alpha = accepted.sum(axis=1) / evaluated.sum(axis=1)
        tokens = [np.polyval(np.ones(gamma + 1), alpha) for gamma in (near, self.gamma)]
        rounds[np.searchsorted(self.lines.names, names)] *= tokens[0] / tokens[1]
        return rounds

    def log_tokens(self, dropped: Names = NOBODY) -> float:
        """log(measured / predicted) of a round's tokens."""
        own = self.evidence.tokens[self.gamma]
        kept = _kept(own.names, dropped)
        measured = _ratio(own.emitted[kept].sum(), own.lengths[kept].sum())
        return _log(_ratio(measured, self.predicted_tokens(dropped)))

    def log_seconds(self, dropped: Names = NOBODY) -> float:
        """The same of its time."""
        own = self.evidence.times[self.gamma]
        kept = _kept(own.names, dropped)
        measured = _ratio(own.seconds[kept].sum(), own.lengths[kept].sum())
        return _log(_ratio(measured, self.predicted_seconds(dropped)))

    def log_speed(self, dropped: Names = NOBODY) -> float:
        """The same of tokens per second."""
        return self.log_tokens(dropped) - self.log_seconds(dropped)

    def variances(self) -> Iterator[tuple[float, float]]:
        """Variances of log(measured / predicted), which add up, and their degrees of freedom.

        NaN where one can't be told.
        """
        conversations = _union(part.names for part in self.evidence.tokens.values())
        if self.evidence.paired:
            yield jackknife(self.log_speed, conversations)
        else:
            yield jackknife(self.log_tokens, conversations)
            for part in self.evidence.times.values():
                yield jackknife(self.log_seconds, part.names)
        scatter = scatter_of(self.lines.misfit, self.evidence.plain_cells)
        shares = _lengths_at(_lengths(self.others.times, NOBODY), self.gamma)
        if scatter is None or shares is None:
            yield math.nan, 1.0
        else:
            own_and_line = 1.0 + self.lines.leverage(_mean_length(shares))
            yield scatter.variance * own_and_line, float(scatter.freedom)
        yield self._token_scatter()

    def _token_scatter(self) -> tuple[float, float]:
        """How far tokens of the other gammas lie off the model, more than chance explains.

        No model knows it all: where matches come in stretches, rounds of a long draft start at hard
        places more often than those of a short one. Moments, as for a random effect (DerSimonian &
        Laird 1986), with the variance of a ratio of sums over conversations for chance.
        """
        excess = []
        for gamma, part in self.others.tokens.items():
            rounds = part.lengths.sum(axis=1)
            if rounds.size < 2:
                return math.nan, 1.0
            measured = part.emitted.sum() / rounds.sum()
            if self.replayed is not None:
                predicted = self.replayed.per_round(gamma)
            else:
                predicted = self._output(self.model, part.lengths.sum(axis=0) / rounds.sum())
            residuals = part.emitted - measured * rounds
            chance = residuals @ residuals / part.emitted.sum() ** 2
            chance *= rounds.size / (rounds.size - 1)
            excess.append(math.log(measured / predicted) ** 2 - chance)
        return max(float(np.mean(excess)), 0.0), len(excess) - 1.0

    def _output(self, model: AcceptanceModel, shares: Numbers) -> float:
        """Tokens that a round puts out, those cut at the end of an output taken off."""
        committed, cut = tokens_of_round(model, shares)
        return committed * self.evidence.output / (self.evidence.output + cut)


def jackknife(statistic: Callable[[Names], float], names: Names) -> tuple[float, float]:
    """Variance of a statistic that can be had without some clusters, and degrees of freedom.

    Efron & Tibshirani 1993, An Introduction to the Bootstrap, ch. 11; groups of clusters are left
    out where there are more than FOLDS: some of them larger by one, which makes the variance 1% too
    large at most. NaN with a single cluster.
    """
    folds = min(names.size, FOLDS)
    if folds < 2:
        return math.nan, 1.0
    fold_of = np.arange(names.size) % folds
    values = np.array([statistic(names[fold_of == fold]) for fold in range(folds)])
    spread = values - values.mean()
    return float(spread @ spread) * (folds - 1) / folds, folds - 1.0


def tokens_of_round(model: AcceptanceModel, shares: Numbers) -> tuple[float, float]:
    """Mean tokens that a round commits, and mean tokens cut where an output ends.

    With S_i the share of rounds that accept at least i tokens these are 1 + sum S_i, E[K], and
    E[K (K - 1)] / 2 E[K] = sum i S_i / E[K].

    Args:
        model: a position that it can't tell of has the alpha of the last one it can.
        shares: [gamma + 1] of rounds that draft 0, 1, ..., gamma tokens.
    """
    alphas: list[float] = []
    for position in range(1, shares.size):
        alpha = model.alpha_at(position)
        alphas.append(alphas[-1] if alpha is None else alpha)
    reaching = np.cumsum(shares[::-1])[::-1][1:]  # drafts of at least 1, 2, ... tokens
    survival = reaching * np.cumprod(alphas)
    committed = 1.0 + float(survival.sum())
    return committed, float(survival @ np.arange(1.0, shares.size)) / committed


def _lengths(parts: Mapping[int, Any], dropped: Names) -> dict[int, Numbers]:
    """gamma -> rounds that drafted 0, 1, ..., gamma tokens; gammas without rounds are missing."""
    sums = {
        gamma: part.lengths[_kept(part.names, dropped)].sum(axis=0) for gamma, part in parts.items()
    }
    return {gamma: lengths for gamma, lengths in sums.items() if lengths.sum() > 0.0}


def _lengths_at(rounds: Mapping[int, Numbers], gamma: int) -> Numbers | None:
    """Shares [gamma + 1] of draft lengths at a gamma, from those next to it, cut to its length."""
    near = {
        known: np.array(capped((rounds[known] / rounds[known].sum()).tolist(), gamma))
        for known in (
            max((known for known in rounds if known < gamma), default=None),
            min((known for known in rounds if known > gamma), default=None),
        )
        if known is not None
    }
    if len(near) < 2:
        return next(iter(near.values()), None)
    (below, low), (above, high) = near.items()
    share = (gamma - below) / (above - below)
    return np.asarray((1.0 - share) * low + share * high)


def _mean_length(shares: Numbers) -> float:
    """Of the drafts that are any."""
    drafting = 1.0 - float(shares[0])
    return float(shares @ np.arange(shares.size)) / drafting if drafting else 0.0


def _kept(names: Names, dropped: Names) -> NDArray[np.bool_]:
    """[names] those that are not dropped, which are sorted."""
    if not dropped.size:
        return np.ones(names.size, dtype=np.bool_)
    place = np.searchsorted(dropped, names)
    place[place == dropped.size] = 0
    return np.asarray(dropped[place] != names)


def _union(parts: Iterable[Names]) -> Names:
    return np.unique(np.concatenate(list(parts)))


def _ratio(numerator: float, denominator: float) -> float:
    return float(numerator) / float(denominator) if denominator else math.nan


def _log(ratio: float) -> float:
    return math.log(ratio) if ratio > 0.0 else math.nan
