from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.recommending import Answer, recommend
from specbench.errors import SpecbenchError
from specbench.records.store import load_run
from specbench.theory import closed_form
from tests.simulate import SimulatedDrafter, simulate_run


def answer(folder: Path, drafters: dict[str, SimulatedDrafter], **options: Any) -> Answer:
    return recommend(fit_run(load_run(simulate_run(folder, drafters, **options))), 16)


GOOD = SimulatedDrafter(alpha=0.75, c=0.05)
USELESS = SimulatedDrafter(alpha=0.05, c=0.05)


def test_a_known_best_gamma_is_recommended(tmp_path: Path) -> None:
    given = answer(tmp_path / "run", {"ngram": GOOD}, prompts=24)
    (decision,) = given.decisions
    truth = [closed_form.speedup(0.75, gamma, 0.05) for gamma in range(1, 9)]
    assert decision.drafter == "ngram"
    assert decision.choice.decided
    assert truth[decision.choice.gamma - 1] > 0.97 * max(truth)
    candidate = decision.choice.candidate
    assert candidate is not None
    assert candidate.ci is not None
    assert candidate.bound is not None
    assert 1 < candidate.bound < candidate.speedup
    assert 1 < candidate.ci[0] < candidate.speedup < candidate.ci[1]
    assert decision.sureness is not None
    assert 0 <= decision.sureness.best <= decision.sureness.near_best <= 1
    assert decision.sureness.near_best > 0.5
    assert 0 <= decision.sureness.loss < 0.02


def test_curves_reach_max_gamma_but_recommendations_stop_at_what_was_measured(
    tmp_path: Path,
) -> None:
    given = answer(tmp_path / "run", {"model:x": SimulatedDrafter(0.95, 0.01)}, gammas=(1, 2))
    (group,) = given.groups
    assert [point.gamma for point in group.curve] == list(range(17))
    assert {point.source for point in group.curve[3:]} == {"extrapolated"}
    assert max(point.speedup for point in group.curve) > group.best.speedup
    assert given.decisions[0].choice.gamma == 2


def test_measured_gammas_are_considered_however_long(tmp_path: Path) -> None:
    options: dict[str, Any] = {"gammas": (1, 20, 24), "prompts": 24, "tokens": 256}
    run = simulate_run(tmp_path / "run", {"ngram": SimulatedDrafter(0.99, 0.001)}, **options)
    fit = fit_run(load_run(run))
    given = recommend(fit)
    assert given.decisions[0].choice.gamma > 16
    assert [point.gamma for point in given.groups[0].curve] == list(range(25))
    limited = recommend(fit, 16)
    assert limited.decisions[0].choice.gamma <= 16
    assert any("longer than --max-gamma 16: γ = 20, 24" in note for note in limited.notes)
    assert not any("max-gamma" in note for note in given.notes)


def test_too_small_a_max_gamma_is_named(tmp_path: Path) -> None:
    run = simulate_run(tmp_path / "run", {"ngram": GOOD}, gammas=(4, 8))
    with pytest.raises(SpecbenchError, match="every measured γ is longer than --max-gamma 2") as no:
        recommend(fit_run(load_run(run)), 2)
    assert "4" in no.value.hint


def test_max_gamma_limits_recommendations_too(tmp_path: Path) -> None:
    fit = fit_run(load_run(simulate_run(tmp_path / "run", {"ngram": GOOD})))
    given = recommend(fit, 1)
    assert given.decisions[0].choice.gamma == 1
    assert len(given.groups[0].curve) == 2


def test_no_gain_means_do_not_speculate(tmp_path: Path) -> None:
    given = answer(tmp_path / "run", {"ngram": USELESS})
    (decision,) = given.decisions
    assert (decision.drafter, decision.choice.gamma, decision.choice.speedup) == ("none", 0, 1.0)
    assert decision.choice.decided
    assert "ngram" in decision.choice.against


def test_the_noise_floor_is_not_claimed(tmp_path: Path) -> None:
    drafter = {"ngram": SimulatedDrafter(alpha=0.3, c=0.1)}
    quiet = answer(tmp_path / "quiet", drafter, gammas=(1,), prompts=24, noise=0.001)
    assert quiet.decisions[0].choice.gamma == 1
    noisy = answer(tmp_path / "noisy", drafter, gammas=(1,), prompts=24, noise=0.001, drift=0.5)
    assert noisy.decisions[0].choice.gamma == 0
    assert "noise floor" in noisy.decisions[0].choice.against


def test_an_interval_that_holds_1_is_not_claimed(tmp_path: Path) -> None:
    wild = {"ngram": SimulatedDrafter(alpha=0.4, c=0.25, spread=0.3)}
    given = answer(tmp_path / "run", wild, gammas=(1,), prompts=4)
    assert given.decisions[0].choice.gamma == 0
    assert "does not clear 1" in given.decisions[0].choice.against


def test_one_prompt_leaves_it_undecided(tmp_path: Path) -> None:
    (decision,) = answer(tmp_path / "run", {"ngram": GOOD}, gammas=(4,), prompts=1).decisions
    assert (decision.choice.gamma, decision.choice.decided) == (0, False)
    assert "no interval (1 prompt)" in decision.choice.against


def test_synthetic_drafters_are_never_recommended(tmp_path: Path) -> None:
    drafters = {"synthetic:0.9": SimulatedDrafter(alpha=0.9, c=0.0), "ngram": GOOD}
    given = answer(tmp_path / "both", drafters, gammas=(4,))
    assert given.decisions[0].drafter == "ngram"
    synthetic = next(group for group in given.groups if group.fit.synthetic)
    assert synthetic.best.gamma == 0
    assert "calibrate" in synthetic.best.against
    del drafters["ngram"]
    alone = answer(tmp_path / "alone", drafters, gammas=(4,))
    assert (alone.decisions[0].drafter, alone.decisions[0].choice.gamma) == ("none", 0)
    assert "synthetic" in alone.decisions[0].choice.against


def test_a_diverged_cell_is_never_recommended(tmp_path: Path) -> None:
    given = answer(tmp_path / "run", {"ngram": GOOD}, lossless="DIVERGED")
    assert given.decisions[0].choice.gamma == 0
    assert "DIVERGED" in given.decisions[0].choice.against


def test_an_unmeasured_gamma_rests_on_its_weaker_neighbour(tmp_path: Path) -> None:
    # At 8 the verify step is so dear that the measured speedup is below 1: 3 to 7 have no witness.
    given = answer(
        tmp_path / "run",
        {"ngram": GOOD},
        gammas=(2, 8),
        v=lambda gamma, _: 3.4 if gamma == 8 else 1.0,
    )
    (group,) = given.groups
    assert group.curve[3].speedup > 1.5
    assert group.best.gamma == 2


def test_each_setting_gets_its_own_policy(tmp_path: Path) -> None:
    by_task = {
        "ngram": SimulatedDrafter(lambda task, _: 0.8 if task == "code" else 0.1, 0.02),
        "model:x": SimulatedDrafter(lambda task, _: 0.6 if task == "code" else 0.7, 0.05),
    }
    given = answer(
        tmp_path / "run", by_task, gammas=(2, 4), tasks=("code", "chat"), temperatures=(0.0, 1.0)
    )
    chosen = {
        (decision.setting.task, decision.setting.temperature): decision.drafter
        for decision in given.decisions
    }
    assert chosen == {
        ("code", 0.0): "ngram",
        ("code", 1.0): "ngram",
        ("chat", 0.0): "model:x",
        ("chat", 1.0): "model:x",
    }


def test_without_a_baseline_there_is_nothing_to_answer(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError) as caught:
        answer(tmp_path / "run", {"ngram": GOOD}, gammas=(2,), baseline=False)
    assert "baseline" in str(caught.value)


TREE = "eagle:/data/my heads,tree=24"


def test_a_tree_is_recommended_on_its_own_evidence_with_what_to_type(tmp_path: Path) -> None:
    drafters = {"ngram": GOOD, TREE: SimulatedDrafter(alpha=0.85, c=0.05, nodes=23)}
    given = answer(tmp_path / "run", drafters, gammas=(2, 4), prompts=24)
    (decision,) = given.decisions
    assert (decision.drafter, decision.choice.gamma) == (TREE, 4)
    assert decision.options == f"--drafter '{TREE}' --gamma 4"
    tree = next(group for group in given.groups if group.fit.draft_form == "tree")
    assert [point.gamma for point in tree.curve] == [0, 2, 4]
    assert decision.choice.candidate is not None
    assert decision.choice.candidate.bound > 1


def test_an_adaptive_draft_is_recommended_by_its_cap(tmp_path: Path) -> None:
    auto = {"model:x,gamma=auto": SimulatedDrafter(alpha=0.85, c=0.02, shortest=2)}
    given = answer(tmp_path / "run", auto, gammas=(4, 8), prompts=24)
    assert given.decisions[0].options == "--drafter model:x,gamma=auto --gamma 8"
    assert [point.gamma for point in given.groups[0].curve] == [0, 4, 8]


def test_a_tree_that_does_not_clear_1_is_not_recommended(tmp_path: Path) -> None:
    useless = {TREE: SimulatedDrafter(alpha=0.05, c=0.05, nodes=23)}
    (decision,) = answer(tmp_path / "run", useless, gammas=(2,)).decisions
    assert (decision.drafter, decision.choice.gamma, decision.options) == ("none", 0, None)


def test_one_conversation_tells_nothing_of_how_sure_a_choice_is(tmp_path: Path) -> None:
    for decision in answer(tmp_path / "run", {"ngram": GOOD}, prompts=1).decisions:
        assert decision.sureness is None
