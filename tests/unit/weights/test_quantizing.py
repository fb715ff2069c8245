"""Quantising on the way: what is recorded, what is left alone, and every refusal by name."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from torch import nn

from specbench.errors import SpecbenchError
from specbench.weights import methods, quantizing
from specbench.weights.loading import Loaded, load_causal_lm
from specbench.weights.stored import is_plain, packed_layers
from tests.quantised import CPU, needs, quantised, wide_model
from tests.tiny import language_model
from tests.unit.weights.conftest import Told
from tests.unit.weights.tiny import write_folder, write_gguf


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "own-cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny")


def load(name: Path | str, **options: object) -> Loaded:
    return load_causal_lm(str(name), device="cpu", **options)


def refusal(name: Path | str, **options: object) -> str:
    with pytest.raises(SpecbenchError) as caught:
        load(name, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@needs("torchao")
@pytest.mark.parametrize(("method", "bits", "group"), [("int8", 8, None), ("int4", 4, 32)])
def test_a_folder_is_quantised_on_the_way(folder: Path, method: str, bits: int, group: int | None):
    plain, told = load(folder), Told()
    loaded = load_causal_lm(str(folder), device="cpu", quantization=method, progress=told)
    facts = loaded.provenance["quantization"]
    package = facts.pop("package")
    assert package.startswith("torchao ")
    inside = 2 * (2 * 32 * 32 + 2 * 16 * 32 + 3 * 64 * 32)
    assert facts == {
        "method": method,
        "bits": bits,
        "group": group,
        "source": "made while loading",
        "layers": 14,
        "share_of_weights": inside / plain.parameters,
    }
    assert "quantization" not in plain.provenance
    assert (loaded.parameters, loaded.dtype) == (plain.parameters, "float32")
    assert loaded.weight_bytes < plain.weight_bytes
    assert f"{method}: 14 layers with 69% of its weights" in told.notes[-1]


@needs("torchao")
@pytest.mark.parametrize("method", ["int8", "int4"])
def test_embedding_and_output_layer_stay_as_they_are(folder: Path, method: str):
    plain, model = load(folder).model, load(folder, quantization=method).model
    for layer in ("get_input_embeddings", "get_output_embeddings"):
        weight = getattr(model, layer)().weight
        assert is_plain(weight)
        assert torch.equal(weight, getattr(plain, layer)().weight)
    assert len(packed_layers(model)) == 14


@needs("torchao")
@pytest.mark.parametrize("method", ["int8", "int4"])
def test_what_is_there_already_is_quantised_alike(folder: Path, tmp_path: Path, method: str):
    """The file's layers are those of the folder's; random weights have a seed."""
    ids = torch.tensor([[1, 5, 9]])
    write_gguf(tmp_path / "tiny.gguf")
    loaded = load(tmp_path / "tiny.gguf", quantization=method)
    assert len(packed_layers(loaded.model)) == 14
    assert loaded.quantization["method"] == method
    config = folder / "config.json"
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text(config.read_text(encoding="utf-8"), encoding="utf-8")
    random = load(f"shape:{bare}", quantization=method)
    with torch.inference_mode():
        before = load(f"shape:{bare}").model(ids).logits
        after = random.model(ids).logits
    assert not torch.equal(before, after)
    assert torch.allclose(before, after, atol=0.2)


@needs("torchao")
def test_weights_are_near_those_they_were_made_of():
    plain, ids = wide_model(), torch.arange(9)[None]
    with torch.inference_mode():
        expected = plain.model(ids).logits
        errors = {m: (quantised(plain, m).model(ids).logits - expected) for m in ("int8", "int4")}
    spread = expected.std()
    assert 0 < errors["int8"].std() < 0.05 * spread
    assert errors["int8"].std() < errors["int4"].std() < 0.5 * spread


@needs("torchao")
def test_groups_are_as_large_as_divide_every_layer():
    sizes = [
        ({"hidden_size": 128, "intermediate_size": 256}, 128),
        ({"hidden_size": 128, "intermediate_size": 192}, 64),
        ({"hidden_size": 64, "intermediate_size": 96}, 32),
    ]
    for changes, group in sizes:
        model = language_model("llama", **changes).model
        assert quantizing.prepared("int4", model, torch.float32, CPU).group == group


@needs("torchao")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"hidden_size": 64, "intermediate_size": 80},
            "multiple of 32 columns, and a layer has 80",
        ),
        ({"num_key_value_heads": 1}, "multiple of 16 rows on a CPU, and a layer has 8"),
    ],
)
def test_int4_refuses_sizes_that_its_product_does_not_take(changes: dict[str, int], words: str):
    model = language_model("llama", **{"intermediate_size": 64, **changes}).model
    with pytest.raises(SpecbenchError) as caught:
        quantizing.prepared("int4", model, torch.float32, CPU)
    assert words in str(caught.value)
    assert quantizing.prepared("int8", model, torch.float32, CPU).group is None


@needs("torchao")
def test_int4_on_a_gpu_wants_bfloat16():
    with pytest.raises(SpecbenchError) as caught:
        quantizing.prepared("int4", wide_model().model, torch.float32, torch.device("cuda"))
    assert "--dtype bfloat16" in str(caught.value)


@needs("torchao")
def test_a_model_without_linear_layers_is_refused():
    """GPT-2's matrices are of a class of its own, which torchao passes by."""
    model = language_model("gpt2").model
    assert not any(type(m) is nn.Linear for n, m in model.named_modules() if n != "lm_head")
    made = quantizing.prepared("int8", model, torch.float32, CPU)
    with pytest.raises(SpecbenchError) as caught:
        made.facts(model, "tiny-gpt2")
    assert "finds no layer to quantise in tiny-gpt2" in str(caught.value)


def test_unknown_names_are_answered_with_the_list(folder: Path):
    assert "Known: int8, int4, bnb-8bit, bnb-4bit" in refusal(folder, quantization="int3")


@pytest.mark.parametrize("method", methods.METHODS)
def test_a_missing_package_is_named_before_anything_is_read(
    method: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = refusal("/no/such/folder", quantization=method)
    assert f"needs the package {methods.METHODS[method].package}" in said
    assert "pip install 'specbench[quantization]'" in said


@needs("torchao")
def test_another_torchao_is_told_by_its_version(folder: Path, monkeypatch: pytest.MonkeyPatch):
    import torchao.quantization

    monkeypatch.delattr(torchao.quantization, "Int8WeightOnlyConfig")
    assert "is not the one that this specbench knows" in refusal(folder, quantization="int8")


@needs("bitsandbytes")
@pytest.mark.parametrize("method", ["bnb-8bit", "bnb-4bit"])
def test_bitsandbytes_quantises_a_folder_and_nothing_else(
    folder: Path, tmp_path: Path, method: str
):
    loaded = load(folder, quantization=method)
    assert (loaded.quantization["layers"], loaded.quantization["bits"]) == (14, int(method[4]))
    write_gguf(tmp_path / "tiny.gguf")
    assert "Use int8 or int4" in refusal(tmp_path / "tiny.gguf", quantization=method)
