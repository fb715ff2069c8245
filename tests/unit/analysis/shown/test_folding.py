"""Verdicts that many groups share are told once, those of few with their own numbers."""

from __future__ import annotations

import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.fitted import RunFit
from specbench.analysis.rounds.gap import gap_verdict
from specbench.analysis.shown.folding import fold_acceptance, fold_gaps
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFit:
    """Three tasks, one drafter of falling acceptance, one of steady acceptance, one a tree."""
    drafters = {
        "medusa:x": SimulatedDrafter(0.0, 0.02, alphas=(0.9, 0.6, 0.3, 0.2)),
        "ngram": SimulatedDrafter(0.6, 0.02),
        "eagle:x,tree=9": SimulatedDrafter(0.6, 0.02, nodes=8),
    }
    folder = tmp_path_factory.mktemp("runs") / "run"
    tasks, gammas = ("code", "chat", "story"), (1, 2, 4)
    simulate_run(folder, drafters, gammas=gammas, tasks=tasks, prompts=8, tokens=128, v=1.4)
    return fit_run(load_run(folder))


def test_alike_verdicts_on_acceptance_are_one(run: RunFit) -> None:
    falling = [group for group in run.groups if group.key.drafter == "medusa:x"]
    (one,) = fold_acceptance(falling)
    assert [group.key.setting.task for group in one.groups] == ["code", "chat", "story"]
    assert one.text.startswith("Acceptance is not i.i.d.: it ")
    kinds = {one.groups[0].key.drafter for one in fold_acceptance(run.groups)}
    assert kinds == {"medusa:x", "ngram"}  # a tree has no verdict
    whose = [len(one.groups) for one in fold_acceptance(run.groups)]
    assert sum(whose) == 6


def test_few_are_told_apart_with_their_own_numbers(run: RunFit) -> None:
    falling = [group for group in run.groups if group.key.drafter == "medusa:x"]
    apart = fold_acceptance(falling, apart=3)
    assert len(apart) == 3
    for one in apart:
        (group,) = one.groups
        assert group.acceptance is not None
        assert one.text.startswith(group.acceptance.sentence)
    assert len(fold_acceptance(falling, apart=2)) == 1


def test_gaps_that_err_alike_are_one_with_the_least_and_the_most(run: RunFit) -> None:
    steady = [group for group in run.groups if group.key.drafter == "ngram"]
    (one,) = fold_gaps(steady)
    assert one.text.startswith("optimistic by ")
    assert one.text.endswith("the largest term is v > 1")
    each = [gap_verdict([p.gap for p in group.points if p.gap]) for group in steady]
    assert [told.text for told in fold_gaps(steady, apart=3)] == each
    trees = [group for group in run.groups if group.draft_form == "tree"]
    assert fold_gaps(trees) == []
