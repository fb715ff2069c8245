"""What is known of acceptance position by position, and four models of it.

A draft is evaluated until one token is rejected, so position i is reached by rounds that accepted
everything before it. The chance that it is then accepted, alpha at position i, says all there is to
say about tokens per round: E = 1 + alpha_1 + alpha_1 alpha_2 + ...

=================  =================================================================================
model              alpha at position i
=================  =================================================================================
Iid                one alpha; the closed form
BetaGeometric      alpha is drawn from a Beta(a, b) once per round: (a + i - 1) / (a + b + i - 1).
                   Rounds that got far were easy ones, so it can only rise with depth
MonotoneHazard     free, but never rising with depth, as with draft heads that see less and less
PerPosition        free at each measured position
=================  =================================================================================

All are fitted by maximum likelihood on counts added up over gammas and clusters: given that a
position is evaluated, its acceptances are binomial.

>>> counts = Counts(np.array(["a"]), np.array([[80.0, 40.0]]), np.array([[100.0, 80.0]]))
>>> [model.fit({2: counts}).expected_tokens(2) for model in (Iid, PerPosition)]
[2.1111111111111107, 2.2]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from specbench.errors import SpecbenchError
from specbench.theory import closed_form
from specbench.theory.clusters import Numbers


@dataclass(frozen=True, eq=False)
class Counts:
    """Rounds of one gamma by cluster and position, chains only.

    Attributes:
        names: [clusters] all different; equal names of two gammas are the same conversation.
        accepted: [clusters, gamma] rounds that accepted position 1, 2, ....
        evaluated: [clusters, gamma] rounds that evaluated it; the first column counts the rounds.
    """

    names: NDArray[np.str_]
    accepted: Numbers
    evaluated: Numbers

    def __post_init__(self) -> None:
        if not self.names.shape[:1] == self.accepted.shape[:1] == self.evaluated.shape[:1] or (
            self.accepted.shape != self.evaluated.shape
        ):
            raise SpecbenchError(
                f"counts do not fit together: {self.names.shape} clusters, "
                f"{self.accepted.shape} accepted, {self.evaluated.shape} evaluated"
            )

    def rows(self, mask: NDArray[np.bool_]) -> Counts:
        """The clusters that a mask [clusters] picks."""
        return Counts(self.names[mask], self.accepted[mask], self.evaluated[mask])


Sample = Mapping[int, Counts]
"""gamma -> its counts."""


def by_cluster(sample: Sample) -> tuple[NDArray[np.str_], Numbers, Numbers]:
    """Counts added up over gammas, which share positions.

    Returns:
        the sorted names [clusters], accepted and evaluated [clusters, largest gamma].
    """
    names = np.unique(np.concatenate([counts.names for counts in sample.values()]))
    accepted, evaluated = np.zeros((2, names.size, max(sample)))
    for gamma, counts in sample.items():
        where = np.searchsorted(names, counts.names)
        accepted[where, :gamma] += counts.accepted
        evaluated[where, :gamma] += counts.evaluated
    return names, accepted, evaluated


def totals(sample: Sample) -> tuple[Numbers, Numbers]:
    """Accepted and evaluated [deepest evaluated position] over all gammas and clusters."""
    accepted, evaluated = np.zeros((2, max(sample, default=0)))
    for gamma, counts in sample.items():
        accepted[:gamma] += counts.accepted.sum(axis=0)
        evaluated[:gamma] += counts.evaluated.sum(axis=0)
    deepest = int(np.count_nonzero(evaluated))  # a position is only reached through all before it
    return accepted[:deepest], evaluated[:deepest]


class AcceptanceModel(Protocol):
    """A model of acceptance by position."""

    name: ClassVar[str]

    def alpha_at(self, position: int) -> float | None:
        """Chance that position 1, 2, ... is accepted once evaluated; None where unknown."""
        ...

    def expected_tokens(self, gamma: int) -> float | None:
        """Tokens per round of a draft of gamma tokens; None where a position is unknown."""
        ...

    @classmethod
    def fit(cls, sample: Sample) -> Self | None:
        """The maximum-likelihood fit; None where the counts don't determine the model."""
        ...


class _ByPosition:
    """Tokens per round as the sum of survival."""

    def alpha_at(self, position: int) -> float | None:
        raise NotImplementedError

    def expected_tokens(self, gamma: int) -> float | None:
        """1 + sum of survival; None where a position that may be reached is unknown."""
        total = survival = 1.0
        for position in range(1, gamma + 1):
            alpha = self.alpha_at(position)
            if alpha is None:
                return None
            survival *= alpha
            total += survival
            if survival == 0.0:
                break
        return total


@dataclass(frozen=True)
class Iid:
    """One alpha at all positions: accepted / evaluated (Leviathan et al. 2023)."""

    name: ClassVar[str] = "iid"
    alpha: float

    def alpha_at(self, position: int) -> float:
        """The same everywhere."""
        return self.alpha

    def expected_tokens(self, gamma: int) -> float:
        """The closed form."""
        return closed_form.expected_tokens(self.alpha, gamma)

    @classmethod
    def fit(cls, sample: Sample) -> Self | None:
        """None if nothing was evaluated."""
        accepted, evaluated = totals(sample)
        return cls(float(accepted.sum() / evaluated.sum())) if evaluated.size else None


@dataclass(frozen=True)
class BetaGeometric(_ByPosition):
    """Alpha drawn per context: once per round, from a Beta with this mean and correlation.

    The shifted beta-geometric of Weinberg & Gladen 1986, "The Beta-Geometric Distribution Applied
    to Comparative Fecundability Studies", with a = mean (1 - correlation) / correlation and
    b = (1 - mean) (1 - correlation) / correlation, so that correlation 0 is the i.i.d. limit.

    Attributes:
        mean: of the Beta, alpha at position 1.
        correlation: 1 / (a + b + 1), of two acceptances in one round.
    """

    name: ClassVar[str] = "beta-geometric"
    mean: float
    correlation: float

    def alpha_at(self, position: int) -> float:
        """(a + i - 1) / (a + b + i - 1)."""
        fixed, seen = 1.0 - self.correlation, (position - 1) * self.correlation
        return (self.mean * fixed + seen) / (fixed + seen)

    @classmethod
    def fit(cls, sample: Sample) -> Self | None:
        """None below two evaluated positions: one alpha can't tell a mean from a spread."""
        accepted, evaluated = totals(sample)
        if evaluated.size < 2:
            return None
        rejected, before = evaluated - accepted, np.arange(evaluated.size, dtype=np.float64)

        def loss(parameters: Numbers) -> tuple[float, Numbers]:
            """Minus the mean log-likelihood, and its gradient."""
            mean, correlation = parameters
            fixed, seen = 1.0 - correlation, before * correlation
            yes, no, both = mean * fixed + seen, (1.0 - mean) * fixed, fixed + seen
            value = accepted @ np.log(yes) + rejected.sum() * np.log(no) - evaluated @ np.log(both)
            slope_mean = fixed * (accepted / yes).sum() - rejected.sum() / (1.0 - mean)
            slope_correlation = (
                accepted @ ((before - mean) / yes)
                - rejected.sum() / fixed
                - evaluated @ ((before - 1.0) / both)
            )
            size = evaluated.sum()
            return -value / size, -np.array([slope_mean, slope_correlation]) / size

        first = float(np.clip(accepted[0] / evaluated[0], 0.01, 0.99))
        found = optimize.minimize(
            loss,
            np.array([first, 0.1]),
            jac=True,
            method="L-BFGS-B",
            bounds=[(1e-9, 1.0 - 1e-9), (0.0, 1.0 - 1e-6)],
            options={"ftol": 1e-12, "gtol": 1e-8},
        )
        return cls(float(found.x[0]), float(found.x[1]))


@dataclass(frozen=True)
class MonotoneHazard(_ByPosition):
    """Alpha that never rises with depth; beyond the last measured position its value is held.

    Holding it is optimistic where alpha goes on falling.

    Attributes:
        alphas: of positions 1, 2, ..., not increasing.
    """

    name: ClassVar[str] = "monotone-hazard"
    alphas: tuple[float, ...]

    def alpha_at(self, position: int) -> float:
        """The position's own, or that of the last one."""
        return self.alphas[min(position, len(self.alphas)) - 1]

    @classmethod
    def fit(cls, sample: Sample) -> Self | None:
        """Pool adjacent violators (Barlow et al. 1972); None if nothing was evaluated."""
        accepted, evaluated = totals(sample)
        if not evaluated.size:
            return None
        fitted = optimize.isotonic_regression(
            accepted / evaluated, weights=evaluated, increasing=False
        )
        return cls(tuple(np.clip(fitted.x, 0.0, 1.0).tolist()))


@dataclass(frozen=True)
class PerPosition(_ByPosition):
    """A free alpha at each measured position; nothing is said of those behind.

    Attributes:
        alphas: of positions 1, 2, ....
    """

    name: ClassVar[str] = "per-position"
    alphas: tuple[float, ...]

    def alpha_at(self, position: int) -> float | None:
        """Accepted / evaluated at the position; None beyond the last one evaluated."""
        return self.alphas[position - 1] if position <= len(self.alphas) else None

    @classmethod
    def fit(cls, sample: Sample) -> Self | None:
        """None if nothing was evaluated."""
        accepted, evaluated = totals(sample)
        return cls(tuple((accepted / evaluated).tolist())) if evaluated.size else None


MODELS: tuple[type[AcceptanceModel], ...] = (Iid, BetaGeometric, MonotoneHazard, PerPosition)
"""All models, the simplest first."""
