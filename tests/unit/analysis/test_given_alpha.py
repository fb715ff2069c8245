"""Synthetic drafters: costs and speedups count, their acceptance never does."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.analysis.acceptance.verdict import judge_acceptance
from specbench.analysis.claims import check_claims
from specbench.analysis.fit import fit_run
from specbench.analysis.fitted import RunFit
from specbench.analysis.recommending import recommend
from specbench.analysis.recommending.document import optimal_document
from specbench.analysis.shown.documents import fit_document
from specbench.records.reading import load_run
from specbench.theory import closed_form
from tests.simulate import SimulatedDrafter, simulate_run

ALPHAS = (0.2, 0.6, 0.9)
C, V, OVERHEAD = 0.1, 1.2, 0.05

ABOUT_ACCEPTANCE = (
    "alpha-falls-with-temperature",
    "predictable-text-accepts-more",
    "tree-commits-three-or-more",
    "published-ranges",
)


def synthetic(alpha: float) -> str:
    return f"synthetic:{alpha},cost=eagle:shape"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate_run(
        tmp_path_factory.mktemp("runs") / "shape",
        {synthetic(alpha): SimulatedDrafter(alpha, C) for alpha in ALPHAS},
        gammas=(1, 2, 4, 8),
        prompts=24,
        tokens=96,
        v=V,
        overhead=OVERHEAD,
    )


@pytest.fixture(scope="module")
def fitted(folder: Path) -> RunFit:
    return fit_run(load_run(folder))


def test_costs_are_fitted_and_speedups_predicted(fitted: RunFit) -> None:
    for group, alpha in zip(fitted.groups, ALPHAS, strict=True):
        assert group.synthetic
        assert group.alpha == pytest.approx(alpha, abs=0.05)
        assert group.c == pytest.approx(C, rel=0.05)
        assert group.costs is not None
        assert group.overhead == pytest.approx(OVERHEAD, rel=0.1)
        for point in group.points:
            assert point.v == pytest.approx(V, rel=0.05)
            tau = closed_form.expected_tokens(alpha, point.gamma)
            told = closed_form.extended_speedup(tau, point.gamma, C, V, OVERHEAD)
            assert point.speedup == pytest.approx(told, rel=0.12)
        assert group.prediction is not None
        assert group.prediction.errors.median < 0.08


def test_whether_a_coin_is_a_coin_is_not_asked(fitted: RunFit, folder: Path) -> None:
    assert [group.acceptance for group in fitted.groups] == [None] * 3
    assert all(group["acceptance"] is None for group in fit_document(fitted)["groups"])
    # the same rounds under a real drafter's name are judged
    run = load_run(folder)
    rounds = [run.checked(cell.cell_id) for cell in run.cells if not cell.is_baseline]
    assert judge_acceptance("chain", {4: rounds[2]}) is not None


def test_the_best_gamma_at_a_given_alpha_is_told_apart_from_advice(fitted: RunFit) -> None:
    answer = recommend(fitted)
    for group, alpha in zip(answer.groups, ALPHAS, strict=True):
        assert group.best.gamma == 0
        assert "never recommended" in group.best.against
        given = group.at_given_alpha
        assert given is not None
        curve = {
            gamma: closed_form.extended_speedup(
                closed_form.expected_tokens(alpha, gamma), gamma, C, V, OVERHEAD
            )
            for gamma in range(1, 9)
        }
        best = max(curve.values())
        if best <= 1.0:
            assert given.gamma == 0
        else:
            assert curve[given.gamma] > 0.95 * best
            assert given.speedup == pytest.approx(best, rel=0.05)
    gammas = [group.at_given_alpha.gamma for group in answer.groups if group.at_given_alpha]
    assert gammas == sorted(gammas)
    assert gammas[0] == 0
    assert gammas[-1] >= 4
    assert [decision.choice.gamma for decision in answer.decisions] == [0]
    assert answer.of_real_drafters.decisions == ()
    assert answer.of_real_drafters.schedules == ()
    documents = optimal_document(answer)["groups"]
    assert [document["at_given_alpha"]["gamma"] for document in documents] == gammas


def test_beside_real_drafters_both_answers_stand(tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.8, 0.02), synthetic(0.9): SimulatedDrafter(0.9, C)}
    answer = recommend(fit_run(load_run(simulate_run(tmp_path / "run", drafters, prompts=24))))
    assert answer.of_real_drafters == answer
    real, given = answer.groups
    assert answer.decisions[0].drafter == "ngram"
    assert real.at_given_alpha is None
    assert given.at_given_alpha is not None


def test_claims_about_acceptance_have_nothing_to_go_by(folder: Path, fitted: RunFit) -> None:
    answers = {one.claim.name: one.answer for one in check_claims(load_run(folder), fitted)}
    for name in ABOUT_ACCEPTANCE:
        assert answers[name].verdict == "not measured", name


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> RunFit:
    """One drafter at two batch sizes, prompts as they are and padded to two lengths."""
    folder = simulate_run(
        tmp_path_factory.mktemp("runs") / "contexts",
        {"ngram": SimulatedDrafter(0.7, 0.02)},
        gammas=(1, 2, 4),
        batch_sizes=(1, 4),
        context_lengths=(None, 512, 2048),
    )
    return fit_run(load_run(folder))


def test_contexts_are_told_apart_and_none_is_mixed(contexts: RunFit) -> None:
    places = [(g.key.setting.batch_size, g.key.setting.context_length) for g in contexts.groups]
    assert places == [(size, length) for size in (1, 4) for length in (None, 512, 2048)]
    assert all(point.num_cells == 1 for group in contexts.groups for point in group.points)


def test_a_context_is_in_words_only_where_there_is_one(contexts: RunFit) -> None:
    assert [str(group.key.setting) for group in contexts.groups[:3]] == [
        "code, T = 0, batch 1",
        "code, T = 0, batch 1, context 512",
        "code, T = 0, batch 1, context 2048",
    ]
    assert [group.key.setting.load for group in contexts.groups[:2]] == ["1", "1@512"]


def test_every_context_has_a_crossover_of_its_own(contexts: RunFit) -> None:
    answer = recommend(contexts)
    assert [schedule.load.context_length for schedule in answer.schedules] == [None, 512, 2048]
    assert str(answer.schedules[1].load) == "code, T = 0, context 512"
    for schedule in answer.schedules:
        assert schedule.crossover is None or schedule.crossover.last == 4
