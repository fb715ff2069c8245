"""Heads written for vLLM compute what they computed, by the rules of its ``models/medusa.py``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specbench.backends._vllm_drafters import as_vllm_takes_it
from specbench.errors import SpecbenchError
from specbench.heads.medusa import MedusaHeads
from specbench.weights.finding import resolve
from specbench.weights.source import ModelSource
from tests.unit.weights.tiny import write_folder

HIDDEN, NUM_HEADS = 32, 3


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSource:
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "cache"))
    return resolve(str(write_folder(tmp_path / "target")))


def write_medusa(folder: Path, vocab_size: int | None) -> MedusaHeads:
    """Random heads as they are published, with output layers of their own or without."""
    heads = MedusaHeads(HIDDEN, NUM_HEADS, vocab_size=vocab_size)
    random = torch.Generator().manual_seed(0)
    for parameter in heads.parameters():
        torch.nn.init.normal_(parameter, std=0.2, generator=random)
    folder.mkdir()
    save_file(heads.state_dict(), folder / "medusa_lm_head.safetensors")
    (folder / "config.json").write_text(json.dumps({"medusa_num_heads": NUM_HEADS}))
    return heads


def logits_of_vllm(folder: Path, states: Tensor) -> Tensor:
    """[heads, S, V], reading only what the configuration announces, as vLLM does."""
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    made = []
    for head in range(config["num_heads"]):
        x = states
        for layer in range(config["num_hidden_layers"]):
            name = f"{head}.{layer}.linear"
            bias = weights[f"{name}.bias"] if config["medusa_fc_bias"] else 0.0
            x = x + torch.nn.functional.silu(x @ weights[f"{name}.weight"].T + bias)
        own = f"{head}.{config['num_hidden_layers']}.weight"
        shared = "lm_heads.0.weight"
        output = weights[shared if config["original_lm_head"] else own]
        assert output.shape == (config["vocab_size"], config["hidden_size"])
        made.append(x @ output.T)
    return torch.stack(made)


@pytest.mark.parametrize("own", [False, True])
def test_medusa_heads_come_with_their_biases_and_output_layers(
    target: ModelSource, tmp_path: Path, own: bool
):
    embeddings = load_file(target.path / "model.safetensors")["model.embed_tokens.weight"]
    heads = write_medusa(tmp_path / "heads", len(embeddings) if own else None)
    folder, provenance = as_vllm_takes_it("medusa", str(tmp_path / "heads"), target, resolve)
    states = torch.randn(5, HIDDEN, generator=torch.Generator().manual_seed(1))
    found = heads(states)
    if own:
        expected = torch.stack([layer(x) for layer, x in zip(heads.lm_heads, found, strict=True)])
    else:
        expected = found @ embeddings.T
    torch.testing.assert_close(logits_of_vllm(folder, states), expected.detach())
    assert provenance["sha256"] not in (None, target.provenance["sha256"])
    assert (
        as_vllm_takes_it("medusa", str(tmp_path / "heads"), target, resolve)[0] == folder
    )  # written once


def test_an_eagle_head_with_a_bias_is_refused_by_name(target: ModelSource, tmp_path: Path):
    folder = tmp_path / "eagle"
    folder.mkdir()
    weights = {"fc.weight": torch.zeros(HIDDEN, 2 * HIDDEN), "fc.bias": torch.zeros(HIDDEN)}
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(SpecbenchError, match="its fc has a bias, and vLLM's EAGLE has none"):
        as_vllm_takes_it("eagle", str(folder), target, resolve)


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_an_eagle_head_comes_with_the_name_of_its_architecture(
    target: ModelSource, tmp_path: Path, kind: str
):
    folder = tmp_path / "eagle"
    folder.mkdir()
    weights = {"fc.weight": torch.randn(HIDDEN, 2 * HIDDEN)}
    save_file(weights, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "hidden_size": HIDDEN}))
    made, provenance = as_vllm_takes_it(kind, str(folder), target, resolve)
    assert provenance["served_from"] == f"folder:{folder}"
    config = json.loads((made / "config.json").read_text())
    assert config.pop("architectures") == ["LlamaForCausalLM"]
    assert config == {"model_type": "llama", "hidden_size": HIDDEN}
    torch.testing.assert_close(load_file(made / "model.safetensors"), weights)
    assert as_vllm_takes_it(kind, str(folder), target, resolve)[0] == made, "written once"

    named = {"model_type": "llama", "architectures": ["MistralForCausalLM"]}
    (folder / "config.json").write_text(json.dumps(named))
    assert as_vllm_takes_it(kind, str(folder), target, resolve)[0] == folder
