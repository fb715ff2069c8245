from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.records.schema import CellRecord
from specbench.records.store import load_run
from specbench.records.summary_identities import record_identities
from specbench.theory import closed_form
from tests import foreign

Command = Callable[..., Any]
ALPHA, GAMMA = 0.7, 5


def by_drafter(folder: Path) -> dict[str, CellRecord]:
    return {f"{cell.drafter} {cell.task}": cell for cell in load_run(folder).cells}


def test_vllm_pair_gives_acceptance_and_speedup(specbench: Command, tmp_path: Path) -> None:
    plain = foreign.write(tmp_path / "plain.json", foreign.vllm())
    spec = foreign.write(tmp_path / "spec.json", foreign.vllm_speculative())
    result = specbench(
        "import", str(plain), str(spec), "--drafter", "eagle", "--task", "chat",
        "--temperature", "0.5", "--out", str(tmp_path / "run"),
    )  # fmt: skip
    assert result.code == 0, result.err
    cells = by_drafter(tmp_path / "run")
    cell, base = cells["eagle chat"], cells["none chat"]
    assert (cell.target, cell.gamma, cell.batch_size) == ("org/target", 3, 4)
    assert cell.temperature == 0.5
    assert cell.backend == "vllm"
    assert cell.imported_from == "vllm-bench"
    assert cell.draft_acceptance_rate == pytest.approx(2600 / 6000)
    assert cell.tau == pytest.approx(2.3)
    assert cell.survival_by_position == [0.7, 0.4, 0.2]
    assert cell.alpha_by_position == pytest.approx([0.7, 4 / 7, 0.5])
    assert cell.alpha == pytest.approx(1.3 / 2.1)
    assert (cell.num_rounds, cell.num_drafted, cell.num_accepted) == (2000, 6000, 2600)
    assert (cell.itl_s, cell.step_s, cell.ttft_s) == (0.05, 0.115, 0.1)
    assert (cell.tok_per_s, cell.wall_s, cell.tokens) == (76.9, 65.0, 5000)
    assert cell.speedup == pytest.approx(80 / 50)
    assert cell.end_to_end_speedup == pytest.approx(76.9 / 48.1)
    assert (cell.speedup_ci, cell.c, cell.v, cell.overhead, cell.energy_j) == (None,) * 5
    assert (base.is_baseline, base.alpha, base.speedup) == (True, None, None)
    assert record_identities(cell) == record_identities(base) == []


def test_a_sweep_tells_gamma_and_its_runs_are_repeats(specbench: Command, tmp_path: Path) -> None:
    key = "speculative_config.num_speculative_tokens"
    sweep = [
        {**result, key: gamma, "run_number": number, "max_concurrency": 8}
        for number in (0, 1)
        for gamma, result in ((0, foreign.vllm()), (3, foreign.vllm_speculative()))
    ]
    file = foreign.write(tmp_path / "summary.json", sweep)
    assert specbench("import", str(file), "--out", str(tmp_path / "run")).code == 0
    cells = load_run(tmp_path / "run").cells
    assert [(cell.gamma, cell.repeat) for cell in cells] == [(0, 0), (3, 0), (0, 1), (3, 1)]
    document = json.loads(specbench("fit", str(tmp_path / "run"), "--format", "json").out)
    (point,) = document["groups"][0]["points"]
    assert point["speedup"] == pytest.approx(1.6)
    assert point["num_rounds"] == 4000


def test_drafts_of_changing_length_have_no_alpha(specbench: Command, tmp_path: Path) -> None:
    short = foreign.vllm_speculative(spec_decode_draft_tokens=4000)
    file = foreign.write(tmp_path / "a.json", short)
    assert specbench("import", str(file), "--out", str(tmp_path / "run")).code == 0
    (cell,) = load_run(tmp_path / "run").cells
    assert cell.alpha is None
    assert cell.tau == pytest.approx(2.3)
    assert any("2.00 of 3 tokens on average" in text for text in cell.warnings)


def test_sglang_lines_are_chains_trees_and_plain_decoding(
    specbench: Command, tmp_path: Path
) -> None:
    tau = closed_form.expected_tokens(ALPHA, 3)
    file = foreign.write(
        tmp_path / "out.jsonl",
        foreign.sglang(steps=0, tau=1.0, step_s=0.01),
        foreign.sglang(tau=tau, step_s=0.0125),
        foreign.sglang(steps=5, topk=4, nodes=16, tau=3.4, step_s=0.02),
        lines=True,
    )
    assert specbench("import", str(file), "--out", str(tmp_path / "run")).code == 0
    plain, chain, tree = load_run(tmp_path / "run").cells
    assert plain.is_baseline
    assert (chain.drafter, chain.gamma, chain.draft_form) == ("eagle", 3, "chain")
    assert chain.alpha == pytest.approx(ALPHA, abs=1e-6)
    assert chain.speedup == pytest.approx(tau / 1.25, rel=1e-4)
    assert (tree.gamma, tree.draft_form, tree.tree_nodes) == (5, "tree", 16)
    assert tree.alpha is None
    assert tree.speedup == pytest.approx(3.4 / 2)
    assert all(record_identities(cell) == [] for cell in (plain, chain, tree))


def spec_bench_files(folder: Path) -> tuple[Path, Path]:
    rounds = foreign.chain_lengths(ALPHA, GAMMA, questions=60, rounds=40)
    plain = foreign.spec_bench("vicuna-vanilla-temp-0.0", [[1] * 40] * 60, 0.03)
    spec = foreign.spec_bench("vicuna-sps-temperature-0.0", rounds, 0.05)
    return (
        foreign.write(folder / "plain.jsonl", *plain, lines=True),
        foreign.write(folder / "sps.jsonl", *spec, lines=True),
    )


def test_spec_bench_keeps_rounds_and_has_intervals(specbench: Command, tmp_path: Path) -> None:
    files = spec_bench_files(tmp_path)
    out = str(tmp_path / "run")
    result = specbench("import", *map(str, files), "--gamma", str(GAMMA), "--out", out)
    assert result.code == 0, result.err
    run, cells = load_run(out), by_drafter(tmp_path / "run")
    cell = cells["vicuna-sps-temperature-0.0 mt_bench"]
    assert "vicuna-sps-temperature-0.0 translation" in cells
    assert cell.alpha == pytest.approx(ALPHA, abs=0.03)
    assert cell.alpha_ci is not None
    assert cell.alpha_ci[0] < ALPHA < cell.alpha_ci[1]
    assert cell.tau is not None
    assert cell.speedup == pytest.approx(cell.tau * 0.03 / 0.05)
    assert cell.speedup_ci is not None
    assert cell.speedup_ci[0] < cell.speedup < cell.speedup_ci[1]
    rounds = run.columns("rounds", cell.cell_id)
    assert 1 + rounds["num_accepted"].mean() == pytest.approx(cell.tau)
    assert rounds["draft_s"].size == 30 * 40
    assert all(value != value for value in rounds["draft_s"][:3]), "times are null"
    assert record_identities(cell) == []


def test_spec_bench_without_gamma_says_so(specbench: Command, tmp_path: Path) -> None:
    _, file = spec_bench_files(tmp_path)
    result = specbench("import", str(file), "--out", str(tmp_path / "run"))
    assert "longest run accepted, 5, and there is no alpha (--gamma)" in result.err
    assert "no result of plain decoding" in result.err
    for cell in load_run(tmp_path / "run").cells:
        assert (cell.gamma, cell.alpha, cell.speedup) == (GAMMA, None, None)
        assert cell.tau is not None


def test_llama_cpp_counts_rounds_by_what_nobody_drafted(specbench: Command, tmp_path: Path) -> None:
    plain = foreign.write(tmp_path / "plain.json", foreign.llama_cpp())
    spec = foreign.write(tmp_path / "spec.json", foreign.llama_cpp(200, 100, 12.5))
    out = str(tmp_path / "run")
    words = (str(plain), str(spec), "--drafter", "ngram", "--gamma", "2", "--out", out)
    assert specbench("import", *words).code == 0
    cell = by_drafter(tmp_path / "run")["ngram coding"]
    assert (cell.num_rounds, cell.num_accepted, cell.num_drafted) == (400, 400, 800)
    assert cell.tau == 2.0
    assert cell.alpha == pytest.approx((5**0.5 - 1) / 2)  # 1 + a + a^2 = 2
    assert cell.draft_acceptance_rate == 0.5
    assert cell.speedup == pytest.approx(20 / 12.5)
    assert cell.tok_per_s == pytest.approx(80)
    assert record_identities(cell) == []


@pytest.mark.parametrize("kind", ["vllm", "sglang", "spec-bench", "llama-cpp"])
def test_every_command_reads_an_imported_run(specbench: Command, tmp_path: Path, kind: str) -> None:
    files = {
        "vllm": lambda: (
            foreign.write(tmp_path / "a.json", foreign.vllm()),
            foreign.write(tmp_path / "b.json", foreign.vllm_speculative()),
        ),
        "sglang": lambda: (
            foreign.write(
                tmp_path / "a.jsonl", foreign.sglang(steps=0, tau=1.0), foreign.sglang(), lines=True
            ),
        ),
        "spec-bench": lambda: spec_bench_files(tmp_path),
        "llama-cpp": lambda: (
            foreign.write(tmp_path / "a.json", foreign.llama_cpp()),
            foreign.write(tmp_path / "b.json", foreign.llama_cpp(200, 100, 12.5)),
        ),
    }[kind]()
    gamma = {"spec-bench": ["--gamma", "5"], "llama-cpp": ["--gamma", "2"]}.get(kind, [])
    run = str(tmp_path / "run")
    assert specbench("import", *map(str, files), *gamma, "--out", run).code == 0
    fit = specbench("fit", run)
    assert fit.code == 0, fit.err
    assert max(map(len, fit.out.splitlines())) <= 100
    assert "imported from" in fit.err
    assert "numbers that cannot be" not in fit.err
    optimal = specbench("optimal-gamma", run)
    assert optimal.code == 0, optimal.err
    if kind != "spec-bench":
        assert "has no interval" in " ".join(optimal.out.split()) or kind == "llama-cpp"
    drawn = specbench("plot", run, "--format", "svg", "--out", str(tmp_path / "figures"))
    assert drawn.code == 0, drawn.err
    for convention in ("vllm", "sglang", "spec-bench", "gpt-fast", "leviathan", "nvidia"):
        assert specbench("fit", run, "--convention", convention).code == 0
    assert specbench("compare", run, run, "--fail-below", "0.99").code == 0


def test_an_impossible_import_is_noted_with_both_sides(specbench: Command, tmp_path: Path) -> None:
    """An inter-token latency of streamed chunks that was taken for a time per token."""
    file = foreign.write(tmp_path / "a.json", foreign.vllm_speculative(mean_tpot_ms=115.0))
    assert specbench("import", str(file), "--out", str(tmp_path / "run")).code == 0
    notes = specbench("fit", str(tmp_path / "run")).err
    assert "numbers that cannot be" in notes
    assert "time per output token is 0.115 s, time per step / tau 0.115 s / 2.3 = 0.05 s" in notes


def test_impossible_counts_of_an_import_are_left_out(specbench: Command, tmp_path: Path) -> None:
    impossible = foreign.vllm_speculative(
        spec_decode_per_position_acceptance_rates=[0.7, 0.4],
        spec_decode_draft_tokens=4000,
        spec_decode_acceptance_length=5.0,
    )
    bad = foreign.write(tmp_path / "bad.json", impossible)
    good = foreign.write(tmp_path / "good.json", foreign.vllm_speculative())
    plain = foreign.write(tmp_path / "plain.json", foreign.vllm())
    both, alone = str(tmp_path / "both"), str(tmp_path / "alone")
    assert specbench("import", str(plain), str(good), str(bad), "--out", both).code == 0
    fit = specbench("fit", both, "--format", "json")
    (group,) = json.loads(fit.out)["groups"]
    assert [point["gamma"] for point in group["points"]] == [3]
    assert "block efficiency: tau 5 is above gamma + 1 = 3; the cell is left out" in fit.err
    assert specbench("import", str(plain), str(bad), "--out", alone).code == 0
    for words in (("fit", alone), ("fit", alone, "--convention", "vllm"), ("optimal-gamma", alone)):
        line = specbench(*words).error_line
        assert "nothing of alone can be used" in line
        assert "tau 5 is above gamma + 1 = 3" in line
        assert line.endswith("Look at the files it was imported from, and at --gamma")


def broken(folder: Path) -> dict[str, tuple[list[str], str]]:
    good = json.dumps(foreign.vllm_speculative())
    line = json.dumps(foreign.sglang())
    files = {
        "empty.json": "",
        "cut.json": json.dumps(foreign.vllm(), indent=2)[:200],
        "cut.jsonl": f"{line}\n{line[:40]}",
        "text.json": "not JSON at all",
        "number.json": "17",
        "deep.json": "[" * 100_000,
        "deep.jsonl": f"{line}\n" + '{"a":' * 100_000,
        "list.json": "[]",
        "other.json": '{"a": 1}',
        "mixed.jsonl": f"{line}\n{good}\n",
        "words.json": json.dumps(foreign.vllm(mean_tpot_ms="fast")),
        "negative.json": json.dumps(foreign.vllm_speculative(spec_decode_num_drafts=-3)),
        "batchless.json": json.dumps(foreign.vllm(max_concurrency=None)),
        "llama.json": json.dumps(foreign.llama_cpp(200, 100)),
        "good.json": good,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return {
        "missing": (["missing.json"], "missing.json: No such file"),
        "folder": (["."], "Is a directory"),
        "empty": (["empty.json"], "empty.json is empty"),
        "cut": (["cut.json"], "cut.json is not JSON"),
        "cut line": (["cut.jsonl"], "cut.jsonl line 2 is not JSON"),
        "text": (["text.json"], "text.json is not JSON"),
        "number": (["number.json"], "object 1 is 17"),
        "deep": (["deep.json"], "deep.json is nested too deeply"),
        "deep line": (["deep.jsonl"], "deep.jsonl is nested too deeply"),
        "list": (["list.json"], "empty list"),
        "other": (["other.json"], "of no known format"),
        "mixed lines": (["mixed.jsonl"], "object 2 is vllm-bench, not sglang"),
        "mixed files": (["good.json", "llama.json"], "different formats"),
        "wrong format": (["good.json", "--format", "sglang"], "is vllm-bench, not sglang"),
        "unknown format": (["good.json", "--format", "vlm"], "unknown format 'vlm'"),
        "words": (["words.json"], 'words.json: mean_tpot_ms is "fast", not a number'),
        "negative": (["negative.json"], "spec_decode_num_drafts is -3, below 0"),
        "batchless": (["batchless.json"], "does not tell the batch size"),
        "gamma": (["llama.json"], "does not tell the gamma. Give it with --gamma N"),
        "other gamma": (["good.json", "--gamma", "5"], "has gamma 3, --gamma says 5"),
        "no gamma": (["good.json", "--gamma", "0"], "--gamma 0 is out of range"),
        "huge gamma": (["good.json", "--gamma", "9" * 20], f"--gamma {'9' * 20} is out of range"),
    }


# fmt: off
CASES = [
    "missing", "folder", "empty", "cut", "cut line", "text", "number", "deep", "deep line", "list",
    "other", "mixed lines", "mixed files", "wrong format", "unknown format", "words", "negative",
    "batchless", "gamma", "other gamma", "no gamma", "huge gamma",
]
# fmt: on


@pytest.mark.parametrize("case", CASES)
def test_a_bad_input_ends_with_2_and_one_line(
    specbench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words, says = broken(tmp_path)[case]
    assert says in specbench("import", *words, "--out", "run").error_line
    assert not (tmp_path / "run").exists()


def test_rounds_of_an_import_without_them_are_missed_in_one_sentence(
    specbench: Command, tmp_path: Path
) -> None:
    from specbench.errors import SpecbenchError

    file = foreign.write(tmp_path / "a.json", foreign.vllm_speculative())
    specbench("import", str(file), "--out", str(tmp_path / "run"))
    run = load_run(tmp_path / "run")
    with pytest.raises(SpecbenchError) as problem:
        run.columns("rounds", run.cells[0].cell_id)
    assert "it was imported from vllm-bench, whose results don't hold them" in str(problem.value)


def test_the_same_files_in_any_order_are_the_same_run(specbench: Command, tmp_path: Path) -> None:
    plain = foreign.write(tmp_path / "plain.json", foreign.vllm())
    spec = foreign.write(tmp_path / "spec.json", foreign.vllm_speculative())
    other = foreign.write(tmp_path / "other.json", foreign.vllm(duration=100.0))
    out = ("--out", str(tmp_path / "run"))
    assert specbench("import", str(plain), str(spec), *out).code == 0
    assert specbench("import", str(spec), str(plain), *out).code == 0
    line = specbench("import", str(other), str(spec), *out).error_line
    assert re.search(
        r"files: plain\.json \([0-9a-f]{8}\), spec\.json \([0-9a-f]{8}\) there, "
        r"other\.json \([0-9a-f]{8}\), spec\.json \([0-9a-f]{8}\) here",
        line,
    )


def test_files_of_several_targets_are_told(specbench: Command, tmp_path: Path) -> None:
    plain = foreign.write(tmp_path / "plain.json", foreign.vllm())
    spec = foreign.write(tmp_path / "spec.json", foreign.vllm_speculative(model_id="org/other"))
    result = specbench("import", str(plain), str(spec), "--out", str(tmp_path / "run"))
    assert "the files are of several targets: org/target, org/other" in result.err
    assert "another target (org/target, not org/other)" in result.err
    notes = load_run(tmp_path / "run").manifest.warnings
    assert any("several targets" in note for note in notes)


def test_a_failed_cell_is_told_and_written(specbench: Command, tmp_path: Path) -> None:
    spec = foreign.write(tmp_path / "s.json", foreign.vllm_speculative(completed=0, failed=20))
    result = specbench("import", str(spec), "--out", str(tmp_path / "run"))
    assert result.code == 0
    assert "all 20 requests failed: a failed cell" in result.err
    (cell,) = load_run(tmp_path / "run").cells
    assert (cell.status, cell.error, cell.tau) == ("failed", "all 20 requests failed", None)
