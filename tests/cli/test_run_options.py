"""``specbench run``: options reach the sweep, wrong ones end in one line before anything loads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specbench.cli import run as run_module
from specbench.sweep.config import SweepConfig
from specbench.sweep.options import OPTION_FIELDS


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[SweepConfig]:
    """The sweeps that ``specbench run`` would have measured."""
    sweeps: list[SweepConfig] = []
    monkeypatch.setattr(run_module, "_measure", sweeps.append)
    return sweeps


def test_without_options_it_is_the_main_job(specbench, asked):
    assert specbench("run").code == 0
    assert asked == [SweepConfig()]


def test_every_option_reaches_the_sweep(specbench, asked, tmp_path: Path):
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text('{"prompt": "hello"}\n')
    line = (
        "--target Qwen/Qwen3-0.6B --drafter ngram,max=3 --drafter model:small --gamma 1,2 "
        "--gamma 8 --temperature 0,0.7 --top-k 40 --top-p 0.9 --batch-size 1,4 --prompts 12 "
        "--max-new-tokens 64 --request-rate 2,4.5 --context-length 512,64 --repeats 2 "
        "--backend native --backend vllm --engine-python ~/vllm/bin/python "
        "--engine-args=--enforce-eager --goodput ttft:500,tpot:50.0 "
        "--device cpu --dtype bf16 --attention eager --threads 2 "
        "--no-cuda-graph --compile --seed 7 --ignore-eos --prompt-source offline "
        "--chat-template-arg enable_thinking=false "
        f"--out runs/x --resume --retry-failed --task code,{prompts}"
    )
    result = specbench("run", *line.split())
    assert (result.code, result.err) == (0, "")
    assert asked[0].model_dump() == {
        "target": "Qwen/Qwen3-0.6B",
        "drafters": ["ngram,max=3", "model:small"],
        "target_quantization": None,
        "drafter_quantization": None,
        "gammas": [1, 2, 8],
        "temperatures": [0.0, 0.7],
        "top_k": 40,
        "top_p": 0.9,
        "batch_sizes": [1, 4],
        "request_rates": [2.0, 4.5],
        "context_lengths": [512, 64],
        "tasks": ["code", str(prompts)],
        "prompts": 12,
        "max_new_tokens": 64,
        "repeats": 2,
        "backends": ["native", "vllm"],
        "engine_python": str(Path("~/vllm/bin/python").expanduser()),
        "engine_args": "--enforce-eager",
        "goodput": "ttft:500,tpot:50",
        "device": "cpu",
        "dtype": "bfloat16",
        "attention": "eager",
        "threads": 2,
        "cuda_graph": False,
        "compile": True,
        "seed": 7,
        "ignore_eos": True,
        "share_prefix": False,
        "prompt_source": "offline",
        "chat_template_args": {"enable_thinking": False},
        "out": Path("runs/x"),
        "resume": True,
        "retry_failed": True,
        "served_as": None,  # what a server calls its model, never an option
    }


def test_options_of_the_own_engine_reach_the_sweep(specbench, asked):
    line = "--target a/b --drafter model:small --share-prefix"
    line += " --target-quantization int8 --drafter-quantization int4"
    assert specbench("run", *line.split()).code == 0
    assert asked[0].drafters == ["model:small,quantization=int4"]
    assert (asked[0].target_quantization, asked[0].drafter_quantization) == ("int8", "int4")
    assert asked[0].share_prefix is True


def test_a_file_gives_options_and_the_command_line_wins(specbench, asked, tmp_path: Path):
    file = tmp_path / "sweep.toml"
    file.write_text('gamma = [1, 3]\nbatch-size = "2,4"\nignore-eos = true\n')
    specbench("run", "--config", str(file), "--gamma", "5", "--stop-at-eos")
    assert asked[0].gammas == [5]
    assert asked[0].batch_sizes == [2, 4]
    assert asked[0].ignore_eos is False


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--gamma 0", ["--gamma '0' is not usable", "1 or more"]),
        ("--gamma -2", ["--gamma '-2'"]),
        ("--gamma two", ["--gamma 'two'"]),
        ("--gamma 1,,2", ["--gamma '1,,2'"]),
        ("--temperature -1", ["--temperature '-1'", "0 or more"]),
        ("--temperature nan", ["--temperature 'nan'"]),
        ("--batch-size 0", ["--batch-size '0'"]),
        ("--top-p 0", ["--top-p '0'"]),
        ("--top-p 1.5", ["--top-p '1.5'"]),
        ("--top-k -1", ["--top-k '-1'"]),
        ("--prompts 0", ["--prompts '0'"]),
        ("--repeats 0", ["--repeats '0'"]),
        ("--max-new-tokens few", ["--max-new-tokens 'few'"]),
        ("--seed -1", ["--seed '-1'"]),
        ("--threads 0", ["--threads '0'"]),
        ("--device tpu", ["--device 'tpu'", "cuda:N"]),
        ("--dtype int4", ["--dtype 'int4'", "float32"]),
        ("--attention fast", ["--attention 'fast'"]),
        ("--prompt-source web", ["--prompt-source 'web'", "offline"]),
        ("--drafter ngrm", ["unknown drafter 'ngrm'", "Did you mean 'ngram'?"]),
        ("--drafter none", ["'none'", "plain decoding"]),
        ("--task chatt", ["unknown task 'chatt'", "Did you mean 'chat'?"]),
        ("--task nothing.jsonl", ["no prompt file 'nothing.jsonl'"]),
        ("--backend vllmm", ["unknown backend 'vllmm'"]),
        ("--backend nope", ["unknown backend 'nope'. Known: hf-assisted, native"]),
        ("--engine-python x", ["--engine-python says nothing to --backend native"]),
        ("--engine-args=-v", ["--engine-args says nothing", "measure with --backend vllm"]),
        ("--goodput ttft:5", ["--goodput says nothing", "--backend openai or vllm"]),
        ("--config nothing.toml", ["nothing.toml", "No such file"]),
        ("--gama 1", ["no such option: --gama", "--gamma"]),
        ("--gamma", ["--gamma", "requires an argument"]),
    ],
)
def test_a_bad_option_is_one_line(specbench, asked, words: str, parts: list[str]):
    line = specbench("run", *words.split()).error_line
    for part in parts:
        assert part in line
    assert asked == []


def test_a_file_with_an_unknown_key_gets_a_suggestion(specbench, asked, tmp_path: Path):
    file = tmp_path / "sweep.toml"
    file.write_text("gammma = 1\n")
    line = specbench("run", "--config", str(file)).error_line
    assert "unknown key 'gammma'" in line
    assert "Did you mean 'gamma'?" in line
    assert asked == []


def test_the_help_has_every_option_and_states_the_real_defaults(specbench):
    text = " ".join(specbench("run", "--help").out.split())
    for option in OPTION_FIELDS:
        assert f"--{option} " in text
    config = SweepConfig()
    stated = {
        option: re.search(rf"--{option} .*?Default: (\S+?)[.,]? ", text)
        for option in ("target", "gamma", "temperature", "top-k", "top-p", "batch-size", "task")
    } | {
        option: re.search(rf"--{option} .*?Default: (\S+?)[.,]? ", text)
        for option in ("prompts", "max-new-tokens", "repeats", "backend", "seed")
    }
    for option, found in stated.items():
        assert found is not None, option
        value = getattr(config, OPTION_FIELDS[option])
        items = value if isinstance(value, list) else [value]
        shown = ",".join(f"{item:g}" if isinstance(item, float) else str(item) for item in items)
        expected = config.target_name if option == "target" else shown
        assert found.group(1) == expected, option


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--out", "", "--out '' is not usable"),
        ("--gamma", "1,,2", "--gamma '1,,2' has nothing between two commas"),
        ("--gamma", "2,1025", "--gamma '1025' is not usable. Give a whole number from 1 to 1024"),
        ("--batch-size", "65537", "--batch-size '65537' is not usable. Give a whole number from 1"),
        ("--repeats", "10001", "--repeats '10001' is not usable. Give a whole number from 1 to"),
        ("--max-new-tokens", "1", "--max-new-tokens '1' is not usable. Give a whole number, 2 or"),
    ],
)
def test_what_would_measure_nothing_or_elsewhere_is_refused(
    specbench, asked, option: str, value: str, says: str
):
    assert says in specbench("run", option, value).error_line
    assert asked == []
