from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from specbench.analysis.checking.notes import run_notes
from specbench.analysis.fit import fit_run
from specbench.analysis.fitted import GroupFit, RunFit
from specbench.errors import SpecbenchError
from specbench.records.schema import CellRecord
from specbench.records.store import RunWriter, load_run
from specbench.theory import closed_form
from tests.simulate import SimulatedDrafter, simulate_run
from tests.unit.records import samples

NGRAM = {"ngram": SimulatedDrafter(alpha=0.7, c=0.1)}


def fitted(folder: Path) -> RunFit:
    return fit_run(load_run(folder))


def only(run: RunFit) -> GroupFit:
    (group,) = run.groups
    return group


def test_chosen_truth_is_found(tmp_path: Path) -> None:
    folder = simulate_run(
        tmp_path / "run", NGRAM, prompts=16, v=lambda gamma, _: 1 + 0.1 * gamma, overhead=0.07
    )
    group = only(fitted(folder))
    assert group.alpha == pytest.approx(0.7, abs=0.03)
    assert group.alpha_ci is not None
    assert group.alpha_ci[0] < 0.7 < group.alpha_ci[1]
    assert group.c == pytest.approx(0.1, rel=0.02)
    assert group.c_ci is not None
    assert group.c_ci[0] < group.c < group.c_ci[1]
    assert group.c_ci[1] - group.c_ci[0] < 0.01
    assert group.overhead == pytest.approx(0.07, rel=0.03)
    assert group.num_prompts == 16
    assert [point.gamma for point in group.points] == [1, 2, 4, 8]
    for point in group.points:
        assert point.v == pytest.approx(1 + 0.1 * point.gamma, rel=0.02)
        assert point.closed_form == closed_form.speedup(group.alpha, point.gamma, group.c)
        assert point.speedup_ci is not None
        assert point.speedup is not None
        assert point.extended is not None
        # The extended model leaves the tokens cut at the end of an output, and noise.
        assert point.extended * (1 - (point.cut_share or 0)) == pytest.approx(
            point.speedup, rel=0.08
        )
        assert point.error_closed_form == pytest.approx(point.closed_form / point.speedup - 1)
    assert group.points[-1].error_closed_form == pytest.approx(
        (0.8 + 1.8 + 0.07) / (0.8 + 1.0) - 1, abs=0.15
    )


def test_one_repeat_gives_what_the_records_say(tmp_path: Path) -> None:
    run = load_run(simulate_run(tmp_path / "run", NGRAM, gammas=(1, 4)))
    group = only(fit_run(run))
    records = {cell.gamma: cell for cell in run.cells if not cell.is_baseline}
    for point in group.points:
        record = records[point.gamma]
        for name in ("alpha", "tau", "c", "v", "overhead", "speedup", "noise_floor"):
            assert getattr(point, name) == pytest.approx(getattr(record, name)), name
        low, high = record.speedup_ci  # of its own conversations: what cells differ by is not in it
        assert point.speedup_ci[0] < low < high < point.speedup_ci[1]
        assert point.alpha_ci == pytest.approx(record.alpha_ci)
    counted = records.values()
    assert group.alpha == pytest.approx(
        sum(cell.num_accepted or 0 for cell in counted)
        / sum(cell.num_evaluated or 0 for cell in counted)
    )


def test_one_gamma_pools_to_its_own_c(tmp_path: Path) -> None:
    (point,) = only(fitted(simulate_run(tmp_path / "run", NGRAM, gammas=(4,)))).points
    group = only(fitted(tmp_path / "run"))
    assert group.c == pytest.approx(point.c)
    assert group.alpha_ci == pytest.approx(point.alpha_ci)


def test_repeats_are_pooled_and_narrow_nothing_but_noise(tmp_path: Path) -> None:
    once = only(fitted(simulate_run(tmp_path / "once", NGRAM, gammas=(4,), seed=1)))
    thrice = only(fitted(simulate_run(tmp_path / "thrice", NGRAM, gammas=(4,), repeats=3, seed=1)))
    assert thrice.points[0].num_cells == 3
    assert thrice.points[0].num_rounds > 2 * once.points[0].num_rounds
    assert thrice.num_prompts == once.num_prompts  # the same conversations, not more of them


def test_two_turns_of_a_conversation_are_one_cluster(tmp_path: Path) -> None:
    group = only(fitted(simulate_run(tmp_path / "run", NGRAM, prompts=12, turns=2)))
    assert group.num_prompts == 6


def test_costs_at_a_larger_batch_come_from_full_steps(tmp_path: Path) -> None:
    folder = simulate_run(
        tmp_path / "run",
        NGRAM,
        gammas=(2, 4),
        batch_sizes=(4,),
        prompts=16,
        v=lambda gamma, batch: 1 + 0.02 * gamma * batch,
    )
    group = only(fitted(folder))
    assert group.c == pytest.approx(0.1, rel=0.03)
    assert group.c_ci is not None
    assert group.c_ci[0] < 0.1 < group.c_ci[1]
    assert [point.v for point in group.points] == pytest.approx([1.16, 1.32], rel=0.03)


def test_rounds_that_drafted_nothing_lower_the_extended_model_only(tmp_path: Path) -> None:
    rare = {"ngram": SimulatedDrafter(alpha=0.7, c=0.0, d0=0.01, draft_chance=0.4)}
    group = only(fitted(simulate_run(tmp_path / "run", rare, gammas=(4,), prompts=24)))
    (point,) = group.points
    assert point.error_closed_form is not None
    assert point.error_closed_form > 0.3
    assert point.error_extended == pytest.approx(0.0, abs=0.08)


def test_groups_are_told_apart(tmp_path: Path) -> None:
    folder = simulate_run(
        tmp_path / "run",
        {**NGRAM, "synthetic:0.5": SimulatedDrafter(alpha=0.5, c=0.0)},
        gammas=(2,),
        tasks=("code", "chat"),
        temperatures=(0.0, 1.0),
        prompts=6,
        tokens=16,
    )
    run = fitted(folder)
    assert [(g.key.setting.task, g.key.setting.temperature, g.key.drafter) for g in run.groups] == [
        (task, temperature, drafter)
        for task in ("code", "chat")
        for temperature in (0.0, 1.0)
        for drafter in ("ngram", "synthetic:0.5")
    ]
    assert {g.key.drafter for g in run.groups if g.synthetic} == {"synthetic:0.5"}


def test_without_a_baseline_acceptance_is_all_there_is(tmp_path: Path) -> None:
    run = fitted(simulate_run(tmp_path / "run", NGRAM, gammas=(2,), baseline=False))
    group = only(run)
    assert group.alpha is not None
    assert (group.c, group.c_ci, group.overhead, group.model) == (None, None, None, None)
    (point,) = group.points
    assert (point.speedup, point.closed_form, point.extended, point.error_extended) == (None,) * 4
    assert any("no baseline finished" in note for note in run.warnings)


def test_one_prompt_has_numbers_but_no_intervals(tmp_path: Path) -> None:
    run = fitted(simulate_run(tmp_path / "run", NGRAM, gammas=(2,), prompts=1))
    group = only(run)
    assert group.alpha is not None
    assert (group.alpha_ci, group.c_ci, group.points[0].speedup_ci) == (None, None, None)
    assert any(note.startswith("few prompts: intervals rest on 1 ") for note in run.warnings)


def test_a_drafter_that_never_drafts_has_no_alpha(tmp_path: Path) -> None:
    silent = {"ngram": SimulatedDrafter(alpha=0.5, c=0.1, draft_chance=0.0)}
    run = fitted(simulate_run(tmp_path / "run", silent, gammas=(2,)))
    assert (only(run).alpha, only(run).model) == (None, None)
    assert any("no token was ever drafted" in note for note in run.warnings)


def test_divergence_and_failures_are_shouted(tmp_path: Path) -> None:
    folder = simulate_run(
        tmp_path / "run", NGRAM, gammas=(2, 4), failed=[("ngram", 4)], lossless="DIVERGED"
    )
    run = fitted(folder)
    assert run.warnings[0].startswith("DIVERGED")
    assert "ngram γ = 2" in run.warnings[0]
    assert any("1 cell failed" in note and "simulated failure" in note for note in run.warnings)
    assert only(run).points[0].lossless == "DIVERGED"


def test_an_honest_run_has_nothing_to_warn_about(tmp_path: Path) -> None:
    assert fitted(simulate_run(tmp_path / "run", NGRAM, gammas=(2,), drift=0.01)).warnings == ()


@pytest.mark.parametrize(
    ("drafters", "options", "says"),
    [
        ({}, {"tasks": ()}, "no finished cell"),
        ({}, {}, "baselines only"),
        (NGRAM, {"gammas": (2,), "failed": [("ngram", 2)]}, "simulated failure"),
    ],
)
def test_nothing_to_fit_is_one_clear_error(
    tmp_path: Path, drafters: dict[str, SimulatedDrafter], options: dict[str, object], says: str
) -> None:
    folder = simulate_run(tmp_path / "run", drafters, **options)  # type: ignore[arg-type]
    with pytest.raises(SpecbenchError) as caught:
        fitted(folder)
    assert says in str(caught.value)
    assert caught.value.hint


def by_hand(folder: Path) -> RunFit:
    """A tree and an adaptive drafter, every number known, beside a baseline of 1 s steps."""
    cells = [
        (samples.cell(drafter="none", gamma=0, baseline="first"), samples.single_baseline()),
        (samples.cell(drafter="eagle:x,tree=8", gamma=3), samples.tree()),
        (samples.cell(drafter="eagle:x,gamma=auto", gamma=4), samples.adaptive()),
    ]
    with RunWriter.open(folder, samples.manifest()) as writer:
        for cell, (rounds, requests) in cells:
            writer.write_cell(CellRecord.of(cell), rounds, requests)
    return fitted(folder)


def test_a_tree_is_expected_from_its_depths_and_has_no_closed_form(tmp_path: Path) -> None:
    group = next(g for g in by_hand(tmp_path / "run").groups if g.draft_form == "tree")
    (point,) = group.points
    assert point.alpha_by_position == pytest.approx([3 / 4, 2 / 3, 1.0])
    assert point.expected_tokens == pytest.approx(2.75)
    # rounds of 2 s, steps of 1 s; a path ended at a leaf, so 2.5 tokens and not 2.75
    assert point.extended == pytest.approx(2.5 / 2.0)
    assert (point.closed_form, point.error_closed_form) == (None, None)
    assert point.speedup == pytest.approx(1.25)
    assert point.draft_length_counts == [0, 0, 0, 4]
    assert (group.alpha, group.c) == pytest.approx((0.75, 0.1))
    assert group.model is not None
    assert [(p.gamma, p.speedup) for p in group.model.curve(16)] == [(0, 1.0), (3, 1.25)]


def test_an_adaptive_draft_is_expected_from_what_survived(tmp_path: Path) -> None:
    group = next(g for g in by_hand(tmp_path / "run").groups if g.draft_form == "adaptive")
    (point,) = group.points
    assert point.expected_tokens == pytest.approx(2.5)
    assert point.extended == pytest.approx(2.5 / 1.5)
    assert (point.closed_form, point.draft_length_mean) == (None, 2.0)
    assert point.draft_length_counts == [0, 2, 1, 0, 1]


def test_a_chain_has_no_expectation_of_its_own(tmp_path: Path) -> None:
    group = only(fitted(simulate_run(tmp_path / "run", NGRAM, gammas=(2,))))
    assert group.draft_form == "chain"
    assert group.points[0].expected_tokens is None
    assert group.points[0].closed_form is not None


def test_a_draft_that_costs_the_same_at_every_gamma_is_told(tmp_path: Path) -> None:
    heads = {"medusa:x": SimulatedDrafter(alpha=0.6, c=0.0, d0=0.1)}
    (note,) = fitted(simulate_run(tmp_path / "run", heads, gammas=(1, 4), drift=0.01)).warnings
    assert "no single c" in note
    assert "0.099 at γ = 1, 0.025 at γ = 4" in note  # noise of 2%


def test_a_longer_draft_that_took_less_time_than_a_shorter_one_is_noise(tmp_path: Path) -> None:
    folder = simulate_run(
        tmp_path / "run", {"eagle:x": SimulatedDrafter(0.6, 0.1)}, gammas=(1, 4), drift=0.01
    )
    fit = fitted(folder)
    (group,) = fit.groups
    first, last = group.points
    slow = dataclasses.replace(first, c=0.8)
    told = run_notes([dataclasses.replace(group, points=(slow, last))], [])
    assert not any("no single c" in note for note in told)
    even = dataclasses.replace(first, c=0.4)
    (note,) = run_notes([dataclasses.replace(group, points=(even, last))], [])
    assert "no single c" in note


def test_a_speedup_that_no_drafter_can_have_is_told(tmp_path: Path) -> None:
    folder = simulate_run(
        tmp_path / "run", NGRAM, gammas=(1, 4), v=lambda gamma, _: 0.2 if gamma == 4 else 1.0
    )
    notes = [note for note in fitted(folder).warnings if "above τ" in note]
    assert len(notes) == 1
    assert "ngram γ = 4 (code, T = 0, batch 1)" in notes[0]
    assert "γ = 1" not in notes[0]


def test_the_noise_floor_of_repeats_is_that_of_one(tmp_path: Path) -> None:
    """Repeats that differ from each other, and whose two baselines differ by 3% each."""
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02)}
    floors = []
    for repeats in (1, 6):
        folder = tmp_path / str(repeats)
        run = simulate_run(
            folder, drafters, gammas=(2,), repeats=repeats, drift=0.03, noise=0.05, prompts=8
        )
        (group,) = fit_run(load_run(run)).groups
        floors.append(group.noise_floor)
        blocks = {c.repeat: c.noise_floor for c in load_run(run).cells if not c.is_baseline}
        logs = [math.log1p(floor or 0.0) for floor in blocks.values()]
        mean = math.sqrt(sum(log * log for log in logs) / len(logs))
        assert group.noise_floor == pytest.approx(math.expm1(mean))
    assert floors[1] <= max(blocks[repeat] or 0.0 for repeat in blocks)


@pytest.mark.parametrize("bump", [0.0, 0.15])
def test_a_width_that_is_slow_whoever_drafts_is_told(tmp_path: Path, bump: float) -> None:
    drafters = {"ngram": SimulatedDrafter(0.6, 0.01), "model:m": SimulatedDrafter(0.5, 0.1)}
    folder = simulate_run(
        tmp_path / "run", drafters, gammas=(1, 2, 4), tasks=("code", "chat", "rag"),
        v=lambda gamma, _: 1.0 + 0.1 * gamma + bump * (gamma == 2),
    )  # fmt: skip
    told = [
        note
        for note in fitted(folder).warnings
        if "no straight line over γ, whoever drafts" in note
    ]
    assert len(told) == (bump > 0.0)
    if told:
        assert told[0].endswith("it lies off by -5% at γ = 1, +7% at γ = 2, -2% at γ = 4 (batch 1)")
