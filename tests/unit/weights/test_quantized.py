"""Checkpoints that come quantised: loaded, dequantised and said so, or refused in one line."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from specbench.errors import SpecbenchError
from specbench.weights import quantized
from specbench.weights.loading import load_causal_lm
from specbench.weights.stored import num_bytes, stored_tensors
from tests.quantised import needs
from tests.unit.weights.tiny import write_folder, write_gguf

Stored = Mapping[str, torch.Tensor]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "own-cache"))


def checkpoint(
    folder: Path, told: dict[str, Any], store: Callable[[str, torch.Tensor], Stored]
) -> Path:
    """A tiny Llama whose matrices are stored in another way, which its config tells."""
    write_folder(folder)
    file, config_file = folder / "model.safetensors", folder / "config.json"
    weights: dict[str, torch.Tensor] = {}
    for name, tensor in load_file(file).items():
        inside = name.startswith("model.layers") and tensor.ndim == 2
        weights |= store(name, tensor) if inside else {name: tensor}
    save_file(weights, file, metadata={"format": "pt"})
    config = json.loads(config_file.read_text(encoding="utf-8"))
    config["quantization_config"] = told
    config_file.write_text(json.dumps(config), encoding="utf-8")
    return folder


def as_it_is(name: str, tensor: torch.Tensor) -> Stored:
    return {name: tensor}


def fp8(name: str, tensor: torch.Tensor) -> Stored:
    """One block of 128 x 128 holds the whole matrix."""
    scale = tensor.abs().max() / 448
    packed = (tensor / scale).to(torch.float8_e4m3fn)
    return {name: packed, f"{name}_scale_inv": scale.reshape(1, 1)}


FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
FOUR_BITS = {"bits": 4, "group_size": 32, "sym": True, "zero_point": True, "version": "gemm"}


def refusal(name: Path, **options: object) -> str:
    with pytest.raises(SpecbenchError) as caught:
        load_causal_lm(str(name), device="cpu", **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU may multiply FP8 as it is")
def test_fp8_is_dequantised_on_a_cpu_and_said_so(tmp_path: Path):
    folder = checkpoint(tmp_path / "tiny", FP8, fp8)
    loaded = load_causal_lm(str(folder), device="cpu")
    assert loaded.quantization == {
        "method": "fp8",
        "bits": 8,
        "group": [128, 128],
        "source": "checkpoint",
        "dequantised_to": "float32",
    }
    assert loaded.notices == (f"{folder}: its weights (fp8) are dequantised to float32",)
    assert loaded.weight_bytes == 4 * loaded.parameters
    stored = load_file(folder / "model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    expected = stored[name].float() * stored[f"{name}_scale_inv"]
    assert torch.allclose(loaded.model.get_parameter(name), expected)


def test_a_gguf_file_is_dequantised_and_said_so(tmp_path: Path):
    file = tmp_path / "tiny.gguf"
    write_gguf(file)
    for dtype in ("float32", "bfloat16"):
        loaded = load_causal_lm(str(file), device="cpu", dtype=dtype)
        assert loaded.provenance["quantization"] == {
            "method": "gguf",
            "stored_as": "Q4_1",
            "source": "checkpoint",
            "dequantised_to": dtype,
        }
        said = f"{file}: its weights (gguf, Q4_1) are dequantised to {dtype}"
        assert loaded.notices[-1] == said
        assert loaded.weight_bytes == loaded.parameters * (4 if dtype == "float32" else 2)


def test_a_method_that_transformers_does_not_know_is_not_read_as_plain_weights(tmp_path: Path):
    folder = checkpoint(tmp_path / "tiny", {"quant_method": "rot13"}, as_it_is)
    assert "(rot13)" in refusal(folder)


@pytest.mark.parametrize("asked", ["int8", "bnb-4bit"])
def test_what_is_quantised_is_not_quantised_again(
    tmp_path: Path, asked: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("specbench.weights.loading.require_package", lambda name: None)
    folder = checkpoint(tmp_path / "tiny", FP8, fp8)
    said = refusal(folder, quantization=asked)
    assert f"is quantised already (fp8), so it can't be quantised as {asked}" in said


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_a_missing_package_is_named_with_what_to_install(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
):
    from transformers.quantizers import quantizer_awq, quantizer_gptq

    for module in (quantizer_awq, quantizer_gptq):  # wherever they are installed
        for name in ("is_gptqmodel_available", "is_optimum_available"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda: False)
    told = {"quant_method": method, **FOUR_BITS}
    said = refusal(checkpoint(tmp_path / "tiny", told, as_it_is))
    assert f"is quantised ({method}) and can't be loaded" in said
    assert "pip install gptqmodel" in said


def saved(folder: Path, out: Path, method: str) -> Path:
    """A folder's model as a checkpoint that comes quantised."""
    load_causal_lm(str(folder), device="cpu", quantization=method).model.save_pretrained(out)
    for file in folder.glob("token*"):
        shutil.copy(file, out)
    return out


@needs("torchao")
@pytest.mark.parametrize("method", ["int8"])
def test_a_torchao_checkpoint_is_what_was_saved(tmp_path: Path, method: str):
    folder = write_folder(tmp_path / "tiny")
    made = load_causal_lm(str(folder), device="cpu", quantization=method)
    loaded = load_causal_lm(str(saved(folder, tmp_path / "saved", method)), device="cpu")
    assert (loaded.quantization["method"], loaded.quantization["bits"]) == ("torchao", 8)
    assert (loaded.quantization["source"], loaded.quantization["layers"]) == ("checkpoint", 14)
    assert (loaded.weight_bytes, loaded.parameters) == (made.weight_bytes, made.parameters)
    ids = torch.tensor([[1, 5, 9]])
    with torch.inference_mode():
        assert torch.equal(loaded.model(ids).logits, made.model(ids).logits)


@needs("bitsandbytes")
@pytest.mark.parametrize(("method", "bits"), [("bnb-8bit", 8), ("bnb-4bit", 4)])
def test_a_bitsandbytes_checkpoint_is_what_was_saved(tmp_path: Path, method: str, bits: int):
    folder = write_folder(tmp_path / "tiny")
    made = load_causal_lm(str(folder), device="cpu", quantization=method)
    loaded = load_causal_lm(str(saved(folder, tmp_path / "saved", method)), device="cpu")
    assert (loaded.quantization["method"], loaded.quantization["bits"]) == ("bitsandbytes", bits)
    assert loaded.weight_bytes == made.weight_bytes


@needs("compressed_tensors")
def test_compressed_tensors_are_unpacked_before_they_are_counted(tmp_path: Path):
    """On a CPU the library does so at the first forward."""
    from compressed_tensors.compressors import pack_quantized

    def packed(name: str, tensor: torch.Tensor) -> Stored:
        scale = tensor.abs().amax(dim=1, keepdim=True) / 7
        codes = (tensor / scale).round().clamp(-8, 7).to(torch.int8)
        return {
            f"{name}_packed": pack_quantized.helpers.pack_to_int32(codes, 4),
            f"{name}_scale": scale,
            f"{name}_shape": torch.tensor(tensor.shape),
        }

    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "channel"}
    told = {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
    }
    loaded = load_causal_lm(str(checkpoint(tmp_path / "tiny", told, packed)), device="cpu")
    assert loaded.quantization["bits"] == 4
    assert loaded.quantization["dequantised_to"] == "float32"
    before = loaded.weight_bytes
    with torch.inference_mode():
        loaded.model(torch.tensor([[1, 5, 9]]))
    assert num_bytes(stored_tensors(loaded.model)) == before


def test_what_configs_say_of_bits_and_groups():
    torchao = {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 128}}
    compressed = {"g": {"weights": {"num_bits": 8, "group_size": 64}}}
    told = {
        ("gptq", 4, 32): {"quant_method": "gptq", **FOUR_BITS},
        ("awq", 4, None): {"quant_method": "awq", "w_bit": 4, "group_size": -1},
        ("bitsandbytes", 8, None): {"quant_method": "bitsandbytes", "load_in_8bit": True},
        ("bitsandbytes", 4, None): {"quant_method": "bitsandbytes", "load_in_4bit": True},
        ("torchao", 4, 128): {"quant_method": "torchao", "quant_type": {"default": torchao}},
        ("compressed-tensors", 8, 64): {
            "quant_method": "compressed-tensors",
            "config_groups": compressed,
        },
        ("mxfp4", None, None): {"quant_method": "mxfp4"},
    }
    for (method, bits, group), values in told.items():
        found = quantized.method_of(values), quantized._bits(values), quantized._group(values)
        assert found == (method, bits, group)
