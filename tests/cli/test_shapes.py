"""A shape from ``specbench run`` to every answer, on the CPU: no weights, no network, no cache."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.cli.main import main
from specbench.records.reading import Run, load_run
from specbench.records.schema import CellRecord
from specbench.sweep import runner
from specbench.weights import catalog
from tests.tiny_target import write_prompts

Command = Callable[..., Any]

CONFIG = {
    "model_type": "llama",
    "vocab_size": 4096,
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
ALPHAS = (0.2, 0.5, 0.8, 0.9)
NOTE = "§ synthetic drafters: their α is set, not measured; they are never recommended"
SIZE = "--gamma 1,3 --prompts 6 --max-new-tokens 24 --threads 1 --device cpu --dtype float32"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the configs of a target and of a smaller drafter, and prompts."""
    folder = tmp_path_factory.mktemp("home")
    for name, layers in (("tiny", 4), ("smaller", 1)):
        (folder / name).mkdir()
        config = {**CONFIG, "num_hidden_layers": layers}
        (folder / name / "config.json").write_text(json.dumps(config), encoding="utf-8")
    write_prompts(folder / "mine.jsonl", chats=1)
    return folder


@pytest.fixture(scope="module")
def ran(home: Path) -> tuple[Path, str]:
    """A run of four alphas that cost an EAGLE head, and one that costs a model; its output."""
    import contextlib
    import io

    drafters = [f"synthetic:{alpha},cost=eagle:shape" for alpha in ALPHAS]
    drafters.append(f"synthetic:0.8,cost=model:shape:{home}/smaller")
    words = f"run --target shape:{home}/tiny --task {home}/mine.jsonl --out {home}/run {SIZE}"
    chosen = [word for drafter in drafters for word in ("--drafter", drafter)]
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setattr(runner, "copy_bandwidth", lambda device: 1e10)
        patch.setattr(runner, "matmul_rate", lambda device, dtype: 1e11)
        patch.setenv("SPECBENCH_CACHE", str(home / "none"))
        with pytest.raises(SystemExit) as ending:
            main([*shlex.split(words), *chosen])
    assert ending.value.code == 0
    assert not (home / "none").exists()
    return home / "run", out.getvalue()


@pytest.fixture(scope="module")
def run(ran: tuple[Path, str]) -> Run:
    return load_run(ran[0])


def drafted(run: Run) -> list[CellRecord]:
    return [cell for cell in run.cells if not cell.is_baseline]


def test_the_record_says_that_weights_and_acceptance_are_made_up(run: Run, home: Path) -> None:
    target = run.manifest.target
    assert target["served_from"] == f"random weights; config.json of {home}/tiny"
    assert (target["sha256"], target["tokenizer"]) == (None, "SmolLM2's, ids only")
    assert run.manifest.config["ignore_eos"] is True
    for text, facts in run.manifest.drafters.items():
        assert "cost=" in text
        assert facts["served_from"].startswith("random weights")
    assert [cell.status for cell in run.cells] == ["ok"] * 12
    for cell in run.cells:
        assert cell.synthetic is not cell.is_baseline
        assert cell.lossless == ("identical" if cell.baseline == "last" else None)


def test_the_coin_decides_and_costs_are_measured(run: Run) -> None:
    for cell in drafted(run):
        set_alpha = float(cell.drafter.partition(":")[2].partition(",")[0])
        assert cell.alpha == pytest.approx(set_alpha, abs=0.15)
        assert cell.c is not None
        assert cell.c > 0
        assert cell.draft_s is not None
        assert cell.draft_s > 0
        assert cell.speedup is not None
        cost = (cell.model_extra or {})["cost"]
        assert cost["drafter_weight_bytes"] > 0
        assert cost["drafter_kv_bytes_per_token"] > 0
        assert set(run.requests(cell.cell_id)["num_tokens"]) == {24}


def test_the_table_marks_every_alpha(ran: tuple[Path, str]) -> None:
    lines = ran[1].splitlines()
    rows = [line for line in lines if line.endswith(" -") and "§" in line]
    assert len(rows) == len(ALPHAS) * 2 + 2
    assert NOTE in lines
    assert max(map(len, lines)) <= 80


def test_fit_has_costs_and_no_verdict_on_acceptance(specbench: Command, ran: Any) -> None:
    result = specbench("fit", str(ran[0]))
    assert result.code == 0, result.err
    assert NOTE in result.out
    assert "fitted, over all γ" in result.out
    assert result.out.count("left out, for α was set and not measured") == 1
    assert "may be i.i.d." not in result.out
    document = json.loads(specbench("fit", str(ran[0]), "--format", "json").out)
    assert all(group["synthetic"] and group["acceptance"] is None for group in document["groups"])
    assert all(group["c"] > 0 for group in document["groups"])


def test_claims_take_no_acceptance_from_it(specbench: Command, ran: Any) -> None:
    document = json.loads(specbench("fit", str(ran[0]), "--claims", "--format", "json").out)
    verdicts = {claim["name"]: claim["verdict"] for claim in document["claims"]}
    for name in ("alpha-falls-with-temperature", "predictable-text-accepts-more"):
        assert verdicts[name] == "not measured"


def test_the_speedup_over_alpha_is_one_panel_per_cost(specbench: Command, ran: Any) -> None:
    result = specbench("plot", str(ran[0]), "--figure", "speedup-vs-alpha", "--format", "svg")
    assert result.code == 0, result.err
    text = Path(result.out.strip()).read_text(encoding="utf-8")
    assert "synthetic:A,cost=eagle:shape" in text
    assert "extended model" in text
    for part in ("§ synthetic drafters", "their α is"):
        assert part in text


def test_figures_about_acceptance_leave_it_out_by_name(specbench: Command, ran: Any) -> None:
    for name, says in (
        ("alpha-by-task-and-temperature", "all drafters are synthetic, whose alpha was set"),
        ("acceptance-by-position", "synthetic drafters"),
    ):
        assert says in specbench("plot", str(ran[0]), "--figure", name).error_line
    everything = specbench("plot", str(ran[0]), "--format", "png")
    assert everything.code == 0
    assert "speedup-vs-gamma.png" in everything.out
    assert "whose alpha was set" in everything.err


def test_optimal_gamma_answers_for_each_alpha_and_recommends_nothing(
    specbench: Command, ran: Any
) -> None:
    result = specbench("optimal-gamma", str(ran[0]))
    assert result.code == 0, result.err
    assert "If α were as it was set: the best γ" in result.out
    assert "What to use" not in result.out
    assert NOTE in result.out
    assert max(map(len, result.out.splitlines())) <= 80
    document = json.loads(specbench("optimal-gamma", str(ran[0]), "--format", "json").out)
    assert all(group["at_given_alpha"]["gamma"] >= 0 for group in document["groups"])
    assert [choice["drafter"] for choice in document["policy"]] == ["none"]


def test_the_report_says_so_too(specbench: Command, ran: Any, tmp_path: Path) -> None:
    result = specbench("report", str(ran[0]), "--out", str(tmp_path / "page.html"))
    assert result.code == 0, result.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Nothing is recommended: all drafters of this run are synthetic." in page
    assert "If α were as it was set: the best γ" in page
    assert NOTE in page
    assert "Left out, because their α was set and not measured" in page


def test_typed_again_it_is_the_same_run(specbench: Command, home: Path, ran: Any) -> None:
    words = f"run --target shape:{home}/tiny --task {home}/mine.jsonl --out {home}/run {SIZE}"
    drafters = [f"synthetic:{alpha},cost=eagle:shape" for alpha in ALPHAS]
    drafters.append(f"synthetic:0.8,cost=model:shape:{home}/smaller")
    chosen = [word for drafter in drafters for word in ("--drafter", drafter)]
    again = specbench(*shlex.split(words), *chosen)
    assert again.code == 0, again.err
    assert again.out == ran[1]


def test_batch_and_context_are_axes(
    specbench: Command, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "copy_bandwidth", lambda device: 1e10)
    monkeypatch.setattr(runner, "matmul_rate", lambda device, dtype: 1e11)
    words = f"--target shape:{home}/tiny --task {home}/mine.jsonl --out {tmp_path}/run {SIZE}"
    axes = "--batch-size 1,16 --context-length 96,160,512 --drafter synthetic:0.8,cost=medusa:shape"
    result = specbench("run", *shlex.split(f"{words} {axes}"))
    assert result.code == 0, result.err
    assert "mine, T = 0, batch 16, context 160" in result.out
    assert "left out: context 512 with output and draft is beyond the target's 256" in result.err
    assert "mine: 6 prompts for 16 slots are asked in turn, 32 requests in all" in result.err
    found = load_run(tmp_path / "run")
    assert {(cell.batch_size, cell.context_length) for cell in found.cells} == {
        (size, length) for size in (1, 16) for length in (96, 160)
    }
    for cell in found.cells:
        assert cell.status == "ok", cell.error
        rounds = found.rounds(cell.cell_id)
        assert rounds["context_length"].min() == cell.context_length + 1
        assert rounds["active_rows"].max() == cell.batch_size
    fit = specbench("fit", str(tmp_path / "run"))
    assert "16@160" in fit.out
    assert "B@N: prompts brought to N tokens" in fit.out
    document = json.loads(specbench("fit", str(tmp_path / "run"), "--format", "json").out)
    assert {group["context_length"] for group in document["groups"]} == {96, 160}
    optimal = specbench("optimal-gamma", str(tmp_path / "run"))
    assert "16@160" in optimal.out
    figure = specbench("plot", str(tmp_path / "run"), "--figure", "batch-crossover")
    assert figure.code == 0, figure.err


def test_models_lists_shapes(specbench: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "cached_models", list)
    lines = specbench("models").out.splitlines()
    assert max(map(len, lines)) <= 80
    (line,) = [line for line in lines if line.startswith("shape:llama-3.1-8b ")]
    assert line.split() == [
        *("shape:llama-3.1-8b", "8.03", "B", "16.06", "GB"),
        *("meta-llama/Llama-3.1-8B,", "July", "2024"),
    ]
    document = json.loads(specbench("models", "--format", "json").out)
    shapes = {shape["name"]: shape for shape in document["shapes"]}
    assert shapes["shape:llama-3.1-8b"] == {
        "name": "shape:llama-3.1-8b",
        "parameters": 8_030_261_248,
        "bfloat16_bytes": 16_060_522_496,
        "source": "config.json of meta-llama/Llama-3.1-8B, July 2024",
    }


def test_a_dry_run_estimates_a_shape_without_making_it(
    specbench: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specbench.measure.bandwidth.copy_bandwidth", lambda device: 1e12)
    words = f"run --target shape:llama-3.1-8b --task {home}/mine.jsonl --dry-run --threads 1"
    result = specbench(*words.split())
    assert result.code == 0, result.err
    assert "(16.06 GB at the measured 1000.0 GB/s)" in result.out
    assert "synthetic:0.9,cost=eagle:shape" in result.out


WRONG = {
    "a real drafter": ("--drafter ngram", ["accepted by chance", "synthetic:A,cost=ngram"]),
    "stop tokens": ("--stop-at-eos", ["--stop-at-eos", "random weights"]),
    "a context of nothing": ("--context-length 0", ["--context-length '0'", "1 or more"]),
    "a context too short": ("--context-length 5", ["more than --context-length 5"]),
    "every context too long": ("--context-length 4096", ["context 4096", "the target's 256"]),
    "a tree as a cost": (
        "--drafter synthetic:0.5,cost=eagle:shape,tree=8",
        ["chains of fixed length"],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_one_line(specbench: Command, home: Path, tmp_path: Path, case: str) -> None:
    words, parts = WRONG[case]
    line = f"run --target shape:{home}/tiny --task {home}/mine.jsonl --out {tmp_path}/x {SIZE}"
    error = specbench(*shlex.split(f"{line} {words}")).error_line
    for part in parts:
        assert part in error
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("target", "says"),
    [("shape:llama-9b", "unknown shape 'llama-9b'"), ("shape:llama-9", "unknown shape 'llama-9'")],
)
def test_what_is_no_shape_is_one_line(
    specbench: Command, home: Path, tmp_path: Path, target: str, says: str
) -> None:
    words = f"run --target {target} --task {home}/mine.jsonl --out {tmp_path}/x --device cpu"
    assert says in specbench(*words.split()).error_line


def test_nothing_is_traced_or_trained_on_random_weights(
    specbench: Command, home: Path, tmp_path: Path
) -> None:
    target = f"--target shape:{home}/tiny"
    traced = f"alpha {target} --task {home}/mine.jsonl --drafter ngram --out {tmp_path}/x"
    assert "no drafter's alpha can be told" in specbench(*traced.split()).error_line
    trained = f"train-drafter {target} --kind eagle --out {tmp_path}/y"
    assert "random weights" in specbench(*trained.split()).error_line
