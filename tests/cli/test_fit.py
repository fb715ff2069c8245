from __future__ import annotations

import csv
import io
import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.analysis.shown.formats import number
from tests import foreign
from tests.simulate import SimulatedDrafter, simulate_run

Command = Callable[..., Any]
EXAMPLE = Path(__file__).parents[2] / "results" / "example"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = simulate_run(
        tmp_path_factory.mktemp("runs") / "run",
        {
            "ngram": SimulatedDrafter(0.7, 0.01),
            "model:drafters/A-LONG-NAME-400M": SimulatedDrafter(0.6, 0.2),
        },
        gammas=(1, 2, 4),
        tasks=("a-task-with-a-long-name", "chat"),
        temperatures=(0.0, 1.0),
        prompts=4,
        overhead=0.05,
        failed=[("ngram", 4)],
        lossless="DIVERGED",
    )
    return str(folder)


@pytest.mark.parametrize("options", [(), ("--detail",)])
def test_tables_fit_80_columns_and_notes_go_to_stderr(
    specbench: Command, run: str, options: tuple[str, ...]
) -> None:
    result = specbench("fit", run, *options)
    assert result.code == 0
    lines = result.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in result.out
    for heading in ("α (95%)", "c (95%)", "closed", "extended", "measured (95%)", "error"):
        assert heading in result.out
    assert "note" not in result.out
    notes = result.err.splitlines()
    assert all(note.startswith("note: ") for note in notes)
    for words in ("DIVERGED", "simulated failure", "few prompts"):
        assert any(words in note for note in notes)


def test_a_row_reads_as_what_was_measured(specbench: Command, run: str) -> None:
    group = json.loads(specbench("fit", run, "--format", "json").out)["groups"][-1]
    assert (group["drafter"], group["task"], group["temperature"]) == ("ngram", "chat", 1.0)
    out = specbench("fit", run, "--detail").out
    fitted_table, compared_table = out[out.index("chat: fitted") :].split("chat: speedup")
    fitted, compared = (
        [line for line in table.partition("\n\n")[0].splitlines() if line.startswith("ngram")][-1]
        for table in (fitted_table, compared_table)
    )
    low, high = (f"{end:.2f}".removeprefix("0") for end in group["alpha_ci"])
    assert f"{group['alpha']:.2f} {low}–{high}" in fitted
    point = group["points"][0]
    low, high = (f"{end:.2f}".removeprefix("0") for end in point["speedup_ci"])
    assert compared.split()[3] == "1"
    assert f"{point['closed_form']:.2f}" in compared
    assert compared.endswith(f"{point['speedup']:.2f} {low}–{high}")


def test_without_detail_a_line_per_drafter_tells_its_fastest_gamma(
    specbench: Command, run: str
) -> None:
    groups = json.loads(specbench("fit", run, "--format", "json").out)["groups"]
    out = specbench("fit", run).out
    table = out.partition("chat: speedup at the fastest γ measured\n")[2].partition("\n\n")[0]
    lines = [line for line in table.splitlines() if line.startswith("ngram")]
    chat = [g for g in groups if g["task"] == "chat" and g["drafter"] == "ngram"]
    for line, group in zip(lines, chat, strict=True):
        best = max(group["points"], key=lambda point: point["speedup"])
        assert line.split()[3] == str(best["gamma"])
        assert f"{best['speedup']:.2f} " in line


def test_what_holds_of_many_is_told_once_with_their_number(specbench: Command) -> None:
    out = specbench("fit", str(EXAMPLE)).out
    words = " ".join(out.split())
    assert len(out.splitlines()) <= 140
    assert words.count("Acceptance may be i.i.d.") == 1
    assert "21 of 32, eagle (translation, T = 0, batch 1); model (" in words
    assert "and 19 more: Acceptance may be i.i.d.; predictions use one α each, 0.12 to" in words
    assert words.count("Of a γ left out and predicted from the others") == 1


def test_a_convention_has_no_detail(specbench: Command, run: str) -> None:
    line = specbench("fit", run, "--convention", "vllm", "--detail").error_line
    assert "--detail" in line


def test_csv_has_a_row_per_gamma(specbench: Command, run: str) -> None:
    rows = list(csv.DictReader(io.StringIO(specbench("fit", run, "--format", "csv").out)))
    assert len(rows) == 4 * 3 + 4 * 2
    assert all(float(row["fit_alpha_low"]) < float(row["fit_alpha"]) for row in rows)
    assert {row["lossless"] for row in rows} == {"DIVERGED", ""}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tasks": ()}, "no finished cell"),
        ({"failed": [("ngram", 2)]}, "simulated failure"),
    ],
)
def test_nothing_to_fit_ends_with_2(
    specbench: Command, tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    drafters = {"ngram": SimulatedDrafter(0.5, 0.1)}
    folder = simulate_run(tmp_path / "run", drafters, gammas=(2,), prompts=2, **options)
    assert says in specbench("fit", str(folder)).error_line


def test_no_such_run_is_named(specbench: Command) -> None:
    assert "no/such/run" in specbench("fit", "no/such/run").error_line


def test_a_corrupt_line_is_named(specbench: Command, tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.5, 0.1)}
    folder = simulate_run(tmp_path / "run", drafters, gammas=(2,), prompts=2)
    cells = folder / "cells.jsonl"
    lines = cells.read_text().splitlines()
    cells.write_text("\n".join([lines[0], "{broken", *lines[2:], ""]))
    error = specbench("fit", str(folder)).error_line
    assert "cells.jsonl" in error
    assert "line 2" in error


def test_trees_and_adaptive_drafts_show_acceptance_by_depth(
    specbench: Command, tmp_path: Path
) -> None:
    drafters = {
        "eagle:/data/heads/small,tree=24,topk=4": SimulatedDrafter(0.8, 0.05, nodes=23),
        "model:/data/models/a-long-name,gamma=auto": SimulatedDrafter(0.8, 0.05, shortest=1),
        "ngram": SimulatedDrafter(0.7, 0.01),
    }
    run = str(simulate_run(tmp_path / "run", drafters, gammas=(2, 10), prompts=6))
    document = json.loads(specbench("fit", run, "--format", "json").out)
    out = specbench("fit", run, "--detail").out
    assert max(map(len, out.splitlines())) <= 80
    depths = out.split("code: acceptance by depth")[1].partition("\n\n")[0]
    assert "ngram" not in depths
    tree, auto = document["groups"][0]["points"][0], document["groups"][1]["points"][1]
    alphas = "  ".join(f"{alpha:.2f}".removeprefix("0") for alpha in tree["alpha_by_position"])
    assert f"{tree['expected_tokens']:.2f}   {alphas}" in depths
    assert f"≤10 ({auto['draft_length_mean']:.1f})" in depths
    assert "† tree" in out
    assert "‡ drafts end where the drafter is unsure" in out
    assert "†" not in specbench("fit", str(simulate_run(tmp_path / "b", {"ngram": GOOD}))).out


GOOD = SimulatedDrafter(0.7, 0.01)


def test_the_verdict_on_acceptance_is_one_sentence(specbench: Command, tmp_path: Path) -> None:
    heads = {"medusa:x": SimulatedDrafter(0.5, 0.02, alphas=(0.8, 0.6, 0.4, 0.2))}
    run = str(simulate_run(tmp_path / "run", heads, gammas=(2, 4), prompts=8))
    group = json.loads(specbench("fit", run, "--format", "json").out)["groups"][0]
    out = specbench("fit", run).out
    assert max(map(len, out.splitlines())) <= 80
    sentence = group["acceptance"]["sentence"]
    assert "not i.i.d." in sentence
    assert f"medusa:x (code, T = 0, batch 1): {sentence}" in " ".join(out.split())


def test_a_run_in_another_tools_convention(specbench: Command, run: str) -> None:
    point = json.loads(specbench("fit", run, "--format", "json").out)["groups"][0]["points"][2]
    document = json.loads(specbench("fit", run, "--convention", "vllm", "--format", "json").out)
    assert document["convention"] == "vllm"
    row = document["rows"][2]
    assert (row["gamma"], row["drafter"]) == (4, "model:drafters/A-LONG-NAME-400M")
    assert row["mean acceptance length"] == pytest.approx(point["tau"])
    assert row["per position"] == pytest.approx(point["survival_by_position"])
    for tool in ("sglang", "gpt-fast"):
        table = specbench("fit", run, "--convention", tool)
        assert table.code == 0
        assert max(map(len, table.out.splitlines())) <= 100
        rows = list(
            csv.DictReader(
                io.StringIO(specbench("fit", run, "--convention", tool, "--format", "csv").out)
            )
        )
        assert len(rows) == 4 * 3 + 4 * 2
    error = specbench("fit", run, "--convention", "tgi").error_line
    assert "unknown convention 'tgi'" in error


def test_numbers_that_cannot_be_are_noted_with_both_sides(
    specbench: Command, tmp_path: Path
) -> None:
    folder = simulate_run(tmp_path / "run", {"ngram": GOOD}, gammas=(2,), prompts=6)
    assert "numbers that cannot be" not in specbench("fit", str(folder)).err
    cells = folder / "cells.jsonl"
    lines = [json.loads(line) for line in cells.read_text().splitlines()]
    lines[-1]["itl_s"] *= 2
    cells.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (note,) = [n for n in specbench("fit", str(folder)).err.splitlines() if "cannot be" in n]
    assert "ngram γ = 2 (code, T = 0, batch 1): step times: time per output token is" in note
    assert "time per step / tokens per round" in note


def test_gammas_left_out_are_predicted(specbench: Command, tmp_path: Path) -> None:
    drafters = {"model:drafters/A-LONG-NAME-400M": SimulatedDrafter(0.7, 0.05)}
    run = str(
        simulate_run(
            tmp_path / "run",
            drafters,
            gammas=(1, 4, 8, 16),
            temperatures=(0.7,),
            batch_sizes=(1, 16),
            prompts=40,
            v=1.2,
            overhead=0.05,
        )
    )
    group = json.loads(specbench("fit", run, "--format", "json").out)["groups"][0]
    result = specbench("fit", run, "--detail")
    assert max(map(len, result.out.splitlines())) <= 80
    words = " ".join(result.out.split())
    for cell in group["prediction"]["held_out"]:
        assert f"{cell['speedup']:.2f} " in result.out
    sentence = group["prediction"]["sentence"].removeprefix("Averaged over γ the closed form is ")
    assert sentence.removesuffix(".") in words
    assert "the largest term is v > 1" in sentence
    assert "each γ predicted from the others" in words
    costs, errors = group["costs"], group["errors"]
    d0, c = (number(costs[name], 3) for name in ("d0", "c"))
    assert f"fitted {d0} {c} " in words
    low = [number(costs[f"{name}_ci"][0], 3) for name in ("d0", "c")]
    assert f"low {' '.join(low)} " in words
    assert f"mean {group['c']:.3f} {group['overhead']:.3f} " in words
    scored = (errors["closed_form"], errors["extended"], group["prediction"]["errors_closed_form"])
    for both in (*scored, group["prediction"]["errors"]):
        assert f"{both['median']:.0%} ({both['worst']:.0%})" in words
    assert group["costs"]["v0"] == pytest.approx(1.2, rel=0.02)
    rows = list(csv.DictReader(io.StringIO(specbench("fit", run, "--format", "csv").out)))
    for row, cell in zip(rows, group["prediction"]["held_out"], strict=False):
        assert float(row["held_out"]) == cell["speedup"]
        assert [float(row["held_out_low"]), float(row["held_out_high"])] == cell["speedup_ci"]
        terms = [float(value) for name, value in row.items() if name.startswith("gap_")]
        assert sum(terms) == pytest.approx(
            math.log(float(row["speedup"]) / float(row["closed_form"])), abs=1e-9
        )


def test_documents_tell_the_error_without_traces_as_fit_does(
    specbench: Command, tmp_path: Path
) -> None:
    root = Path(__file__).resolve().parents[2]
    shutil.copytree(root / "results" / "lengths", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "diagnostics")
    said = " ".join(specbench("fit", str(tmp_path / "run")).out.split())
    told = re.search(r"the extended model (\d+%)", said)
    assert told is not None
    assert f"is {told[1]} off in the median, 2% with" in (root / "README.md").read_text()
    predictions = (root / "docs" / "predictions.md").read_text()
    assert f"Without the traces it is {told[1]} and 18%" in predictions


def test_marks_and_tables_that_no_row_uses_are_left_out(specbench: Command, tmp_path: Path) -> None:
    tree = foreign.sglang(steps=5, topk=4, nodes=16, tau=3.6)
    foreign.imported_run(tmp_path / "a", [foreign.sglang(steps=0, tau=1.0), tree])
    out = specbench("fit", str(tmp_path / "a" / "run"), "--detail").out
    assert "eagle" in out
    assert "†" not in out
    assert "acceptance by depth" not in out
