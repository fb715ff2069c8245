"""From ``specbench run`` on a real (tiny) model to its answers, and every way to get it wrong."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from specbench.backends.native import NativeBackend
from specbench.sweep import runner
from tests.cli.conftest import ROOT, Result
from tests.tiny_target import PROMPTS, write_prompts, write_target

_GRID = "--drafter ngram --drafter early-exit:1 --drafter synthetic:0.8 --gamma 1,3"
_SIZE = "--temperature 0,1 --prompts 8 --max-new-tokens 10 --threads 1 --device cpu"
OPTIONS = shlex.split(f"--target tiny --task mine.jsonl {_GRID} {_SIZE}")

WITHOUT_TORCH = """
import contextlib, io, json, sys
from specbench.cli.main import main
results = []
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as ending:
            results.append([ending.code, out.getvalue(), err.getvalue()])
assert "torch" not in sys.modules, "torch was imported"
print(json.dumps(results))
"""
"""Runs several command lines in one process, which must not import torch."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a target, one of another vocabulary, and prompts."""
    folder = tmp_path_factory.mktemp("home")
    write_target(folder / "tiny", chat=True)
    other = write_target(folder / "other", chat=True) / "tokenizer.json"
    tokenizer = json.loads(other.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    other.write_text(json.dumps(tokenizer), encoding="utf-8")
    write_prompts(folder / "mine.jsonl", chats=2)
    return folder


def process(home: Path, *words: str, program: tuple[str, ...] = ("-m", "specbench")) -> Result:
    """A command as the user types it, in its own process."""
    result = subprocess.run(
        [sys.executable, *program, *words],
        capture_output=True,
        text=True,
        cwd=home,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SPECBENCH_CACHE": str(home / "cache")},
        check=False,
    )
    return Result(result.returncode, result.stdout, result.stderr)


@pytest.fixture(scope="module")
def ran(home: Path) -> Result:
    """A run without ``--out``: 8 and 6 cells in two blocks, in results/tiny-HASH."""
    return process(home, "run", *OPTIONS)


@pytest.fixture(scope="module")
def run_folder(home: Path, ran: Result) -> Path:
    assert ran.code == 0, ran.err
    [folder] = (home / "results").iterdir()
    return folder


@pytest.fixture(scope="module")
def answers(home: Path, run_folder: Path) -> dict[str, Result]:
    """What the commands that read a run say, in a process without torch."""
    by_name, by_path = run_folder.name, f"results/{run_folder.name}"
    lines = {
        "fit": ["fit", by_path],
        "fit json": ["fit", by_name, "--format", "json"],
        "plot": ["plot", by_path, "--format", "png,svg"],
        "optimal": ["optimal-gamma", by_path],
        "optimal json": ["optimal-gamma", by_name, "--format", "json"],
    }
    result = process(home, json.dumps(list(lines.values())), program=("-c", WITHOUT_TORCH))
    assert result.code == 0, result.err
    results = [Result(*parts) for parts in json.loads(result.out)]
    return dict(zip(lines, results, strict=True))


def test_the_run_ends_with_a_table_and_the_two_commands_to_type(ran: Result, run_folder: Path):
    assert "Traceback" not in ran.err
    lines = ran.out.splitlines()
    assert lines[0].split()[:3] == ["drafter", "γ", "α"]
    assert any(line.startswith("mine, T = 0, batch 1: plain decoding ") for line in lines)
    assert any(line.startswith("mine, T = 1, batch 1: plain decoding ") for line in lines)
    assert ran.out.count("identical") == 6
    assert "DIVERGED" not in ran.out + ran.err
    assert "few prompts" not in ran.out
    name = f"results/{run_folder.name}"
    assert lines[-3:] == ["next:", f"  specbench plot {name}", f"  specbench optimal-gamma {name}"]
    assert max(map(len, lines)) <= 80


def test_progress_goes_to_stderr_one_plain_line_per_cell(ran: Result):
    lines = ran.err.splitlines()
    assert "14 cells to measure" in lines
    cells = [line for line in lines if line.startswith("[")]
    assert len(cells) == 14
    assert cells[0].startswith("[ 1/14] mine, T = 0, batch 1, plain decoding (first): ")
    assert all("tok/s" in line for line in cells)
    assert "left" not in cells[-1]
    assert not any("\x1b" in line or "\r" in line for line in lines)
    assert lines[-1].startswith("written to results/tiny-")


def test_the_dropped_cells_are_in_the_manifest(run_folder: Path):
    manifest = json.loads((run_folder / "manifest.json").read_text())
    assert manifest["command"] == "specbench run " + " ".join(OPTIONS)
    assert [entry["reason"] for entry in manifest["dropped"]] == [
        "synthetic drafters replay greedy output"
    ] * 2
    for rate in ("bandwidth_bytes_per_s", "matmul_flops_per_s"):
        assert manifest[rate] > 1e6, "neither giga nor mega, on the busiest machine"


def test_typed_again_it_measures_nothing_and_prints_the_same_table(
    specbench, home: Path, ran: Result, run_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def loaded(*_: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.chdir(home)
    monkeypatch.setattr(NativeBackend, "load", loaded)
    before = (run_folder / "cells.jsonl").read_bytes()
    again = specbench("run", *OPTIONS, "--resume")
    assert again.code == 0, again.err
    assert again.out == ran.out
    assert f"every cell of this sweep is in results/{run_folder.name} already" in again.err
    assert (run_folder / "cells.jsonl").read_bytes() == before


def test_fit_reads_the_run(answers: dict[str, Result]):
    assert [answers[name].code for name in ("fit", "fit json")] == [0, 0]
    groups = json.loads(answers["fit json"].out)["groups"]
    assert {(group["drafter"], group["temperature"]) for group in groups} == {
        ("ngram", 0),
        ("ngram", 1),
        ("early-exit:1", 0),
        ("early-exit:1", 1),
        ("synthetic:0.8", 0),
    }
    assert "early-exit:1" in answers["fit"].out


def test_plot_draws_every_figure(home: Path, answers: dict[str, Result]):
    assert answers["plot"].code == 0, answers["plot"].err
    written = answers["plot"].out.split()
    assert len(written) >= 4
    for name in written:
        content = (home / name).read_bytes()
        assert len(content) > 5000
        assert content.startswith(b"\x89PNG") if name.endswith("png") else b"<svg" in content


def test_optimal_gamma_answers_from_the_run(answers: dict[str, Result]):
    assert [answers[name].code for name in ("optimal", "optimal json")] == [0, 0]
    answer = json.loads(answers["optimal json"].out)
    assert {"groups", "policy"} <= set(answer)
    keys = {"task", "temperature", "batch_size", "drafter", "alpha", "cost", "best", "curve"}
    for group in answer["groups"]:
        assert keys <= set(group)
        assert group["best"]["gamma"] in {point["gamma"] for point in group["curve"]}
    chosen = {choice["drafter"] for choice in answer["policy"]}
    assert chosen <= {"none", "ngram", "early-exit:1"}
    assert len(answer["policy"]) == 2


def test_a_dry_run_prints_cells_and_estimate_and_writes_nothing(
    specbench, home: Path, run_folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(home)
    monkeypatch.setattr("specbench.measure.bandwidth.copy_bandwidth", lambda device: 1e10)
    before = files(home)
    result = specbench("run", *OPTIONS, "--batch-size", "1,16", "--dry-run")
    assert result.code == 0, result.err
    assert "dropped 4 cells that cannot exist:" in result.out
    assert "mine: 8 prompts for 16 slots are asked in turn, 32 requests in all" in result.out
    assert "28 cells in 4 blocks" in result.out
    assert "estimate: at least " in result.out
    assert files(home) == before


# ---- everything that a user can get wrong: one line, the value, the way out, nothing left behind

TINY = "--target {home}/tiny --task {home}/mine.jsonl --threads 1 --device cpu --max-new-tokens 3"

BAD_NAMES = {
    "unknown drafter": ("run --drafter ngrm", ["'ngrm'", "Did you mean 'ngram'?"]),
    "empty drafter argument": ("run --drafter model:", ["'model:'", "model:NAME"]),
    "empty drafter": ("run --drafter=", ["--drafter ''"]),
    "drafter option": ("run --drafter ngram,maxi=3", ["'maxi'", "Did you mean 'max'?"]),
    "acceptance": ("run --drafter synthetic:1.5", ["'1.5'", "synthetic:0.8"]),
    "unknown task": ("run --task chatt", ["'chatt'", "Did you mean 'chat'?"]),
    "unknown backend": ("run --backend vlm", ["'vlm'", "native"]),
    "gamma 0": ("run --gamma 0", ["--gamma '0'", "1 or more"]),
    "gamma -1": ("run --gamma -1", ["--gamma '-1'", "1 or more"]),
    "gamma text": ("run --gamma four", ["--gamma 'four'", "a whole number"]),
    "temperature -1": ("run --temperature -1", ["--temperature '-1'", "0 or more"]),
    "top-p 0": ("run --top-p 0", ["--top-p '0'", "above 0"]),
    "prompts 0": ("run --prompts 0", ["--prompts '0'", "1 or more"]),
    "device": ("run --device gpu", ["--device 'gpu'", "cuda:N"]),
    "no cell": (
        "run --task json --drafter synthetic:0.8 --temperature 1 --prompt-source offline",
        ["no cell can be measured", "synthetic drafters replay greedy output"],
    ),
    "no such run": ("plot nothing", ["no run 'nothing'", "specbench run"]),
    "no such run to fit": ("fit nothing", ["no run 'nothing'"]),
    "no such run to ask": ("optimal-gamma nothing", ["no run 'nothing'"]),
    "figure": ("plot nothing --figure speedup", ["unknown figure 'speedup'", "speedup-vs-gamma"]),
    "format": ("fit nothing --format xml", ["'xml'", "json"]),
    "alpha": ("optimal-gamma --alpha 1.5 --cost 0.1", ["1.5"]),
}


@pytest.fixture
def elsewhere(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], list[str]]:
    """An empty folder as the user's own; fills the paths of ``home`` into a command line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECBENCH_CACHE", str(home / "cache"))
    monkeypatch.setattr(runner, "copy_bandwidth", lambda device: 1e10)
    monkeypatch.setattr(runner, "read_bandwidth", lambda device: 2e10)
    monkeypatch.setattr(runner, "matmul_rate", lambda device, dtype: 1e11)
    threads = torch.get_num_threads()
    yield lambda line: line.format(home=home).split()
    torch.set_num_threads(threads)


def files(folder: Path) -> set[Path]:
    """Everything below a folder but the cache of weights."""
    return {path for path in folder.rglob("*") if "cache" not in path.relative_to(folder).parts}


@pytest.mark.parametrize("case", BAD_NAMES)
def test_a_bad_word_is_one_line_and_leaves_nothing(specbench, elsewhere, tmp_path: Path, case: str):
    words, parts = BAD_NAMES[case]
    line = specbench(*elsewhere(words)).error_line
    for part in parts:
        assert part in line
    assert files(tmp_path) == set()


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["'bad.jsonl' is empty", '{"prompt": "..."}']),
        ("\n\n", ["'bad.jsonl' is empty"]),
        ('{"prompt": "ok"}\n{"prompt": "open\n', ["bad.jsonl:2 is malformed JSON", "column"]),
        ('{"prompt": "ok"}\n["list"]\n', ["bad.jsonl:2 is a JSON array"]),
        ('{"text": "ok"}\n', ["bad.jsonl:1 has no prompt, turns or messages"]),
        ('{"prompt": "  "}\n', ["bad.jsonl:1 has an empty prompt"]),
        (
            '{"id": 1, "prompt": "a"}\n{"id": 1, "prompt": "b"}\n',
            ["bad.jsonl:2 repeats the id '1'"],
        ),
    ],
)
def test_a_bad_prompt_file_is_named_with_its_line(
    specbench, elsewhere, tmp_path: Path, content: str, parts: list[str]
):
    (tmp_path / "bad.jsonl").write_text(content)
    line = specbench("run", "--task", "bad.jsonl", "--threads", "1").error_line
    for part in parts:
        assert part in line
    assert files(tmp_path) == {tmp_path / "bad.jsonl"}


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("gamma = 1\nseed = = 2\n", ["sweep.toml is not valid TOML", "line 2"]),
        ("gama = [1, 2]\n", ["unknown key 'gama'", "Did you mean 'gamma'?"]),
        ("gamma = [0]\n", ["--gamma 0", "1 or more"]),
        ("gamma = []\n", ["--gamma is an empty list"]),
        ('temperature = "warm"\n', ["--temperature 'warm'"]),
    ],
)
def test_a_bad_sweep_file_is_named_with_its_key(
    specbench, elsewhere, tmp_path: Path, content: str, parts: list[str]
):
    (tmp_path / "sweep.toml").write_text(content)
    line = specbench("run", "--config", "sweep.toml").error_line
    for part in parts:
        assert part in line
    assert files(tmp_path) == {tmp_path / "sweep.toml"}


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--target ./none", ["no such model: './none'", "config.json"]),
        ("--target nobody/nothing", ["nobody/nothing"]),
        ("--target {home}", ["has no config.json"]),
        ("--target {home}/none.gguf", ["no such GGUF file", "--target"]),
        ("--target {home}/mine.jsonl", ["mine.jsonl"]),
        (f"{TINY} --device cuda:7", ["cuda:7", "cpu"]),
        (f"{TINY} --drafter early-exit:2", ["early-exit:2", "from 1 to 1", "2 layers"]),
        (f"{TINY} --drafter model:./none", ["'./none'"]),
        (
            f"{TINY} --drafter model:{{home}}/other",
            ["another vocabulary", "'b' there and 'a' here", "tokenizer"],
        ),
        (
            f"{TINY} --drafter ngram --gamma 500",
            ["prompt 'p0' of mine has ", "context of 512", "--gamma"],
        ),
        (f"{TINY} --drafter ngram --out /proc/x", ["cannot write results to /proc/x", "--out"]),
        (f"{TINY} --drafter ngram --out {{home}}/mine.jsonl", ["mine.jsonl: File exists", "--out"]),
        (f"{TINY} --drafter ngram --out {{home}}", ["is not empty and holds no run", "--out"]),
    ],
)
def test_what_only_loading_can_find_is_one_line_too(
    specbench, elsewhere, home: Path, tmp_path: Path, words: str, parts: list[str]
):
    if "cuda" in words and torch.cuda.device_count() > 7:
        pytest.skip("this machine has that device")
    before = files(home)
    line = specbench("run", *elsewhere(words)).error_line
    for part in parts:
        assert part in line
    assert files(tmp_path) == set()
    assert files(home) == before


def test_a_prompt_that_is_too_long_names_the_prompt_and_the_numbers(
    specbench, elsewhere, tmp_path: Path
):
    write_prompts(tmp_path / "long.jsonl", (*PROMPTS, "word " * 200))
    options = TINY.replace("{home}/mine.jsonl", "long.jsonl")
    words = elsewhere(options + " --drafter ngram --prompts 9")
    line = specbench("run", *words).error_line
    assert "prompt 'p6' of long has 10" in line  # a thousand characters, and the template
    assert "beyond the target's context of 512" in line
    assert files(tmp_path) == {tmp_path / "long.jsonl"}


def test_another_configuration_in_the_same_folder_is_refused_by_its_key(
    specbench, elsewhere, tmp_path: Path
):
    words = [*elsewhere(TINY), "--drafter", "ngram", "--temperature", "0", "--out", "run"]
    assert specbench("run", *words, "--gamma", "2").code == 0
    before = (tmp_path / "run" / "cells.jsonl").read_bytes()
    line = specbench("run", *words, "--gamma", "2,3").error_line
    assert "run holds a run of another configuration (gammas: [2] there, [2, 3] here)" in line
    assert "--out" in line
    assert (tmp_path / "run" / "cells.jsonl").read_bytes() == before


@pytest.mark.parametrize("command", ["run", "fit", "plot", "optimal-gamma"])
def test_a_corrupt_line_in_cells_jsonl_is_named_with_its_number(
    specbench, elsewhere, tmp_path: Path, command: str
):
    words = [*elsewhere(TINY), "--drafter", "ngram", "--gamma", "2", "--temperature", "0"]
    assert specbench("run", *words, "--out", "run").code == 0
    file = tmp_path / "run" / "cells.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([lines[0], "{broken\n", *lines[2:]]))
    arguments = ["run", *words, "--out", "run"] if command == "run" else [command, "run"]
    line = specbench(*arguments).error_line
    assert "run/cells.jsonl line 2: not JSON" in line
    assert "resume" in line
