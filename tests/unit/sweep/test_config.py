"""The sweep's configuration: every wrong value is one line that names it, before anything loads."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.sweep.config import SweepConfig, build
from specbench.sweep.defaults import DEFAULT_SWEEP
from specbench.sweep.values import OPTION_FIELDS


def test_no_option_is_the_main_job():
    config = build({})
    for field, value in DEFAULT_SWEEP.items():
        assert getattr(config, field) == value
    assert set(config.tasks) == {"translation", "summarization", "code", "chat"}
    assert len(config.drafters) >= 2
    assert len(config.gammas) >= 3
    assert len(config.temperatures) >= 2


def test_another_target_gets_the_drafter_that_every_target_has():
    assert build({"target": "ORG/NAME"}).drafters == ["ngram"]
    assert build({"target": "ORG/NAME", "drafter": ["eagle:x"]}).drafters == ["eagle:x"]


def test_every_field_has_one_option():
    told_by_servers = {"served_as"}
    assert sorted(OPTION_FIELDS.values()) == sorted(
        SweepConfig.model_fields.keys() - told_by_servers
    )


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("gamma", ["1,2", "8"], [1, 2, 8]),
        ("gamma", "4", [4]),
        ("gamma", 4, [4]),
        ("gamma", [2, 2, "2", 1], [2, 1]),
        ("temperature", "0,0.5,1", [0.0, 0.5, 1.0]),
        ("temperature", ["-0.0", 0], [0.0]),
        ("batch-size", "1, 4", [1, 4]),
        ("batch_size", "3", [3]),
        ("context-length", "512,2048", [512, 2048]),
        ("context_length", 64, [64]),
        ("task", "chat,code,chat", ["chat", "code"]),
        ("drafter", ["ngram,max=3", "ngram"], ["ngram,max=3", "ngram"]),
        ("top-p", "0.9", 0.9),
        ("top-k", "50", 50),
        ("seed", "0", 0),
        ("dtype", "bf16", "bfloat16"),
        ("device", "cuda:1", "cuda:1"),
        ("threads", "2", 2),
        ("out", "runs/a", Path("runs/a")),
        ("ignore-eos", True, True),
    ],
)
def test_values_are_understood(option: str, value: object, expected: object):
    assert getattr(build({option: value}), OPTION_FIELDS[option.replace("_", "-")]) == expected


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("gamma", "0"),
        ("gamma", "-1"),
        ("gamma", "two"),
        ("gamma", "1.5"),
        ("gamma", ""),
        ("gamma", "1,,2"),
        ("gamma", "1,2,"),
        ("gamma", True),
        ("gamma", "9" * 5000),
        ("temperature", "-1"),
        ("temperature", "nan"),
        ("temperature", "inf"),
        ("temperature", "warm"),
        ("temperature", True),
        ("batch-size", "0"),
        ("context-length", "0"),
        ("context-length", "512,,"),
        ("context-length", "long"),
        ("top-p", "0"),
        ("top-p", "1.01"),
        ("top-p", "nan"),
        ("top-k", "-1"),
        ("prompts", "0"),
        ("max-new-tokens", "0"),
        ("max-new-tokens", "1"),
        ("out", ""),
        ("out", " "),
        ("repeats", "0"),
        ("repeats", "many"),
        ("seed", "-1"),
        ("seed", str(2**63)),
        ("threads", "0"),
        ("device", "tpu"),
        ("dtype", "int8"),
        ("attention", "flash"),
        ("prompt-source", "web"),
        ("target", " "),
        ("ignore-eos", "yes"),
    ],
)
def test_a_wrong_value_is_named_with_its_option_and_the_way_out(option: str, value: object):
    with pytest.raises(SpecbenchError) as caught:
        build({option: value})
    assert f"--{option} " in caught.value.message
    assert repr(value) in caught.value.message
    assert caught.value.hint.startswith("Give ")


@pytest.mark.parametrize(
    ("option", "value", "part"),
    [
        ("drafter", "ngramm", "Did you mean 'ngram'?"),
        ("drafter", "none", "Every block measures plain decoding"),
        ("task", "chatt", "Did you mean 'chat'?"),
        ("task", "missing.jsonl", "no prompt file 'missing.jsonl'"),
        ("task", "no/such/file.jsonl", "no prompt file"),
        ("backend", "nativ", "'native'"),
        ("drafter", [], "--drafter is an empty list"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(option: str, value: object, part: str):
    with pytest.raises(SpecbenchError) as caught:
        build({option: value})
    assert part in str(caught.value)


def test_options_win_over_the_file_and_the_file_over_the_defaults(tmp_path: Path):
    file = tmp_path / "sweep.toml"
    file.write_text("gamma = [3, 5]\nmax-new-tokens = 7\nmax_new_tokens_ = 1\n")
    with pytest.raises(SpecbenchError, match="unknown key 'max_new_tokens_'"):
        build({}, file)
    file.write_text('gamma = [3, 5]\nmax_new_tokens = 7\ntemperature = "0,1"\nignore-eos = true\n')
    config = build({"gamma": ["2"], "temperature": None}, file)
    assert config.gammas == [2]
    assert config.max_new_tokens == 7
    assert config.temperatures == [0.0, 1.0]
    assert config.ignore_eos is True
    assert config.prompts == DEFAULT_SWEEP["prompts"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("gammas = [1]", "unknown key 'gammas' in FILE. Did you mean 'gamma'?"),
        ("top-k = 1\ntop_k = 2", "the key 'top_k' in FILE is there twice"),
        ("gamma = [0]", "--gamma 0 is not usable"),
        ("gamma = ", "FILE is not valid TOML"),
        ("gamma = {a = 1}", "is not usable"),
        ("[sweep]\ngamma = 1", "unknown key 'sweep' in FILE"),
    ],
)
def test_a_wrong_file_is_answered_in_the_same_way(tmp_path: Path, text: str, part: str):
    file = tmp_path / "sweep.toml"
    file.write_text(text)
    with pytest.raises(SpecbenchError) as caught:
        build({}, file)
    assert part in str(caught.value).replace(str(file), "FILE")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(SpecbenchError, match=r"absent\.toml: No such file"):
        build({}, tmp_path / "absent.toml")
    with pytest.raises(SpecbenchError, match="cannot read the sweep file"):
        build({}, tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecbenchError, match="not valid TOML"):
        build({}, binary)


def test_the_same_measurement_has_the_same_folder_whatever_its_order_and_place():
    config = build({"gamma": "1,2", "seed": "3"})
    assert config.folder.parent == Path("results")
    assert config.folder == build({"gamma": "2,1", "seed": 3, "retry-failed": True}).folder
    assert build({"gamma": "1,2", "seed": "3", "out": "x"}).digest() == config.digest()
    assert build({"gamma": "1,2", "seed": "4"}).folder != config.folder
    assert build({"gamma": "1,2", "out": "x"}).folder == Path("x")


@pytest.mark.parametrize(
    ("target", "start"),
    [
        (None, "SmolLM2-135M-Instruct-"),
        ("Qwen/Qwen3-0.6B", "Qwen3-0.6B-"),
        ("/models/my model/", "my-model-"),
        ("..", "target-"),
    ],
)
def test_the_folder_is_named_after_the_target(target: str | None, start: str):
    name = SweepConfig(target=target).folder.name
    assert name.startswith(start)
    assert len(name) == len(start) + 8


def test_a_configuration_survives_its_own_record():
    config = build({"gamma": "1,3", "target": "a/b", "temperature": "0.7"})
    assert SweepConfig(**config.measurement()).digest() == config.digest()


def test_options_that_came_later_leave_older_runs_what_they_were():
    """Their defaults are not written down, so that a run started before them is continued."""
    plain = build({"gamma": "1,2"})
    assert not {"cuda_graph", "compile"} & plain.measurement().keys()
    assert build({"gamma": "1,2", "cuda-graph": True, "compile": False}).digest() == plain.digest()
    for option, value in (("cuda-graph", False), ("compile", True)):
        other = build({"gamma": "1,2", option: value})
        assert other.measurement()[option.replace("-", "_")] is value
        assert other.digest() != plain.digest()
        assert SweepConfig(**other.measurement()) == other


def test_a_sweep_without_context_lengths_is_the_one_it_was_before_there_were_any():
    config = build({})
    assert config.context_lengths is None
    assert "context_lengths" not in config.measurement()
    assert config.digest().startswith("f9dde6e0")
    longer = build({"context-length": "512"})
    assert longer.measurement()["context_lengths"] == [512]
    assert longer.digest() != config.digest()
    assert longer.digest() != build({"context-length": "512,64"}).digest()
    turned = build({"context-length": "64,512"})
    assert turned.digest() == build({"context-length": "512,64"}).digest()


def test_a_shape_ignores_stop_tokens_and_defaults_to_what_it_can_tell():
    config = build({"target": "shape:llama-3.1-8b"})
    assert config.ignore_eos
    assert config.temperatures == [0.0]
    assert all(drafter.startswith("synthetic:") for drafter in config.drafters)
    assert config.target_name == "shape:llama-3.1-8b"
    assert config.folder.name.startswith("shape-llama-3.1-8b-")
    chosen = build({"target": "shape:llama-3.1-8b", "drafter": "synthetic:0.5", "ignore-eos": True})
    assert chosen.drafters == ["synthetic:0.5"]


def test_a_shape_cannot_stop_at_tokens_that_mean_nothing():
    with pytest.raises(SpecbenchError) as caught:
        build({"target": "shape:llama-3.1-8b", "ignore-eos": False})
    assert "--stop-at-eos" in str(caught.value)
    assert "shape:llama-3.1-8b" in str(caught.value)
