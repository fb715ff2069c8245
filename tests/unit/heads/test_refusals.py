"""What can't be a head for this target is refused in one line that names what shows it."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from specbench.drafters.base import drafter_class
from specbench.drafters.spec import parse_spec
from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel
from tests import published
from tests.tiny import language_model, make_drafter

THREE = {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}
IDS = tuple(range(2, 61, 3))


def target() -> LanguageModel:
    return language_model("llama")


def refusal(spec: str, own: LanguageModel | None = None) -> str:
    with pytest.raises(SpecbenchError) as raised:
        make_drafter(own or target(), spec)
    answer = str(raised.value)
    assert "\n" not in answer
    return answer


def changed(
    folder: Path, kind: str, change: Callable[[dict], None], config: dict | None = None
) -> str:
    """The SPEC of a good checkpoint whose tensors were changed."""
    if kind == "medusa":
        tensors = published.medusa_tensors(target(), 3, 1, 2, seed=1)
        own, file = {"version": "2"}, "medusa_lm_head.safetensors"
    elif kind == "eagle":
        tensors = published.eagle_tensors(target())
        own, file = published.layer_config(target()), "model.safetensors"
    else:
        tensors = published.eagle3_tensors(target(), IDS)
        own, file = published.layer_config(target(), **THREE), "model.safetensors"
    change(tensors)
    return f"{kind}:{published.write(folder, {**own, **(config or {})}, tensors, file)}"


def put(name: str, *shape: int) -> Callable[[dict], None]:
    return lambda tensors: tensors.update({name: torch.zeros(shape)})


def drop(name: str) -> Callable[[dict], None]:
    return lambda tensors: tensors.pop(name)


def nothing(tensors: dict) -> None:
    pass


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (
            "medusa",
            put("0.0.linear.weight", 16, 16),
            ["'0.0.linear.weight'", "[16, 16]", "[32, 32]"],
        ),
        ("medusa", put("2.0.linear.bias", 31), ["'2.0.linear.bias'", "[31]", "[32]"]),
        ("medusa", drop("1.0.linear.bias"), ["lacks", "'1.0.linear.bias'", "[32]"]),
        ("medusa", put("0.0.other.weight", 3), ["'0.0.other.weight'", "no place"]),
        ("medusa", put("0.1.weight", 61, 32), ["'0.1.weight'", "[61, 32]", "no place"]),
        ("eagle", put("fc.weight", 32, 60), ["'fc.weight'", "[32, 60]", "[32, 64]"]),
        ("eagle", drop("fc.bias"), ["lacks", "'fc.bias'"]),
        ("eagle", drop("layers.0.mlp.up_proj.weight"), ["lacks", "'layers.0.mlp.up_proj.weight'"]),
        ("eagle", put("layers.0.input_layernorm.weight", 32), ["input_layernorm", "no place"]),
        ("eagle", put("layers.1.mlp.up_proj.weight", 40, 32), ["'layers.1.mlp.up_proj.weight'"]),
        (
            "eagle",
            put("layers.0.self_attn.q_proj.weight", 64, 32),
            ["'layers.0.self_attn.q_proj.weight'", "[64, 32]", "[32, 32]"],
        ),
        ("eagle", put("embed_tokens.weight", 60, 32), ["embed_tokens", "[60, 32]", "[61, 32]"]),
        ("eagle", put("embed_tokens.weight", 61, 16), ["embed_tokens", "[61, 16]", "[61, 32]"]),
        ("eagle3", put("fc.weight", 32, 64), ["'fc.weight'", "[32, 64]", "[32, 96]"]),
        ("eagle3", drop("norm.weight"), ["lacks", "'norm.weight'"]),
        ("eagle3", drop("lm_head.weight"), ["lacks", "'lm_head.weight'", "[61, 32]"]),
        ("eagle3", drop("d2t"), ["lacks", "'d2t'", "[20]", "61"]),
        ("eagle3", put("d2t", 19), ["'d2t'", "[19]", "[20]"]),
        ("eagle3", put("t2d", 60), ["'t2d'", "[60]", "[61]"]),
        ("eagle3", put("t2d", 61), ["'d2t' and 't2d'", "disagree"]),
        (
            "eagle3",
            lambda tensors: tensors["d2t"].fill_(50),
            ["'d2t'", "20 different ids below 61"],
        ),
        (
            "eagle3",
            lambda tensors: tensors["d2t"].copy_(-torch.arange(20)),
            ["'d2t'", "20 different ids below 61"],
        ),
    ],
)
def test_tensors_that_do_not_fit(tmp_path, kind, change, words):
    answer = refusal(changed(tmp_path, kind, change))
    assert all(word in answer for word in words), answer


@pytest.mark.parametrize(
    ("kind", "config", "words"),
    [
        ("medusa", {"medusa_num_heads": 5}, ["lacks", "'3.0.linear.bias'"]),
        ("medusa", {"medusa_num_layers": 2}, ["lacks", "'0.1.linear.bias'"]),
        ("medusa", {"version": "1"}, ["lacks", "'0.1.weight'", "[61, 32]"]),
        ("medusa", {"medusa_num_heads": "many"}, ["medusa_num_heads", "'many'"]),
        ("eagle", {"hidden_size": 64}, ["hidden_size 64", "tiny-llama", "32"]),
        ("eagle", {"vocab_size": 128}, ["vocab_size 128", "tiny-llama", "61"]),
        ("eagle", {"hidden_size": None}, ["no hidden_size"]),
        ("eagle", {"bias": False}, ["'fc.bias'", "no place"]),
        ("eagle", {"intermediate_size": 41}, ["mlp.gate_proj", "[40, 32]", "[41, 32]"]),
        ("eagle3", {"draft_vocab_size": 30}, ["'lm_head.weight'", "[20, 32]", "[30, 32]"]),
        ("eagle3", {"eagle_aux_hidden_state_layer_ids": [0, 1]}, ["[0, 1]", "states of 3"]),
        ("eagle3", {"eagle_aux_hidden_state_layer_ids": [0, 1, 3]}, ["[0, 1, 3]", "2 layers"]),
        ("eagle3", {"eagle_aux_hidden_state_layer_ids": None}, ["[2, 1, -1]", "2 layers"]),
    ],
)
def test_configs_that_do_not_fit(tmp_path, kind, config, words):
    answer = refusal(changed(tmp_path, kind, nothing, config))
    assert all(word in answer for word in words), answer


def test_a_head_for_another_target_is_named(tmp_path):
    wide = language_model("llama", hidden_size=64)
    answer = refusal(f"medusa:{published.write_medusa(tmp_path / 'm', wide)}")
    assert "[64, 64]" in answer
    assert "made for lmsys/vicuna-7b-v1.3" in answer
    answer = refusal(f"eagle3:{published.write_speculators(tmp_path / 's', wide, **THREE)}")
    assert "made for meta-llama/Llama-3.1-8B-Instruct" in answer
    many = language_model("llama", vocab_size=70)
    answer = refusal(f"eagle:{published.write_eagle(tmp_path / 'e', many)}")
    assert "vocab_size 70" in answer
    assert "another target" in answer


@pytest.mark.parametrize("written", ["medusa", "eagle", "eagle3"])
@pytest.mark.parametrize("held", ["medusa", "eagle", "eagle3"])
def test_another_kind_of_head_is_named(tmp_path, written, held):
    folder = changed(tmp_path, held, nothing).partition(":")[2]
    if written == held:
        make_drafter(target(), f"{written}:{folder}")
    else:
        answer = refusal(f"{written}:{folder}")
        assert f"of kind {held}" in answer
        assert f"Write {held}:{folder}" in answer


@pytest.mark.parametrize("written", ["medusa", "eagle"])
def test_speculators_are_recognised_under_any_kind(tmp_path, written):
    folder = published.write_speculators(tmp_path, target(), **THREE)
    assert f"Write eagle3:{folder}" in refusal(f"{written}:{folder}")


@pytest.mark.parametrize("written", ["medusa", "eagle", "eagle3"])
def test_other_algorithms_of_speculators_are_named(tmp_path, written):
    folder = published.write_speculators(tmp_path, target(), algorithm="mlp_speculator")
    assert "'mlp_speculator'" in refusal(f"{written}:{folder}")


def test_speculators_without_the_layers_config(tmp_path):
    folder = published.write_speculators(tmp_path, target(), transformer_layer_config=None)
    assert "no transformer_layer_config" in refusal(f"eagle3:{folder}")


@pytest.mark.parametrize(
    "informs", ["x", [1], {"algorithm": "eagle3", "verifier": "name"}], ids=["text", "list", "name"]
)
def test_what_only_informs_may_have_any_form(tmp_path, informs):
    folder = published.write_speculators(tmp_path, target(), speculators_config=informs, **THREE)
    assert make_drafter(target(), f"eagle3:{folder}").weight_bytes > 0


@pytest.mark.parametrize("layers", [5, "012", {"0": 1}, [0, 1]])
def test_layers_that_are_no_three_numbers(tmp_path, layers):
    folder = published.write_eagle3(tmp_path, target(), eagle_aux_hidden_state_layer_ids=layers)
    assert "reads the states of 3" in refusal(f"eagle3:{folder}")


@pytest.mark.parametrize("kind", ["medusa", "eagle", "eagle3"])
def test_what_is_no_checkpoint(tmp_path, kind):
    def spec(folder: Path) -> str:
        return f"{kind}:{folder}"

    assert "no such head" in refusal(f"{kind}:/no/such/folder")
    file = tmp_path / "head.bin"
    file.write_bytes(b"")
    assert "is a file" in refusal(spec(file))
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no config.json" in refusal(spec(empty))
    (empty / "config.json").write_text("[]")
    assert "no JSON object" in refusal(spec(empty))
    (empty / "config.json").write_text("{")
    assert "can't be read" in refusal(spec(empty))
    (empty / "config.json").write_text("{}")
    assert "no weights" in refusal(spec(empty))
    (empty / "model.safetensors").write_bytes(b"broken")
    answer = refusal(spec(empty))
    assert "model.safetensors" in answer
    assert "can't be read" in answer
    other = published.write(tmp_path / "other", {}, {"wte": torch.zeros(2)}, "model.safetensors")
    assert "'wte'" in refusal(spec(other))


def test_a_shard_that_is_missing(tmp_path):
    folder = published.write_eagle(tmp_path, target(), file="pytorch_model.bin")
    index = {"weight_map": {"fc.weight": "pytorch_model-00001-of-00001.bin"}}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    assert "pytorch_model-00001-of-00001.bin is missing" in refusal(f"eagle:{folder}")


class Runs:
    """Pickled code."""

    def __reduce__(self):
        return (print, ("code of a checkpoint ran",))


@pytest.mark.parametrize(
    ("kind", "file"), [("medusa", "medusa_lm_head.pt"), ("eagle", "pytorch_model.bin")]
)
def test_code_in_a_pickle_is_not_run(tmp_path, capfd, kind, file):
    folder = published.write(tmp_path / "new", {}, {}, file)
    torch.save({"fc.weight": Runs()}, folder / file)
    assert "holds more than tensors" in refusal(f"{kind}:{folder}")
    (folder / file).write_bytes(pickle.dumps({"fc.weight": Runs()}, protocol=2))
    assert file in refusal(f"{kind}:{folder}")
    torch.save([1, 2], folder / file)
    assert "no table of tensors" in refusal(f"{kind}:{folder}")
    assert "ran" not in capfd.readouterr().out


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("medusa:", ["PATH"]),
        ("eagle:", ["PATH"]),
        ("medusa:X,topk=3", ["'topk'", "tree, vocab"]),
        ("eagle3:X,vocab=9", ["'vocab'", "topk, tree"]),
        ("eagle:X,vocab=0", ["vocab=0"]),
        ("eagle:X,tree=one", ["tree=one"]),
        ("eagle3:X,topk=3", ["topk=", "tree"]),
        ("medusa:X,tree=/no/such/tree", ["/no/such/tree"]),
    ],
)
def test_specs_are_refused_before_anything_is_read(spec, words):
    parsed = parse_spec(spec)
    with pytest.raises(SpecbenchError) as raised:
        drafter_class(parsed).check(parsed)
    assert all(word in str(raised.value) for word in words), str(raised.value)


def test_vocabularies_that_cannot_be_cut(tmp_path):
    folder = published.write_eagle(tmp_path / "none", target())
    answer = refusal(f"eagle:{folder},vocab=9")
    assert "vocabulary of 9 tokens" in answer
    assert "token_ranking.safetensors" in answer
    published.write_ranking(folder, range(20))
    answer = refusal(f"eagle:{folder},vocab=21")
    assert "vocab=21" in answer
    assert "20" in answer
    for bad in ([1, 1, 2], [1, 61], [-1, 2]):
        published.write_ranking(folder, bad)
        assert "below 61" in refusal(f"eagle:{folder},vocab=2")
    own = published.write_medusa(tmp_path / "own", target(), draft_vocab_size=9)
    assert "vocabulary of 9 tokens" in refusal(f"medusa:{own}")


def test_no_head_comes_with_other_targets(tmp_path, monkeypatch):
    from specbench.weights import shipped

    monkeypatch.setattr(shipped, "SHIPPED", tmp_path)
    assert "no eagle drafter comes with" in refusal("eagle")
    published.write_eagle(tmp_path / "eagle", target())
    answer = refusal("eagle")
    assert "tiny-llama" in answer
    assert shipped.DEFAULT_NAME in answer
    own = LanguageModel(target().model, name=shipped.DEFAULT_NAME)
    assert make_drafter(own, "eagle").weight_bytes > 0


def test_the_hubs_refusal_names_the_head(monkeypatch):
    """Offline, with nothing in the cache."""
    answer = refusal("eagle:some-org/some-head")
    assert "'some-org/some-head'" in answer
    assert "pass a path" in answer


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_attention_heads", 0),
        ("num_key_value_heads", "2"),
        ("rms_norm_eps", "x"),
        ("hidden_act", "nope"),
        ("rope_parameters", {"rope_type": "unheard-of"}),
        ("head_dim", -8),
        ("draft_vocab_size", -3),
    ],
)
def test_a_config_that_describes_no_layer_is_refused(key: str, value, tmp_path):
    folder = published.write_eagle(tmp_path / "eagle", target())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, key: value}))
    assert str(folder) in refusal(f"eagle:{folder}")


def test_more_heads_than_there_are_tensors_are_refused(tmp_path):
    folder = published.write_medusa(tmp_path / "medusa", target())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "medusa_num_heads": 10**8}))
    assert "medusa_num_heads is 100000000" in refusal(f"medusa:{folder}")


def test_a_norm_flag_that_is_a_text_is_refused(tmp_path):
    folder = published.write_eagle3(tmp_path / "eagle3", target())
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "norm_before_residual": "false"}))
    assert "norm_before_residual is 'false'" in refusal(f"eagle3:{folder}")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("kind", "name"),
    [("medusa", "0.0.linear.bias"), ("eagle", "fc.weight"), ("eagle3", "lm_head.weight")],
)
def test_values_that_are_no_numbers_are_refused(tmp_path, kind: str, name: str, value: float):
    def spoil(tensors: dict) -> None:
        tensors[name] = tensors[name].clone()
        tensors[name].view(-1)[3] = value

    answer = refusal(changed(tmp_path, kind, spoil))
    assert f"tensor {name!r} of " in answer
    assert "holds values that are no numbers" in answer


def test_damaged_pickles_are_refused_whatever_unpickling_raises(tmp_path):
    spec = changed(tmp_path, "eagle", lambda tensors: None)
    (tmp_path / "model.safetensors").unlink()
    file = tmp_path / "pytorch_model.bin"
    torch.save({"fc.weight": torch.zeros(4)}, file)
    whole = file.read_bytes()
    for legacy in (False, True):
        torch.save({"fc.weight": torch.zeros(4)}, file, _use_new_zipfile_serialization=not legacy)
        whole = file.read_bytes()
        for place in range(0, len(whole), max(1, len(whole) // 60)):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x15]) + whole[place + 1 :])
            refusal(spec)
    for content in (b"abc" * 100, pickle.dumps({3: 4}), b""):
        file.write_bytes(content)
        assert "pytorch_model.bin" in refusal(spec)
    torch.save({3: torch.zeros(4)}, file)
    assert "is no table of tensors" in refusal(spec)


@pytest.mark.parametrize(
    "content", ["[]", '{"weight_map": {"a": ["x"]}}', '{"weight_map": {"a": 3}}']
)
def test_a_shard_index_that_is_none_is_refused(tmp_path, content: str):
    spec = changed(tmp_path, "eagle", lambda tensors: None)
    (tmp_path / "model.safetensors.index.json").write_text(content)
    assert "model.safetensors.index.json of " in refusal(spec)


def test_a_config_nested_too_deeply_is_refused(tmp_path):
    spec = changed(tmp_path, "eagle", lambda tensors: None)
    (tmp_path / "config.json").write_text("[" * 100_000)
    assert "can't be read" in refusal(spec)


def test_an_eagle3_head_without_a_token_is_refused(tmp_path):
    def empty(tensors: dict) -> None:
        tensors["lm_head.weight"] = tensors["lm_head.weight"][:0]
        tensors["d2t"] = tensors["d2t"][:0]

    assert "has a draft vocabulary without a token" in refusal(changed(tmp_path, "eagle3", empty))
