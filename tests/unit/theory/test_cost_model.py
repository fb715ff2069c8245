from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specbench.theory.cost_model import CostFit, fit_costs, fit_totals
from specbench.theory.round_lines import RoundLines, RoundTimes, StepTimes
from specbench.theory.scatter import scatter_of
from tests.acceptance_worlds import iid, independent_rounds
from tests.cost_worlds import World, exact

GAMMAS = (1, 2, 3, 4, 6, 8)
NAMES = np.array(["c0", "c1", "c2"])
PLAIN = StepTimes(NAMES, np.full(3, 20.0), np.full(3, 10.0))  # T1 is 2 s
WORLD = World()
TRUE = {"d0": 0.05, "c": 0.1, "v0": 0.97, "v_slope": 0.03, "o": 0.04}


def noiseless(gammas: tuple[int, ...] = GAMMAS) -> dict[int, RoundTimes]:
    return exact({g: (2 * (0.05 + 0.1 * g), 2 * (0.97 + 0.03 * g), 2 * 0.04) for g in gammas})


def fit(gammas: tuple[int, ...] = GAMMAS) -> CostFit:
    found = fit_costs(noiseless(gammas), PLAIN)
    assert found is not None
    return found


@pytest.mark.parametrize("gammas", [GAMMAS, (1, 4, 8), (2, 3, 5)])
def test_noiseless_rounds_give_the_costs_exactly(gammas: tuple[int, ...]) -> None:
    found = fit(gammas)
    for name, value in TRUE.items():
        assert getattr(found, name).value == pytest.approx(value, abs=1e-9), name
    assert found.fixed.value == pytest.approx(1.06)
    assert found.per_token.value == pytest.approx(0.13)
    for gamma in (0, 5, 16):
        assert found.round_time(gamma).value == pytest.approx(WORLD.round_time(gamma))
        parts = (found.draft(gamma), found.verify(gamma), found.o.value)
        assert sum(parts) == pytest.approx(found.round_time(gamma).value)
    assert found.scatter == pytest.approx(0.0, abs=1e-9)
    assert found.idle is None


def test_rounds_that_drafted_nothing_are_on_no_line() -> None:
    times = noiseless()
    for gamma, part in times.items():
        lengths = part.lengths.copy()
        lengths[:, 0] = 5.0
        times[gamma] = RoundTimes(
            part.names, lengths, part.draft_s, part.verify_s, part.other_s, np.full(3, 11.0)
        )
    found = fit_costs(times, PLAIN)
    assert found is not None
    assert found.idle == pytest.approx(11.0 / 5.0 / 2.0)
    assert found.v0.value == pytest.approx(0.97)


def test_totals_tell_only_the_sums() -> None:
    found = fit_totals({gamma: WORLD.round_time(gamma) for gamma in GAMMAS})
    assert found is not None
    assert (found.d0, found.c, found.v0, found.v_slope, found.o) == (None,) * 5
    assert (found.draft(4), found.verify(4)) == (None, None)
    assert found.fixed.value == pytest.approx(1.06)
    assert found.per_token.value == pytest.approx(0.13)
    assert found.round_time(5).value == pytest.approx(WORLD.round_time(5))


def test_totals_with_noise_have_intervals() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        found = fit_totals({g: WORLD.round_time(g) * (1 + 0.02 * rng.normal()) for g in GAMMAS})
        assert found is not None
        low, high = found.per_token.ci
        hits += low < 0.13 < high
    assert hits / 200 >= 0.88


def test_two_gammas_one_length_or_no_baseline_are_not_enough() -> None:
    assert fit_costs(noiseless((1, 4)), PLAIN) is None
    assert fit_totals({1: 1.2, 4: 1.5}) is None
    nothing = StepTimes(NAMES[:0], np.array([]), np.array([]))
    assert fit_costs(noiseless(), nothing) is None
    same = noiseless((2, 2, 2))
    assert RoundLines.of(same) is None


@pytest.mark.parametrize("clusters", [8, 24])
def test_intervals_cover(clusters: int) -> None:
    generator = np.random.default_rng(clusters)
    counted = dict.fromkeys((*TRUE, "fixed", "per_token", "round_time"), 0)
    runs = 200
    samples = independent_rounds(iid(0.7), runs, clusters, 20, GAMMAS, seed=1)
    for sample in samples:
        evidence, _ = WORLD.evidence(sample, generator)
        found = fit_costs(evidence.times, evidence.plain)
        assert found is not None
        truth = {**TRUE, "fixed": 1.06, "per_token": 0.13}
        for name, value in truth.items():
            low, high = getattr(found, name).ci
            counted[name] += low <= value <= high
        low, high = found.round_time(5).ci
        counted["round_time"] += low <= WORLD.round_time(5) <= high
    for name, hits in counted.items():
        assert 0.90 <= hits / runs <= 0.99, (name, hits / runs)


@pytest.mark.parametrize("cell", [0.0, 0.02])
@pytest.mark.parametrize("clusters", [8, 24])
def test_intervals_cover_where_cells_differ(clusters: int, cell: float) -> None:
    world, generator, runs = World(cell=cell), np.random.default_rng(5), 100
    truth = {**TRUE, "fixed": 1.06, "per_token": 0.13}
    inside = []
    for sample in independent_rounds(iid(0.7), runs, clusters, 20, GAMMAS, seed=1):
        evidence, _ = world.evidence(sample, generator)
        found = fit_costs(evidence.times, evidence.plain, evidence.plain_cells)
        assert found is not None
        ends = [getattr(found, name).ci for name in truth] + [found.round_time(5).ci]
        values = [*truth.values(), WORLD.round_time(5)]
        inside.append([low <= at <= high for (low, high), at in zip(ends, values, strict=True)])
    shares = np.mean(inside, axis=0)
    assert (shares >= 0.90).all(), shares  # 0.30 to 0.60 by clusters alone at 2%
    assert shares.mean() <= 0.985, shares


def test_a_slow_cell_moves_the_costs_by_its_pulls() -> None:
    (sample,) = independent_rounds(iid(0.7), 1, 24, 20, GAMMAS, seed=1)
    evidence, _ = WORLD.evidence(sample, np.random.default_rng(0))
    lines = RoundLines.of(evidence.times, evidence.plain)
    assert lines is not None
    part = evidence.times[6]
    seconds = {name: 1.001 * getattr(part, name) for name in ("draft_s", "verify_s", "other_s")}
    slow = RoundLines.of({**evidence.times, 6: replace(part, **seconds)}, evidence.plain)
    assert slow is not None
    moved = (slow.at(np.ones(24)) - lines.at(np.ones(24))) / evidence.plain.step_s
    assert moved == pytest.approx(0.001 * lines.cell_pulls()[:, 4], rel=0.1, abs=2e-5)


def test_few_clusters_may_be_refused_an_interval() -> None:
    found = fit_costs(noiseless(), PLAIN, intervals=False)
    assert found is not None
    assert (found.c.ci, found.round_time(4).ci) == (None, None)


def test_cells_off_the_line_and_baselines_apart_make_the_scatter() -> None:
    scatter = scatter_of(np.array([0.03, -0.03, 0.0]), np.array([1.0, 1.0]))
    assert scatter is not None
    assert (scatter.variance, scatter.freedom) == (pytest.approx(0.0018 / 2), 2)
    apart = scatter_of(np.array([0.0, 0.0]), np.array([1.0, np.exp(0.02)]))
    assert apart is not None
    assert (apart.variance, apart.freedom) == (pytest.approx(0.02**2 / 2), 1)
    assert scatter_of(np.array([0.0, 0.0]), np.array([1.0])) is None


def test_the_line_is_least_sure_far_out() -> None:
    lines = RoundLines.of(noiseless())
    assert lines is not None
    assert lines.leverage(3.0) < lines.leverage(8.0) < lines.leverage(16.0)
