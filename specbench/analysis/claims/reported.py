"""Numbers that are quoted again and again, held against the run's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import groupby

from specbench.analysis.claims.evidence import (
    Answer,
    Evidence,
    Side,
    claim,
    each,
    every,
    fewest,
    within,
)
from specbench.analysis.claims.view import Drafted, View
from specbench.analysis.fitted import GammaFit
from specbench.theory.differences import Ends, Term, weighted_sum

PUBLISHED = {"model": (1.8, 2.4), "medusa": (2.5, 3.2), "ngram": (1.4, 1.9)}
"""Kind -> the range of speedups that is commonly quoted for it."""

_KINDS = {"model": "draft model", "medusa": "Medusa", "ngram": "prompt lookup"}
_ALPHAS, _NEAR = (0.5, 0.8, 0.9), 0.05
_LIKE_COST = 0.05  # of T1, between drafters whose speedups are held against each other

_Place = tuple[Drafted, GammaFit]


@claim(
    "alpha-steps",
    "The step from α 0.5 to 0.8 buys more than that from 0.8 to 0.9",
    "Leviathan et al. 2023, arXiv 2211.17192, theorem 3.8",
)
def alpha_steps(view: View) -> Answer:
    """Speedups of drafters of like cost at these alphas, synthetic ones too, at one gamma."""
    found = []
    for places in _by_gamma(view):
        trio = [_nearest(places, alpha) for alpha in _ALPHAS]
        picked = [place for place in trio if place is not None]
        costs = [one.fit.c or 0.0 for one, _ in picked]
        if len(picked) == len(_ALPHAS) and max(costs) - min(costs) <= _LIKE_COST:
            found.append(_steps(picked))
    return every(
        found,
        "no γ has speedups at α within 0.05 of 0.5, of 0.8 and of 0.9 by drafters of like cost; "
        "measure with --drafter synthetic:0.5, synthetic:0.8 and synthetic:0.9",
    )


@claim(
    "published-ranges",
    "Speedups at batch 1: draft model 1.8–2.4×, Medusa 2.5–3.2×, prompt lookup 1.4–1.9×",
    "as commonly quoted; Spec-Bench measured 1.5–1.8, 1.4–1.7 and 1.6–1.7 (results/published)",
)
def published_ranges(view: View) -> Answer:
    """Each kind's best drafter and gamma, the geometric mean over tasks, coldest temperature."""
    found = []
    for kind, (low, high) in PUBLISHED.items():
        here = [one for one in view.drafted if one.kind == kind and one.setting.batch_size == 1]
        coldest = min((one.setting.temperature for one in here), default=0.0)
        means = _means_over_tasks(one for one in here if one.setting.temperature == coldest)
        if means:
            where, side = max(means, key=lambda mean: mean[1].value)
            quantity = f"speedup ({_KINDS[kind]}, published {low}–{high})"
            where = f"{where} (T = {coldest:g}, batch 1)"
            supports = within(side.interval, low, high)
            found.append(Evidence(where, quantity, (side,), supports=supports))
    return each(
        found,
        "no draft model, Medusa heads or ngram has a speedup at batch size 1 "
        "(--drafter model --drafter medusa --drafter ngram --batch-size 1)",
    )


def _by_gamma(view: View) -> Iterator[list[_Place]]:
    """What was measured of chains at one temperature, batch size and gamma, of one target."""
    places = [
        (one, point)
        for one in view.everything
        for point in one.fit.points
        if one.fit.draft_form == "chain" and point.alpha is not None and point.speedup
    ]

    def key(place: _Place) -> tuple[str, str, float, int, int]:
        setting = place[0].setting
        machine = (setting.target, setting.backend)
        return *machine, setting.temperature, setting.batch_size, place[1].gamma

    for _, alike in groupby(sorted(places, key=key), key):
        yield list(alike)


def _nearest(places: Iterable[_Place], alpha: float) -> _Place | None:
    def distance(place: _Place) -> float:
        return abs((place[1].alpha or 0.0) - alpha)

    return min((p for p in places if distance(p) <= _NEAR), key=distance, default=None)


def _steps(picked: list[_Place]) -> Evidence:
    """The first step up less the second: 2 x the middle speedup less the outer two."""
    sides, terms = [], []
    for (one, point), weight in zip(picked, (-1.0, 2.0, -1.0), strict=True):
        label = f"α {point.alpha:.2f}, {one.name} {one.setting.task}"
        sides.append(Side(label, point.speedup or 0.0, point.speedup_ci))
        if point.speedup is not None and point.speedup_ci is not None:
            terms.append(Term(weight, point.speedup, point.speedup_ci))
    setting, gamma = picked[0][0].setting, picked[0][1].gamma
    where = f"γ = {gamma} (T = {setting.temperature:g}, batch {setting.batch_size})"
    if len(terms) < len(picked):
        return Evidence(where, "speedup", tuple(sides))
    margin, ends = weighted_sum(terms)
    clusters = fewest([one.clusters for one, _ in picked])
    compared = Side("first step less second", margin, ends)
    return Evidence(
        where, "speedup", tuple(sides), margin, ends, compared=compared, clusters=clusters
    )


def _means_over_tasks(found: Iterable[Drafted]) -> list[tuple[str, Side]]:
    """Each drafter and gamma: which, and the geometric mean of its speedups over tasks."""
    speeds: dict[str, list[tuple[float, Ends | None]]] = {}
    for one in found:
        for point in one.fit.points:
            if point.speedup:
                name = f"{one.name} γ = {point.gamma}"
                speeds.setdefault(name, []).append((point.speedup, point.speedup_ci))
    return [(name, _geometric_mean(measured)) for name, measured in speeds.items()]


def _geometric_mean(measured: list[tuple[float, Ends | None]]) -> Side:
    count = len(measured)
    label = "mean of 1 task" if count == 1 else f"mean of {count} tasks"
    value = math.exp(sum(math.log(speedup) for speedup, _ in measured) / count)
    parts = [Term.log(1.0 / count, speedup, ends) for speedup, ends in measured if ends]
    terms = [part for part in parts if part is not None]
    if len(terms) < count:
        return Side(label, value)
    low, high = weighted_sum(terms)[1]
    return Side(label, value, (math.exp(low), math.exp(high)))
