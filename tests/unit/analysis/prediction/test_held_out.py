from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.fitted import GroupFit
from specbench.analysis.prediction.held_out import HeldOut, Prediction, accuracy, held_out, predict
from specbench.analysis.prediction.left_out import jackknife, tokens_of_round
from specbench.analysis.rounds.evidence import Evidence, evidence_of
from specbench.records.store import load_run
from specbench.theory import closed_form
from specbench.theory.acceptance import Counts, Iid, MonotoneHazard, PerPosition
from specbench.theory.clusters import Numbers
from tests.acceptance_worlds import (
    DECAY,
    beta_prompts,
    decaying,
    iid,
    independent_rounds,
    true_tokens,
)
from tests.cost_worlds import World
from tests.simulate import SimulatedDrafter, simulate_run

GAMMAS = (1, 2, 3, 4, 6, 8)
WORLD = World()


def perfect(alphas: Numbers, gammas: tuple[int, ...] = GAMMAS) -> tuple[Evidence, dict[int, float]]:
    """A world without noise, of expected counts."""
    names = np.array([f"c{index}" for index in range(6)])
    sample = {}
    for gamma in gammas:
        survival = np.cumprod(alphas[:gamma])
        evaluated = 1e4 * np.concatenate([[1.0], survival[:-1]])
        sample[gamma] = Counts(names, np.tile(1e4 * survival, (6, 1)), np.tile(evaluated, (6, 1)))
    still = replace(WORLD, context=0.0, noise=0.0)
    return still.evidence(sample, np.random.default_rng(0))


@pytest.mark.parametrize("alphas", [np.full(8, 0.7), DECAY])
def test_without_noise_every_gamma_is_predicted_exactly(alphas: Numbers) -> None:
    found = predict(*perfect(alphas))
    assert found is not None
    inner = [cell for cell in found.cells if not cell.extrapolated]
    assert [cell.gamma for cell in inner] == [2, 3, 4, 6]
    for cell in inner:
        truth = true_tokens(alphas[: cell.gamma]) / WORLD.round_time(cell.gamma)
        assert cell.measured == pytest.approx(truth)
        assert cell.speedup == pytest.approx(truth, rel=1e-6)
    assert found.errors.median < 1e-6
    assert found.errors_closed_form.worst > 0.05


def test_a_gamma_left_out_has_no_say_in_its_own_prediction() -> None:
    """Whatever is measured at it, the others predict the same."""
    (sample,) = independent_rounds(iid(0.7), 1, 12, 20, GAMMAS, seed=3)
    evidence, speedups = WORLD.evidence(sample, np.random.default_rng(3))
    before = held_out(evidence, 4, speedups[4])
    counts, times = evidence.sample[4], evidence.times[4]
    strange = replace(
        evidence,
        sample={**sample, 4: Counts(counts.names, counts.evaluated, counts.evaluated)},
        times={**evidence.times, 4: replace(times, verify_s=9 * times.verify_s)},
    )
    after = held_out(strange, 4, 0.3)
    assert before is not None
    assert after is not None
    assert (after.speedup, after.closed_form) == (before.speedup, before.closed_form)
    assert after.measured == 0.3


def test_the_round_s_other_time_is_in_the_prediction() -> None:
    dear = replace(WORLD, o=0.5, context=0.0, noise=0.0)
    evidence, _ = perfect(np.full(8, 0.7))
    evidence, speedups = dear.evidence(evidence.sample, np.random.default_rng(0))
    found = predict(evidence, speedups)
    assert found is not None
    assert found.at(3).speedup == pytest.approx(true_tokens([0.7] * 3) / dear.round_time(3))


def cells(kind: str, runs: int, clusters: int, cell: float = 0.0) -> Iterator[Prediction]:
    worlds = {"iid": iid(0.7), "decaying": decaying(), "prompts": beta_prompts(0.7, 0.12)}
    generator = np.random.default_rng(7)
    world = replace(WORLD, cell=cell)
    for sample in independent_rounds(worlds[kind], runs, clusters, 20, GAMMAS, seed=5):
        found = predict(*world.evidence(sample, generator))
        assert found is not None
        yield found


@pytest.mark.parametrize(
    ("kind", "runs", "clusters", "cell"),
    [
        ("iid", 20, 24, 0.0),
        ("iid", 20, 8, 0.02),
        ("decaying", 20, 24, 0.0),
        ("decaying", 20, 24, 0.02),
        (
            "prompts",
            60,
            24,
            0.01,
        ),  # 93.5% are inside: 20 runs would not tell that from 90%
    ],
)
def test_what_is_measured_lies_inside_the_interval(
    kind: str, runs: int, clusters: int, cell: float
) -> None:
    found = [one for run in cells(kind, runs, clusters, cell) for one in run.cells]
    for extrapolated in (False, True):
        inside = np.mean([one.inside for one in found if one.extrapolated == extrapolated])
        assert inside >= 0.90, (extrapolated, inside)
    errors = np.abs([one.error for one in found])
    assert np.median(errors) <= 0.05
    widths = [math.log(one.ci[1] / one.ci[0]) for one in found]
    assert np.median(widths) < 0.35  # and not by being wide


def group(
    folder: Path, drafter: SimulatedDrafter, seed: int, name: str = "model:x", **options: object
) -> GroupFit:
    options = {"gammas": GAMMAS, "prompts": 24, "tokens": 64, **options}
    run = simulate_run(
        folder,
        {name: drafter},
        v=lambda gamma, _: 1 + 0.04 * gamma,
        overhead=0.05,
        seed=seed,
        **options,  # type: ignore[arg-type]
    )
    (found,) = fit_run(load_run(run)).groups
    return found


@pytest.mark.parametrize("alphas", [(), tuple(DECAY)], ids=["iid", "decaying"])
def test_a_simulated_run_is_predicted(alphas: tuple[float, ...], tmp_path: Path) -> None:
    drafter = SimulatedDrafter(0.7, 0.08, d0=0.03, alphas=alphas)
    groups = [group(tmp_path / str(seed), drafter, seed) for seed in range(8)]
    found = [cell for one in groups for cell in one.prediction.cells]
    assert len(found) == 8 * len(GAMMAS)
    assert np.mean([cell.inside for cell in found]) >= 0.90
    assert np.median([abs(cell.error) for cell in found]) <= 0.05
    closed = np.median([abs(cell.error_closed_form) for cell in found])
    assert closed > 0.05
    for one in groups:
        assert one.costs.d0.value == pytest.approx(0.03, abs=0.01)
        assert one.costs.c.value == pytest.approx(0.08, rel=0.05)
        assert one.costs.v_slope.value == pytest.approx(0.04, abs=0.01)
        assert one.costs.o.value == pytest.approx(0.05, rel=0.05)


def test_short_and_missing_drafts_are_predicted(tmp_path: Path) -> None:
    rare = SimulatedDrafter(0.7, 0.01, d0=0.02, draft_chance=0.5)
    one = group(tmp_path / "run", rare, 1)
    assert one.costs.idle == pytest.approx(1.0 + 0.05 + 0.02, rel=0.02)
    assert np.median([abs(cell.error) for cell in one.prediction.cells]) < 0.05


def test_at_a_larger_batch_times_come_from_blocks(tmp_path: Path) -> None:
    one = group(tmp_path / "run", SimulatedDrafter(0.7, 0.08), 2, batch_sizes=(4,))
    assert one.costs.c.value == pytest.approx(0.08, rel=0.05)
    assert all(cell.ci is not None for cell in one.prediction.cells)
    assert np.median([abs(cell.error) for cell in one.prediction.cells]) < 0.06


def test_cut_tokens_are_predicted(tmp_path: Path) -> None:
    """Short outputs lose much at their end; what is predicted is what is left."""
    drafter = SimulatedDrafter(0.8, 0.05)
    one = group(tmp_path / "run", drafter, 4, tokens=17, prompts=120)
    for point in one.points:
        shares = np.eye(point.gamma + 1)[-1]
        committed, cut = tokens_of_round(Iid(0.8), shares)
        assert point.cut_share == pytest.approx(cut / (16 + cut), abs=0.02)
        assert committed == pytest.approx(closed_form.expected_tokens(0.8, point.gamma))
    assert one.points[-1].cut_share > 0.08
    assert one.prediction.errors.median < 0.03


def test_positions_that_no_other_gamma_has_keep_the_last_alpha() -> None:
    known = tokens_of_round(PerPosition((0.8, 0.5)), np.eye(5)[-1])
    assert known == tokens_of_round(MonotoneHazard((0.8, 0.5)), np.eye(5)[-1])


def test_drafts_of_all_lengths_are_weighted() -> None:
    shares = np.array([0.25, 0.5, 0.25])
    committed, cut = tokens_of_round(Iid(0.5), shares)
    assert committed == pytest.approx(1 + 0.75 * 0.5 + 0.25 * 0.25)
    assert cut == pytest.approx((0.375 + 2 * 0.0625) / committed)


def test_the_jackknife_of_a_mean_is_its_variance() -> None:
    values = np.random.default_rng(0).normal(size=12)
    names = np.array([f"c{index:02d}" for index in range(12)])

    def mean(dropped: np.ndarray) -> float:
        return float(values[~np.isin(names, dropped)].mean())

    variance, freedom = jackknife(mean, names)
    assert variance == pytest.approx(values.var(ddof=1) / 12)
    assert freedom == 11
    assert math.isnan(jackknife(mean, names[:1])[0])


def test_an_interval_knows_that_the_model_is_off_elsewhere() -> None:
    """Alpha falls with gamma, as where rounds of long drafts start at hard places."""
    names = np.array([f"c{index}" for index in range(24)])
    sample = {}
    for gamma in GAMMAS:
        survival = np.cumprod(np.full(gamma, 0.8 - 0.03 * gamma))
        evaluated = np.concatenate([[1.0], survival[:-1]])
        sample[gamma] = Counts(
            names, np.tile(1e4 * survival, (24, 1)), np.tile(1e4 * evaluated, (24, 1))
        )
    still = replace(WORLD, context=0.0, noise=0.0)
    found = predict(*still.evidence(sample, np.random.default_rng(0)))
    assert found is not None
    inner = [cell for cell in found.cells if not cell.extrapolated]
    assert max(abs(cell.error) for cell in inner) > 0.01
    assert all(cell.inside for cell in inner)


def test_too_little_gives_no_prediction(tmp_path: Path) -> None:
    model = SimulatedDrafter(0.7, 0.08)
    two = group(tmp_path / "two", model, 1, gammas=(1, 4), prompts=4, tokens=16)
    assert (two.costs, two.prediction) == (None, None)
    bare = group(tmp_path / "bare", model, 1, gammas=(1, 2, 4), prompts=4, baseline=False)
    assert (bare.costs, bare.prediction) == (None, None)
    drafter = SimulatedDrafter(0.7, 0.1, nodes=9)
    tree = group(tmp_path / "tree", drafter, 1, "eagle:x,tree=10", gammas=(1, 2, 4))
    assert (tree.costs, tree.prediction) == (None, None)
    assert evidence_of({}, [], 1) is None


def test_one_conversation_is_predicted_without_an_interval(tmp_path: Path) -> None:
    one = group(tmp_path / "run", SimulatedDrafter(0.7, 0.08), 1, prompts=1)
    assert one.prediction is not None
    assert {(cell.ci, cell.inside) for cell in one.prediction.cells} == {(None, None)}
    assert one.costs.c.ci is None


def test_an_interval_that_says_nothing_counts_neither_way() -> None:
    ends = {1: (1.4, 1.6), 2: (1.6, 1.7), 4: (0.1, 9.0), 8: None}
    cells = tuple(HeldOut(g, 1.5, 1.5, ci, 1.8, False, "iid") for g, ci in ends.items())
    assert [cell.wide for cell in cells] == [False, False, True, False]
    prediction = Prediction(cells)
    assert prediction.hits == (1, 2, 1)
    said = accuracy([prediction, prediction])
    assert "the closed form is 20% off in the median over 8 cells, the extended model 0%." in said
    assert "2 of 4 measurements lie inside the extended model's 95% prediction interval" in said
    assert said.endswith(
        "(left out: 2 intervals too wide to tell anything and 2 cells without an interval)."
    )
    assert accuracy([Prediction(cells[2:])]).endswith("are too wide to tell anything.")
    assert accuracy([Prediction(cells[3:])]).endswith("the extended model 0%.")
