"""Quantised targets and drafters from the command line: what is shown, recorded and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.shown.frame import points_frame
from specbench.records.store import load_run
from specbench.weights.loading import load_causal_lm
from tests.quantised import needs
from tests.tiny_target import write_prompts, write_target

SIZE = "--temperature 0 --gamma 1,4 --prompts 6 --max-new-tokens 12 --threads 1 --device cpu"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a target and prompts."""
    folder = tmp_path_factory.mktemp("home")
    write_target(folder / "tiny", chat=True)
    write_prompts(folder / "mine.jsonl")
    return folder


@pytest.fixture
def here(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECBENCH_CACHE", str(home / "cache"))
    monkeypatch.chdir(home)
    return home


def run(specbench, words: str, out: str = "out"):
    target = "" if "--target " in words else "--target tiny"
    line = f"run {target} --task mine.jsonl {SIZE} --out {out} {words}"
    return specbench(*line.split())


@needs("torchao")
def test_a_quantised_target_with_a_plain_and_a_quantised_drafter(specbench, here: Path):
    drafters = "--drafter model:tiny --drafter model:tiny,quantization=int4"
    result = run(specbench, f"--target-quantization int8 {drafters} --batch-size 1,3")
    assert result.code == 0, result.err
    assert result.out.count("identical") == 8
    assert "DIVERGED" not in result.out
    assert "int8: 14 layers with" in result.err
    record = load_run(here / "out")
    target = load_causal_lm("tiny", device="cpu", quantization="int8")
    drafter = load_causal_lm("tiny", device="cpu", quantization="int4")
    manifest = record.manifest
    assert manifest.target["quantization"] == target.quantization
    assert manifest.target["weight_bytes"] == target.weight_bytes
    assert manifest.packages["torchao"]
    facts = manifest.drafters
    assert facts["model:tiny,quantization=int4"]["quantization"] == drafter.quantization
    assert "quantization" not in facts["model:tiny"]
    for cell in record.cells:
        assert cell.target == "tiny, int8"
        assert cell.traffic["weights_bytes"] == target.weight_bytes  # its embedding is tied
        assert cell.memory["weight_bytes"] - target.weight_bytes < 1000  # tables of positions
    by_drafter = {c.drafter: c for c in record.cells if (c.gamma, c.batch_size) == (4, 1)}
    plain, packed = by_drafter["model:tiny"], by_drafter["model:tiny,quantization=int4"]
    assert packed.traffic["drafter_bytes"] < 0.75 * plain.traffic["drafter_bytes"]
    assert plain.alpha > packed.alpha > 0.3
    assert set(points_frame(fit_run(record))["target"]) == {"tiny, int8"}


@needs("torchao")
def test_the_option_quantises_every_draft_model(specbench, here: Path):
    drafters = "--drafter model:tiny --drafter ngram --drafter-quantization int8"
    result = run(specbench, drafters, "of-all")
    assert result.code == 0, result.err
    cells = load_run(here / "of-all").cells
    assert {cell.drafter for cell in cells} == {"none", "ngram", "model:tiny,quantization=int8"}
    assert {cell.target for cell in cells} == {"tiny"}


@needs("torchao")
def test_a_run_is_not_resumed_with_another_quantisation(specbench, here: Path):
    first = run(specbench, "--target-quantization int8 --drafter ngram", "resumed")
    assert first.code == 0, first.err
    lines = (here / "resumed" / "cells.jsonl").read_text()
    for other in ("--target-quantization int4", ""):
        again = run(specbench, f"{other} --drafter ngram --resume", "resumed")
        assert again.code == 2
        assert "target_quantization: 'int8' there" in again.err
    plain = run(specbench, "--drafter ngram", "plain")
    assert plain.code == 0, plain.err
    assert "target_quantization" not in json.loads((here / "plain/manifest.json").read_text())
    quantised = run(specbench, "--target-quantization int8 --drafter ngram", "plain")
    assert "target_quantization: None there, 'int8' here" in quantised.err
    assert (here / "resumed" / "cells.jsonl").read_text() == lines


@needs("torchao")
def test_compare_names_the_difference(specbench, here: Path):
    for out, words in {"one": "", "other": "--target-quantization int8"}.items():
        assert run(specbench, f"{words} --drafter ngram", out).code == 0
    result = specbench("compare", "one", "other")
    said = " ".join((result.out + result.err).split())
    assert "another quantization of the target: none in one, int8 in other" in said
    note = "note: the target is tiny, int8: its weights were quantised"
    assert note not in specbench("fit", "one").err
    assert note in specbench("fit", "other").err


@needs("torchao")
def test_alpha_is_traced_against_a_quantised_target(specbench, here: Path):
    words = "--target tiny --task mine.jsonl --temperature 0 --prompts 6 --max-new-tokens 12"
    result = specbench(
        "alpha", *words.split(), "--target-quantization", "int8", "--drafter", "model:tiny",
        "--gamma", "4", "--device", "cpu", "--threads", "1", "--format", "json",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert "tiny, int8" in result.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "--target-quantization int3",
            "--target-quantization 'int3' is unknown. Known: int8, int4",
        ),
        ("--drafter-quantization int3", "--drafter-quantization 'int3' is unknown. Known: int8"),
        ("--drafter model:x,quantization=int3", "quantization 'int3' is unknown. Known: int8"),
        ("--drafter ngram --drafter-quantization int8", "has no draft model to quantise"),
        ("--drafter ngram,quantization=int8", "has no option 'quantization'"),
        ("--target-quantization int8 --backend openai:http://127.0.0.1:9", "loads its own"),
        ("--target-quantization int8 --backend vllm", "vllm loads its own"),
        ("--drafter model:x --drafter-quantization int8 --backend vllm", "vllm loads its own"),
    ],
)
def test_what_is_refused(specbench, here: Path, words: str, said: str):
    result = run(specbench, words, "refused")
    assert result.code == 2
    assert said in " ".join(result.err.split())
    assert not (here / "refused").exists()


def test_help_names_every_method(specbench):
    from specbench.weights.methods import METHODS

    for command in ("run", "alpha"):
        said = " ".join(specbench(command, "--help").out.split())
        assert "--target-quantization" in said
        assert all(method in said for method in METHODS)


@needs("torchao")
def test_a_plan_names_the_target_and_gives_no_estimate(specbench, here: Path):
    result = run(specbench, "--target-quantization int8 --drafter ngram --dry-run", "planned")
    assert result.code == 0
    assert "target tiny, int8" in result.out
    assert "no estimate of the time" in result.out
