"""``specbench run`` on an encoder-decoder: the experiment of Leviathan et al. in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from specbench.workloads import load_workload
from tests.cli.conftest import Result
from tests.tiny_seq2seq import write_encoder_decoder
from tests.tiny_target import write_target

Command = Callable[..., Result]
TASKS = ("translation", "summarization")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a target, a drafter of its family and others."""
    folder = tmp_path_factory.mktemp("home")
    write_encoder_decoder(folder / "t5")
    write_encoder_decoder(folder / "t5-near", noise=0.15)
    write_encoder_decoder(folder / "bart", "bart")
    write_target(folder / "llama")
    return folder


def run(
    specbench: Command,
    home: Path,
    out: Path,
    *words: str,
    target: str = "t5",
    shape: bool = False,
) -> Result:
    name = f"{'shape:' if shape else ''}{home}/{target}"
    fixed = f"run --target {name} --out {out} --prompt-source offline --device cpu"
    size = "--prompts 2 --max-new-tokens 6 --gamma 2 --threads 1"
    return specbench(*fixed.split(), *size.split(), *words)


@pytest.fixture(scope="module")
def measured(home: Path) -> Path:
    return home / "run"


def test_the_papers_experiment(specbench: Command, home: Path, measured: Path):
    words = f"--drafter model:{home}/t5-near --drafter ngram --task {','.join(TASKS)}"
    words += " --batch-size 1,2 --temperature 0"
    result = run(specbench, home, measured, *words.split())
    assert result.code == 0, result.err
    assert "DIVERGED" not in result.out + result.err
    records = [json.loads(line) for line in (measured / "cells.jsonl").read_text().splitlines()]
    drafted = [record for record in records if record["drafter"] != "none"]
    assert len(drafted) == 8
    assert {record["lossless"] for record in drafted} == {"identical"}
    assert all(record["alpha"] is not None for record in drafted)
    assert all(record["cost"]["source_kv_bytes_per_token"] == 512 for record in records)
    for record in records:
        own, model = record["cost"]["drafter_source_kv_bytes_per_token"], "t5-near"
        assert own == (512 if model in record["drafter"] else 0)


@pytest.mark.parametrize("task", TASKS)
def test_prompts_are_the_text_behind_the_tasks_prefix(
    specbench: Command, home: Path, measured: Path, task: str
):
    """One token per byte: the number of tokens says which text was read."""
    files = (measured / "requests").glob("*.parquet")
    requests = pd.concat([pd.read_parquet(file) for file in files])
    [workload] = load_workload(task, 2, "offline")
    read = requests[requests["task"] == task].groupby("prompt_id")["prompt_tokens"].unique()
    for prompt in workload.prompts:
        [text] = prompt.texts
        assert list(read[prompt.id]) == [len((prompt.prefix + text).encode())]


@pytest.mark.parametrize(
    ("target", "words", "says"),
    [
        ("t5", "--drafter early-exit:1", "'early-exit:1' can't draft for"),
        ("t5", "--drafter model:{home}/llama", "t5 alone is an encoder-decoder"),
        ("t5", "--drafter model:{home}/bart", "begins its outputs behind the tokens [2]"),
        ("llama", "--drafter model:{home}/t5", "t5 alone is an encoder-decoder"),
        ("t5", "--drafter ngram --compile", "--compile is for captured steps"),
        ("t5", "--drafter ngram,match=first --backend hf-assisted", "hf-assisted does not run"),
        ("bart", "--drafter ngram", "tokens; beyond the 64 that the target's encoder reads"),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    specbench: Command, home: Path, tmp_path: Path, target: str, words: str, says: str
):
    words = f"{words.format(home=home)} --task translation"
    result = run(specbench, home, tmp_path / "x", *words.split(), target=target)
    assert says in result.error_line
    assert not (tmp_path / "x").exists()


def test_drafters_are_not_traced_on_it(specbench: Command, home: Path, tmp_path: Path):
    words = f"alpha --target {home}/t5 --drafter ngram --task translation --prompts 2"
    result = specbench(*words.split(), "--out", f"{tmp_path}/x", "--device", "cpu")
    assert "on whose text no drafter is traced" in result.error_line


def test_no_drafter_is_trained_for_it(specbench: Command, home: Path, tmp_path: Path):
    words = f"train-drafter --target {home}/t5 --kind medusa --out {tmp_path}/x --device cpu"
    assert "is an encoder-decoder" in specbench(*words.split()).error_line


def test_a_shape_is_measured_for_its_cost(specbench: Command, home: Path, tmp_path: Path):
    (home / "bare").mkdir()
    config = json.loads((home / "t5" / "config.json").read_text(encoding="utf-8"))
    config["decoder_start_token_id"] = 0
    (home / "bare" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    words = "--drafter synthetic:0.5 --task translation"
    result = run(specbench, home, tmp_path / "x", *words.split(), shape=True, target="bare")
    assert result.code == 0, result.err
