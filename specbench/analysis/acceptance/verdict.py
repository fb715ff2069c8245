"""Whether one alpha describes a drafter's acceptance, and which model predicts if it does not.

From the rounds of all gammas of a group to counts by conversation and position, to a verdict:

1. i.i.d. is tested, one alpha against one per position (:mod:`specbench.theory.iid_test`);
2. where it is rejected, the model that predicts best what it has not seen takes over
   (:mod:`specbench.theory.model_choice`), which may still be one alpha;
3. where it is not, or can't be tested, one alpha stays: the closed form.

Chains of fixed length only. Rounds that drafted nothing have nothing to say; a shorter draft is
evaluated as far as it went, and tokens cut at the end of an output were evaluated all the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from specbench.analysis.pooling import Raw
from specbench.analysis.shown.names import counted
from specbench.records.conversations import rows_of
from specbench.records.schema import DraftForm
from specbench.records.steps import integers
from specbench.theory.acceptance import (
    AcceptanceModel,
    BetaGeometric,
    Counts,
    Iid,
    MonotoneHazard,
    Sample,
    by_cluster,
    totals,
)
from specbench.theory.iid_test import MIN_CLUSTERS, IidTest, iid_test
from specbench.theory.intervals import ratio_interval
from specbench.theory.model_choice import ModelChoice, choose_model
from specbench.theory.overdispersion import Overdispersion, overdispersion

SIGNIFICANT = 0.05
"""I.i.d. acceptance is rejected where its p-value is at most this."""

_UNTOLD = "Whether acceptance is i.i.d. can't be told"
_DRAWN = "an α that differs from round to round"


@dataclass(frozen=True)
class Position:
    """Acceptance at one position, over all gammas that reach it.

    Attributes:
        alpha: accepted / evaluated.
        alpha_ci: its 95% interval by conversation; None where there is too little for one.
        evaluated: rounds that evaluated it.
    """

    alpha: float
    alpha_ci: tuple[float, float] | None
    evaluated: int


@dataclass(frozen=True)
class Acceptance:
    """The verdict on a group's acceptance.

    Attributes:
        alpha: accepted / evaluated over all positions, gammas and conversations.
        positions: 1, 2, ... up to the deepest one evaluated.
        test: of one alpha against one per position.
        spread: how much alpha differs between conversations; None where it can't be told.
        choice: the models by their error at what was left out; None where nothing could be.
        model: what predictions use.
    """

    alpha: float
    positions: tuple[Position, ...]
    test: IidTest
    spread: Overdispersion | None
    choice: ModelChoice | None
    model: AcceptanceModel

    @property
    def rejected(self) -> bool | None:
        """Whether acceptance is not i.i.d.; None where it can't be tested."""
        return None if self.test.p_value is None else self.test.p_value <= SIGNIFICANT

    @property
    def sentence(self) -> str:
        """The verdict and what predictions make of it, for people."""
        p_value, last = self.test.p_value, self.test.positions  # deeper ones: a handful of tokens
        if p_value is None:
            return f"{_UNTOLD}: {self.untested}; predictions use one α of {self.alpha:.2f}."
        p_text = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"
        if not self.rejected:
            return (
                f"Acceptance may be i.i.d. ({p_text}); predictions use one α of {self.alpha:.2f}."
            )
        alphas = [position.alpha for position in self.positions[:last]]
        first, deepest = self.model.alpha_at(1), self.model.alpha_at(last)
        if isinstance(self.model, Iid):
            says = (
                f"at positions 1 to {last} it is {min(alphas):.2f} to {max(alphas):.2f}, but "
                f"no other fitted model predicts better; predictions keep one α of {self.alpha:.2f}"
            )
        elif isinstance(self.model, BetaGeometric):
            says = (
                f"it rises with depth from {first:.2f} to {deepest:.2f}; predictions use {_DRAWN}"
            )
        elif isinstance(self.model, MonotoneHazard):
            says = (
                f"it falls with depth from {first:.2f} to {deepest:.2f}; predictions use a "
                "falling hazard"
            )
        else:
            says = (
                f"at positions 1 to {last} it is {min(alphas):.2f} to {max(alphas):.2f}, neither "
                "rising nor falling; predictions use an α for each position"
            )
        return f"Acceptance is not i.i.d. ({p_text}): {says}."

    @property
    def spread_sentence(self) -> str:
        """How much conversations differ; empty where that is not shown."""
        if self.spread is None or self.spread.low <= 0.0:
            return ""
        return (
            f"Between conversations α has a standard deviation of {self.spread.sd:.2f} "
            f"({self.spread.low:.2f}–{self.spread.high:.2f}) that their rounds don't explain."
        )

    @property
    def untested(self) -> str:
        """Why it can't be tested."""
        if self.test.positions < 2:
            count = "only one" if 0.0 < self.alpha < 1.0 else "no"
            return f"{count} position was evaluated often enough, with both outcomes"
        return f"{counted(self.test.clusters, 'conversation')}, it takes {MIN_CLUSTERS}"


def acceptance_alike(found: Acceptance) -> tuple[bool | None, str]:
    """What verdicts that can be told together have in common."""
    if found.rejected is None:
        return None, found.untested
    return found.rejected, found.model.name


def acceptance_together(found: Sequence[Acceptance]) -> str:
    """One verdict with its own numbers, or several that are alike in one sentence."""
    first = found[0]
    if len(found) == 1:
        return f"{first.sentence} {first.spread_sentence}".strip()
    alphas = [one.alpha for one in found]
    span = f"one α each, {min(alphas):.2f} to {max(alphas):.2f}"
    if first.rejected is None:
        return f"{_UNTOLD}: {first.untested}; predictions use {span}."
    if not first.rejected:
        return f"Acceptance may be i.i.d.; predictions use {span}."
    says = {
        Iid.name: f"no other fitted model predicts better; predictions keep {span}",
        BetaGeometric.name: f"it rises with depth; predictions use {_DRAWN}",
        MonotoneHazard.name: "it falls with depth; predictions use a falling hazard",
    }
    free = "it neither rises nor falls with depth; predictions use an α for each position"
    return f"Acceptance is not i.i.d.: {says.get(first.model.name, free)}."


def judge_acceptance(form: DraftForm, raw: Mapping[int, Raw]) -> Acceptance | None:
    """The verdict on one group.

    Args:
        form: what gamma means for the drafter.
        raw: gamma -> rounds and requests of that gamma's cells.

    Returns:
        None for trees and adaptive drafts, and where no token was evaluated.
    """
    return judge(sample_of(raw)) if form == "chain" else None


def judge(sample: Sample) -> Acceptance | None:
    """The verdict on counts; None where no token was evaluated."""
    one = Iid.fit(sample)
    if one is None:
        return None
    test, choice = iid_test(sample), choose_model(sample)
    model = _chosen(one, test, choice)
    return Acceptance(one.alpha, _positions(sample), test, overdispersion(sample), choice, model)


def model_for(sample: Sample) -> AcceptanceModel | None:
    """What predictions use, as :func:`judge` decides; None where no token was evaluated."""
    one = Iid.fit(sample)
    if one is None:
        return None
    test = iid_test(sample)
    return _chosen(one, test, choose_model(sample) if _rejects(test) else None)


def _rejects(test: IidTest) -> bool:
    return test.p_value is not None and test.p_value <= SIGNIFICANT


def _chosen(one: Iid, test: IidTest, choice: ModelChoice | None) -> AcceptanceModel:
    return choice.winner if choice is not None and _rejects(test) else one


def sample_of(raw: Mapping[int, Raw]) -> Sample:
    """Counts by conversation and position, of every gamma that drafted anything."""
    sample = {gamma: _counts(gamma, *tables) for gamma, tables in raw.items()}
    return {gamma: counts for gamma, counts in sample.items() if counts.names.size}


def _counts(gamma: int, rounds: Mapping[str, object], requests: Mapping[str, object]) -> Counts:
    names, cluster = rows_of(rounds, requests)
    drafted = integers(rounds, "num_drafted") > 0
    cluster = cluster[drafted]

    def reaching(column: str) -> np.ndarray:
        """Rounds of each cluster whose count is at least 1, 2, ..., gamma: [clusters, gamma]."""
        count = integers(rounds, column)[drafted]
        cells = np.bincount(cluster * (gamma + 1) + count, minlength=names.size * (gamma + 1))
        exactly = cells.reshape(names.size, gamma + 1)
        return np.cumsum(exactly[:, ::-1], axis=1)[:, ::-1][:, 1:].astype(np.float64)

    counts = Counts(names, reaching("num_accepted"), reaching("num_evaluated"))
    return counts.rows(counts.evaluated[:, 0] > 0.0)


def _positions(sample: Sample) -> tuple[Position, ...]:
    _, accepted, evaluated = by_cluster(sample)
    found = []
    for place, (yes, total) in enumerate(zip(*totals(sample), strict=True)):
        interval = ratio_interval(accepted[:, place], evaluated[:, place])
        found.append(Position(float(yes / total), interval.ends if interval else None, int(total)))
    return tuple(found)
