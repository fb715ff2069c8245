"""What is said of other tools' results, and what is not made up about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.machine.limits import limits_of
from specbench.analysis.others.conventions import report_run
from specbench.analysis.recommending import Answer, recommend
from specbench.analysis.recommending.document import optimal_document
from specbench.records.importing.cells import UNNAMED
from tests import foreign
from tests.foreign import imported_run
from tests.unit.report.undrawn import page_of

QUESTIONS = 24


def spec_bench(folder: Path, **given: Any) -> Answer:
    """A drafter that pays for sure: 2 or 3 tokens a round, in the time of a plain token."""
    plain = foreign.spec_bench("plain-temp-0.0", [[1] * 40] * QUESTIONS, 0.03, ["qa"])
    spec = foreign.spec_bench("theirs-temp-0.0", [[2, 3] * 8] * QUESTIONS, 0.03, ["qa"])
    run = imported_run(folder, plain, spec, **{"gamma": 3, **given})
    return recommend(fit_run(run))


def test_alpha_of_one_cell_keeps_its_interval(tmp_path: Path) -> None:
    (group,) = spec_bench(tmp_path / "a").groups
    assert group.fit.alpha_ci is not None
    assert group.fit.alpha_ci == group.fit.points[0].alpha_ci
    other = foreign.vllm_speculative(spec_decode_per_position_acceptance_rates=[0.7, 0.4])
    other |= {"spec_decode_draft_tokens": 4000}
    run = imported_run(tmp_path / "b", foreign.vllm_speculative(), other)
    (fit,) = fit_run(run).groups
    assert (len(fit.points), fit.alpha_ci) == (2, None)


def test_missing_plain_decoding_is_not_said_to_have_failed(tmp_path: Path) -> None:
    other = foreign.vllm_speculative(model_id="org/other")
    fitted = fit_run(imported_run(tmp_path / "a", foreign.vllm(), other))
    (note,) = (text for text in fitted.warnings if "no speedup" in text)
    assert note.startswith("plain decoding of the same target, task, temperature, load and engine")
    assert not any("no baseline finished" in text for text in fitted.warnings)


def test_failures_of_plain_decoding_are_warned_of(tmp_path: Path) -> None:
    plain = foreign.vllm(completed=12, failed=8)
    fitted = fit_run(imported_run(tmp_path / "a", plain, foreign.vllm_speculative()))
    assert "vllm-bench: 8 of 20 requests failed and are in no number" in fitted.warnings


def test_no_entropy_is_asked_of_an_import(tmp_path: Path) -> None:
    run = imported_run(tmp_path / "a", foreign.vllm_speculative(), temperature=0.7)
    lacking = limits_of(run, fit_run(run)).lacking
    assert not any("specbench alpha" in text for text in lacking)
    assert any("imported results don't hold the target's entropy" in text for text in lacking)


@pytest.mark.parametrize(
    ("drafter", "why"),
    [
        (
            "eagle",
            "whose eagle drafter it was is not told: name it with --drafter, e.g. eagle:NAME",
        ),
        (None, "the drafter theirs-temp-0.0 is no SPEC: name it with --drafter, e.g. eagle:NAME"),
        (UNNAMED, "the drafter was not named: name it with --drafter, e.g. eagle:NAME"),
    ],
)
def test_a_drafter_that_nobody_named_is_not_taken_for_our_own(
    tmp_path: Path, drafter: str | None, why: str
) -> None:
    answer = spec_bench(tmp_path / "a", drafter=drafter, target="org/target")
    assert answer.decisions[0].choice.gamma == 3
    assert {(line.text, line.notes) for line in answer.serving[0]} == {("", (why,))}
    document = optimal_document(answer)
    assert document["policy"][0]["options"] is None
    page = page_of(tmp_path / "a" / "run").text
    assert "What to type after specbench run" not in page


def test_a_named_drafter_can_be_typed(tmp_path: Path) -> None:
    answer = spec_bench(tmp_path / "a", drafter="eagle:org/head", target="org/target")
    vllm, _, _ = answer.serving[0]
    assert vllm.text.startswith("vllm serve org/target ")
    options = optimal_document(answer)["policy"][0]["options"]
    assert options == "--drafter eagle:org/head --gamma 3"


def test_lines_for_a_target_that_nobody_named_say_so(tmp_path: Path) -> None:
    answer = spec_bench(tmp_path / "a", drafter="eagle:org/head")
    vllm, sglang, _ = answer.serving[0]
    assert vllm.text.startswith("vllm serve MODEL ")
    assert "--model-path MODEL " in sglang.text
    for line in (vllm, sglang):
        assert UNNAMED not in line.text
        assert "MODEL is what was measured, which no file told" in line.notes[-1]


def test_sglang_is_reported_as_it_counts(tmp_path: Path) -> None:
    lines = [foreign.sglang(tau=2.6), foreign.sglang(steps=5, topk=4, nodes=16, tau=3.6)]
    run = imported_run(tmp_path / "a", lines)
    chain, tree = (row.numbers for row in report_run(run, "sglang")[0])
    assert chain == {"accept length": 2.6, "accept rate": pytest.approx(2.6 / 4)}
    assert tree == {"accept length": 3.6, "accept rate": pytest.approx(3.6 / 16)}
    chain, tree = (row.numbers for row in report_run(run, "spec-bench")[0])
    assert (chain["mean accepted tokens"], tree["mean accepted tokens"]) == (2.6, 3.6)
    chain, _ = (row.numbers for row in report_run(run, "vllm")[0])
    assert chain["accepted / drafted"] == pytest.approx(1.6 / 3)
    assert report_run(run, "gpt-fast")[0][0].numbers["mean accepted"] == pytest.approx(1.6)


def test_repeats_are_reported_together(tmp_path: Path) -> None:
    run = imported_run(tmp_path / "a", [foreign.sglang(tau=2.0), foreign.sglang(tau=3.0)])
    (row,), _ = report_run(run, "sglang")
    assert row.numbers["accept length"] == 2.5
    both = [foreign.vllm_speculative(run_number=number) for number in (0, 1)]
    (row,), _ = report_run(imported_run(tmp_path / "b", both), "vllm")
    assert row.numbers["mean acceptance length"] == pytest.approx(2.3)
    assert row.numbers["per position"] == pytest.approx([0.7, 0.4, 0.2])


def test_the_report_says_why_acceptance_is_not_tested(tmp_path: Path) -> None:
    imported_run(tmp_path / "a", foreign.vllm(), foreign.vllm_speculative())
    page = page_of(tmp_path / "a" / "run").text
    assert "Imported results and servers don't tell what each round evaluated" in page
    assert "Trees and drafts of changing length" not in page


def test_the_report_says_a_warning_once_with_the_file(tmp_path: Path) -> None:
    spec = foreign.vllm_speculative(completed=12, failed=8)
    run = imported_run(tmp_path / "a", foreign.vllm(), spec)
    manifest = run.path / "manifest.json"
    text = "8 of 20 requests failed and are in no number"
    told = json.loads(manifest.read_text()) | {"warnings": [f"f1.json: {text}"]}
    manifest.write_text(json.dumps(told))
    page = page_of(run.path).text
    assert page.count(text) == 1
    assert f"f1.json: {text}." in page


def test_the_answer_without_a_gain_reads_as_a_sentence(tmp_path: Path) -> None:
    imported_run(tmp_path / "a", foreign.vllm(), foreign.vllm_speculative())
    page = page_of(tmp_path / "a" / "run").text
    assert "; measured over 20 prompts." in page
    assert "), over 20 prompts" not in page
