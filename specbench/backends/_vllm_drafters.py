"""Drafters with weights as vLLM takes them: heads of sizes that it has, Medusa's with all their
layers, EAGLE's without a bias and with an architecture's name.

vLLM's Medusa (``model_executor/models/medusa.py``, 0.32) leaves out what its configuration does not
announce, without a word: biases, and output layers, which then are whatever lay in memory. So heads
are written anew with a configuration that tells of both, and with the target's output layer where
they share it. It drafts the likeliest token of the whole vocabulary, at any temperature.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from specbench.backends._vllm_cache import made_in_cache
from specbench.backends._vllm_export import for_vllm
from specbench.errors import SpecbenchError
from specbench.heads.files import Checkpoint, open_checkpoint, tensor_names
from specbench.weights.source import ModelSource, weight_files

_BLOCK = re.compile(r"(\d+)\.(\d+)\.linear\.weight")
_OUTPUTS = ("lm_head.weight", "model.embed_tokens.weight")  # tied ones are the embeddings


def as_vllm_takes_it(
    kind: str, name: str, target: ModelSource, find: Callable[[str], ModelSource]
) -> tuple[Path, Mapping[str, Any]]:
    """A drafter's folder, written anew where it has to be, and where its weights come from.

    Args:
        kind: of a SPEC.
        name: folder or hub name.
        find: the weights of a name.

    Raises:
        SpecbenchError: it cannot be had, or vLLM can't take it.
    """
    if kind == "medusa":
        heads = open_checkpoint(name)
        return medusa_for_vllm(heads, target), heads.provenance
    if kind == "eagle":
        refuse_biased_eagle(name)
    source = find(name)
    made = {"model": for_vllm, "eagle": eagle_for_vllm, "eagle3": eagle_for_vllm}.get(kind)
    return made(source) if made else source.path, source.provenance


def medusa_for_vllm(heads: Checkpoint, target: ModelSource) -> Path:
    """The folder of a target's Medusa heads, written anew in the cache.

    Raises:
        SpecbenchError: there are none, or the target's output layer is not found.
    """
    of_target = target.provenance["sha256"][:8]

    def write(folder: Path) -> None:
        tensors = {name.removeprefix("medusa_heads."): one for name, one in heads.tensors.items()}
        found = [match for name in tensors if (match := _BLOCK.fullmatch(name))]
        if not found:
            raise SpecbenchError(f"{heads.name} holds no Medusa heads", "Name a folder with some")
        num_heads, num_layers = (1 + max(int(match[place]) for match in found) for place in (1, 2))
        shares = f"0.{num_layers}.weight" not in tensors
        output = _output_layer(target) if shares else tensors[f"0.{num_layers}.weight"]
        if shares:
            tensors["lm_heads.0.weight"] = output
        config = {
            "model_type": "medusa",
            "architectures": ["MedusaModel"],
            "num_heads": num_heads,
            "num_hidden_layers": num_layers,
            "vocab_size": output.shape[0],
            "hidden_size": output.shape[1],
            "medusa_fc_bias": "0.0.linear.bias" in tensors,
            "original_lm_head": shares,
        }
        save_file(
            {name: tensor.contiguous().clone() for name, tensor in tensors.items()},
            folder / "model.safetensors",
            metadata={"format": "pt"},
        )
        (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")

    return made_in_cache(heads.provenance["sha256"], f"medusa-{of_target}", heads.config, write)


def refuse_biased_eagle(name: str) -> None:
    """vLLM's EAGLE joins embedding and state without a bias (``models/llama_eagle.py``).

    Raises:
        SpecbenchError: a head on this machine has one.
    """
    if "fc.bias" in (tensor_names(name) or ()):
        raise SpecbenchError(
            f"vLLM can't draft with {name}: its fc has a bias, and vLLM's EAGLE has none",
            "Name a head without one, or measure this one with --backend native",
        )


def eagle_for_vllm(source: ModelSource) -> Path:
    """An EAGLE or EAGLE-3 head's folder, or one in the cache whose config names its architecture.

    vLLM puts ``Eagle`` or ``Eagle3`` before that name; without one it takes the model type's bare
    model, for which it has no head.
    """
    config = json.loads((source.path / "config.json").read_text(encoding="utf-8"))
    if config.get("architectures"):
        return source.path
    named = {**config, "architectures": ["LlamaForCausalLM"]}

    def write(folder: Path) -> None:
        for file in weight_files(source.path):
            shutil.copyfile(file, folder / file.name)
        (folder / "config.json").write_text(json.dumps(named, indent=1), encoding="utf-8")

    return made_in_cache(source.provenance["sha256"], "eagle", named, write)


def _output_layer(target: ModelSource) -> Tensor:
    """The target's output layer [V, H].

    Raises:
        SpecbenchError: its files name none.
    """
    found: dict[str, Tensor] = {}
    for file in sorted(target.path.glob("*.safetensors")):
        with safe_open(file, framework="pt") as stored:
            names = [name for name in _OUTPUTS if name in stored.keys()]  # noqa: SIM118
            found |= {name: stored.get_tensor(name) for name in names}
    for name in _OUTPUTS:
        if name in found:
            return found[name]
    raise SpecbenchError(
        f"no output layer for Medusa's heads is found in {target.path}",
        f"One of these has to be in its safetensors files: {', '.join(_OUTPUTS)}",
    )
