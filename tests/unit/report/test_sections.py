"""What sections say: numbers as the analysis has them, and every warning that a run calls for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.fitted import RunFit
from specbench.analysis.recommending import recommend
from specbench.analysis.shown.formats import milliseconds, number, percent
from specbench.records.store import load_run
from specbench.theory import closed_form
from tests import pages
from tests.folders import change_cells, change_manifest
from tests.simulate import SimulatedDrafter, simulate_run
from tests.unit.report.undrawn import page_of

EXAMPLE = Path(__file__).resolve().parents[3] / "results" / "example"
NGRAM = {"ngram": SimulatedDrafter(0.7, 0.01)}
SLOW = {"ngram": SimulatedDrafter(0.2, 0.5)}


def section(page: pages.Element, name: str) -> str:
    return page.all("section", id=name)[0].text


def answer(page: pages.Element) -> tuple[str, str]:
    (told,) = page.all("p", class_="answer")
    return told.all("strong")[0].text, told.all("span")[0].text


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01), "model:small": SimulatedDrafter(0.6, 0.1)}
    folder = tmp_path_factory.mktemp("runs") / "run"
    return simulate_run(folder, drafters, gammas=(1, 2, 4), prompts=8, tokens=32, v=1.1)


@pytest.fixture(scope="module")
def fitted(run: Path) -> RunFit:
    return fit_run(load_run(run))


@pytest.fixture(scope="module")
def page(run: Path) -> pages.Element:
    return page_of(run)


@pytest.fixture(scope="module")
def example() -> pages.Element:
    """The report of the recorded run."""
    return page_of(EXAMPLE)


def test_the_answer_is_the_recommendation(page: pages.Element, fitted: RunFit) -> None:
    (decision,) = recommend(fitted, 16).decisions
    act, basis = answer(page)
    assert act == f"Use {decision.drafter} γ = {decision.choice.gamma} (code, T = 0, batch 1)."
    assert basis.startswith(f"That is {decision.choice.speedup:.2f} times as fast as plain")
    assert decision.sureness is not None
    assert f"within 1% of it in {decision.sureness.near_best:.0%} of resamples" in basis
    assert basis.endswith("over 8 prompts.")
    assert decision.options is not None
    assert decision.options in page.all("pre")[0].text
    (row,) = pages.table(page, "What to use")[1:]
    assert row[1:3] == [decision.drafter, str(decision.choice.gamma)]
    assert row[3].startswith(number(decision.choice.speedup))


def test_the_answer_where_nothing_pays(tmp_path: Path) -> None:
    act, basis = answer(page_of(simulate_run(tmp_path / "run", SLOW, gammas=(2, 4), prompts=8)))
    assert act == "Do not speculate (code, T = 0, batch 1): no gain is shown."
    assert basis.startswith("Closest to a gain is ngram γ = 2: 0.")


def test_the_answer_that_differs_between_settings(tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(lambda task, _: 0.8 if task == "code" else 0.05, 0.3)}
    options: dict[str, Any] = {"gammas": (1,), "tasks": ("code", "chat", "rag"), "prompts": 12}
    act, basis = answer(page_of(simulate_run(tmp_path / "run", drafters, **options)))
    assert act == "Use ngram γ = 1 for code and do not speculate for chat and rag."
    assert basis.endswith("over 12 prompts a setting.")


def test_settings_without_an_answer_are_told_from_those_with_one(example: pages.Element) -> None:
    decisions = recommend(fit_run(load_run(EXAMPLE)), 16).decisions
    undecided = sum(not one.choice.decided for one in decisions)
    assert undecided > 3
    assert any(one.choice.gamma for one in decisions)
    assert answer(example)[0].endswith(
        f" and do not speculate yet for {undecided} of 8 settings (undecided)."
    )


def test_every_setting_without_a_recommendation_says_why(example: pages.Element) -> None:
    decisions = recommend(fit_run(load_run(EXAMPLE)), 16).decisions
    against = [one for one in decisions if not one.choice.gamma]
    (listed,) = example.all("section", id="answer")[0].all("ul")
    assert [item.text for item in listed.all("li")] == [
        f"{one.setting.task} (T = {one.setting.temperature:g}): "
        f"{one.choice.against}; {one.choice.wanting}"
        for one in against
    ]


def test_a_server_has_a_policy_over_batch_sizes_and_lines_to_type(tmp_path: Path) -> None:
    options: dict[str, Any] = {
        "gammas": (1, 2, 4), "batch_sizes": (1, 8), "prompts": 24,
        "v": lambda gamma, batch_size: 1.0 if batch_size == 1 else 1.0 + 0.8 * gamma,
        "cost": {"weight_bytes": 1e9, "kv_bytes_per_token": 1e5},
    }  # fmt: skip
    folder = simulate_run(tmp_path / "run", NGRAM, **options)
    answered = recommend(fit_run(load_run(folder)), 16)
    (schedule,) = answered.schedules
    page = page_of(folder)
    rows = pages.table(page, "One policy for a load that varies")[1:]
    assert [row[3] for row in rows] == [str(part.gamma) for part in schedule.ranges]
    assert [row[2] for row in rows] == ["ngram", "do not speculate"]
    assert schedule.crossover is not None
    assert schedule.crossover.sentence in section(page, "serving")
    commands = [pre.text for pre in page.all("section", id="serving")[0].all("pre")]
    assert commands == [line.text for line in answered.serving[0] if line.text]
    assert "How long an answer must be" in section(page, "serving")


def test_the_answer_from_one_prompt_is_none(tmp_path: Path) -> None:
    act, _ = answer(page_of(simulate_run(tmp_path / "run", NGRAM, gammas=(1,), prompts=1)))
    assert act.startswith("Do not speculate yet (code, T = 0, batch 1): undecided, for too little")


def test_tables_hold_the_fitted_numbers(page: pages.Element, fitted: RunFit) -> None:
    rows = pages.table(page, "Speedup, measured and predicted")[1:]
    points = [(group, point) for group in fitted.groups for point in group.points]
    assert len(rows) == len(points) == 6
    for row, (_, point) in zip(rows, points, strict=True):
        assert row[1] == str(point.gamma)
        assert row[2] == number(point.tau)
        assert number(point.speedup) in row[3]
        assert row[4:8] == [
            number(point.closed_form),
            percent(point.error_closed_form),
            number(point.extended),
            percent(point.error_extended),
        ]
    for row, group in zip(pages.table(page, "Fitted over all γ")[1:], fitted.groups, strict=True):
        assert row[1].startswith(number(group.alpha))
        assert row[2].startswith(number(group.c, 3))
        assert row[4] == number(group.overhead)
        assert row[7] == "8"


def test_predictions_and_terms_are_there(page: pages.Element, fitted: RunFit) -> None:
    held_out = pages.table(page, "Each γ predicted from the others")[1:]
    cells = [cell for g in fitted.groups for cell in (g.prediction.cells if g.prediction else ())]
    assert [row[2] for row in held_out] == [number(cell.measured) for cell in cells]
    terms = pages.table(page, "From the closed form to the measured speedup, log scale")[1:]
    for row in terms:
        total, *parts = (float(text) for text in row[2:])
        assert total == pytest.approx(sum(parts), abs=0.005 * (len(parts) + 1))
    inside = sum(bool(cell.inside) for cell in cells)
    assert f"{inside} of {len(cells)} measurements lie inside" in section(page, "prediction")


def test_published_tables_stand_beside_the_formulas_and_the_run(page: pages.Element) -> None:
    first = pages.table(page, "Table 1: the formulas at c = 0")
    assert len(first) == 1 + 6
    for row in first[1:]:
        alpha, gamma, speedup = float(row[0]), int(row[1]), float(row[5])
        assert speedup == pytest.approx(closed_form.speedup(alpha, gamma, 0.0), abs=0.005)
        assert float(row[3]) == pytest.approx(float(row[2]), abs=0.07)
        assert speedup == pytest.approx(float(row[4]), abs=0.07)
        assert row[6].startswith(("ngram", "model:small"))
    second = pages.table(page, "Table 2: T5-XXL")
    assert len(second) == 1 + 12
    for row in second[1:]:
        alpha, gamma, c = float(row[3]), int(row[2]), float(row[4])
        assert row[6] == number(closed_form.speedup(alpha, gamma, c))
        assert float(row[6]) == pytest.approx(float(row[5]), abs=0.07 + 0.005)  # of two decimals
    assert len(pages.table(page, "Spec-Bench's leaderboard")) == 1 + 10


def test_a_run_that_says_nothing_against_itself_has_no_warning(run: Path) -> None:
    change_manifest(run, finished="2026-01-01T00:00:00+00:00")
    assert section(page_of(run), "warnings").startswith("Warnings Nothing in the record")


def test_every_warning_is_told_at_the_top(tmp_path: Path) -> None:
    folder = simulate_run(
        tmp_path / "run", NGRAM, gammas=(1, 2), prompts=5, lossless="DIVERGED", drift=0.2,
        failed=[("ngram", 2)],
    )  # fmt: skip
    change_manifest(
        folder,
        warnings=["resumed with another device"],
        dropped=[{"cell": "x", "reason": "synthetic at T > 0"}] * 2,
        finished=None,
    )
    change_cells(folder, lambda line: line.update(gpu={"foreign_processes": [{"pid": 1}]}))
    told = [item.text for item in page_of(folder).all("section", id="warnings")[0].all("li")]
    for begins in (
        "DIVERGED: output differs from plain decoding, a bug",
        "1 cell failed and left out: ngram γ = 2",
        "Few prompts: intervals rest on 5 conversations",
        "Noisy baseline: the two of a block differ by more than 5%",
        "Other processes used the GPU while 4 cells were measured",
        "2 cells cannot exist and were left out: synthetic at T > 0 (2 cells)",
        "Resumed with another device.",
        "The run has not ended",
    ):
        assert [text for text in told if text.startswith(begins)], (begins, told)
    assert told[0].startswith("DIVERGED")


def test_a_diverged_speedup_is_marked_and_never_the_answer(tmp_path: Path) -> None:
    page = page_of(simulate_run(tmp_path / "run", NGRAM, gammas=(2,), lossless="DIVERGED"))
    assert answer(page)[0].startswith("Do not speculate")
    assert "its output DIVERGED from plain decoding" in answer(page)[1]
    (row,) = pages.table(page, "Speedup, measured and predicted")[1:]
    assert row[3].startswith("* ")
    assert row[9] == "DIVERGED"


def test_a_broken_identity_is_loud_and_named_in_its_section(tmp_path: Path) -> None:
    folder = simulate_run(tmp_path / "run", NGRAM, gammas=(2,), prompts=6)
    assert "obeys the six identities" in section(page_of(folder), "limits")

    def doubled(line: dict[str, Any]) -> None:
        line["tok_per_s"] = 2.0 * line["tok_per_s"]

    change_cells(folder, doubled)
    page = page_of(folder)
    loud = [item.text for item in page.all("li", class_="loud")]
    assert loud
    assert all(
        text.startswith(("Numbers that cannot be", "numbers that cannot be")) for text in loud
    )
    assert "Not every cell obeys" in section(page, "limits")


def test_a_line_that_is_not_that_of_its_rounds_is_marked(tmp_path: Path) -> None:
    folder = simulate_run(tmp_path / "run", NGRAM, gammas=(1, 2), prompts=6)
    assert "!" not in section(page_of(folder), "cells")

    def lying(line: dict[str, Any]) -> None:
        line["alpha"] = 0.99 if line["gamma"] == 2 else line["alpha"]

    change_cells(folder, lying)
    page = page_of(folder)
    rows = pages.table(page, "4 finished cells")[1:]
    assert [(row[0], row[1]) for row in rows if "!" in row[0]] == [("! ngram", "2")]
    assert "! numbers that cannot be" in section(page, "cells")
    loud = [item.text for item in page.all("li", class_="loud")]
    assert any("line: cells.jsonl has alpha 0.99, the rounds give 0." in text for text in loud)


def test_of_a_run_that_cannot_be_used_every_cell_is_marked(tmp_path: Path) -> None:
    folder = simulate_run(tmp_path / "run", NGRAM, gammas=(2,), prompts=6)
    (file,) = (folder / "rounds").glob("*-g2-*")
    pd.read_parquet(file).assign(num_accepted=7).to_parquet(file)
    page = page_of(folder)
    assert answer(page)[0].startswith("No answer: nothing of run can be used")
    assert [row[0] for row in pages.table(page, "3 finished cells")[1:]][-1] == "! ngram"
    assert "7 accepted but gamma 2" in section(page, "warnings")


def test_failed_cells_stand_in_a_table_with_their_error(tmp_path: Path) -> None:
    folder = simulate_run(tmp_path / "run", NGRAM, gammas=(1, 2), failed=[("ngram", 2)], prompts=6)
    (row,) = pages.table(page_of(folder), "1 failed cell")[1:]
    assert row == ["ngram", "2", "code, T = 0, batch 1", "failed", "simulated failure"]


def test_columns_that_a_run_has_nothing_in_are_named_instead(page: pages.Element) -> None:
    (headings, *rows) = pages.table(page, "8 finished cells")
    assert len(rows) == 8
    assert "tok/s" in headings
    assert "energy J" not in headings
    assert "energy J" in section(page, "cells")


def test_verdicts_on_acceptance_are_those_of_the_fit(page: pages.Element, fitted: RunFit) -> None:
    text = section(page, "acceptance")
    for group in fitted.groups:
        assert group.acceptance is not None
        assert group.acceptance.sentence in text


def test_times_are_never_in_powers_of_ten(example: pages.Element) -> None:
    times = [milliseconds(seconds) for seconds in (1e-5, 0.01234, 0.9994, 0.9996, 1.38, 61.5)]
    assert times == ["0.01", "12.3", "999", "1,000", "1,380", "61,500"]
    assert "e+" not in section(example, "cells")


def test_trees_have_no_closed_form(tmp_path: Path) -> None:
    drafters = {"eagle,tree=6": SimulatedDrafter(0.6, 0.05, nodes=6)}
    page = page_of(simulate_run(tmp_path / "run", drafters, gammas=(2,), prompts=6))
    (row,) = pages.table(page, "Speedup, measured and predicted")[1:]
    assert row[4:6] == ["-", "-"]
    assert pages.table(page, "Fitted over all γ")[1][1].startswith("†")
    assert "† tree: γ is its levels" in section(page, "costs")
    assert "Trees and drafts of changing length" in section(page, "acceptance")


def test_gaps_are_told_once_for_all_settings_that_err_alike(tmp_path: Path) -> None:
    folder = simulate_run(
        tmp_path / "run", NGRAM, gammas=(2, 4), tasks=("code", "chat", "story"), v=1.4, prompts=8
    )
    header, *rows = pages.table(page_of(folder), "Where the closed form goes wrong")
    assert header == ["drafter", "settings", "in words"]
    (row,) = rows
    assert [task in row[1] for task in ("code", "chat", "story")] == [True] * 3
    assert row[2].startswith("optimistic by ")
    assert row[2].endswith("the largest term is v > 1")
