"""From a checkpoint to a head that fits a target, or one line that says why not.

Counts and shapes are read off the tensors and compared with the config and with the target, before
any draft: a head made for another target fails here, by the name of the tensor that shows it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn
from transformers import LlamaConfig

from specbench.errors import SpecbenchError
from specbench.heads.eagle import EagleHead
from specbench.heads.eagle3 import NUM_FEATURES, Eagle3Head, usual_layers
from specbench.heads.files import Checkpoint, open_checkpoint, tensor_names
from specbench.heads.fitting import embedding_of, fill, made_for, require_equal
from specbench.heads.medusa import MedusaHeads
from specbench.heads.speculators import is_speculators, translate
from specbench.models.language_model import LanguageModel

_MEDUSA_NAME = re.compile(r"(\d+)\.(\d+)\.(linear\.weight|linear\.bias|weight)")
_LAYER_KEYS = (
    "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim",
    "hidden_act", "rms_norm_eps", "max_position_embeddings", "rope_theta", "rope_scaling",
    "rope_parameters", "mlp_bias", "vocab_size",
)  # fmt: skip
_NEEDED_KEYS = ("hidden_size", "intermediate_size", "num_attention_heads", "vocab_size")

Head = TypeVar("Head", bound=nn.Module)
_Made = TypeVar("_Made")


@dataclass(frozen=True)
class LoadedHead(Generic[Head]):
    """A head on its target's device, in its dtype, without gradients.

    Attributes:
        head: the network.
        checkpoint: what it was read from.
        config: of its decoder layer; None where it has none.
        embedding: token embeddings of its own where they differ from the target's, else the
            target's.
        ids: [V_draft] the target's id of each of the head's own, or None: they are the same.
        layers: whose states it reads.
        notes: what the record is to say.
    """

    head: Head
    checkpoint: Checkpoint
    config: LlamaConfig | None
    embedding: nn.Module
    ids: Tensor | None
    layers: tuple[int, ...]
    notes: tuple[str, ...]


def load_medusa(name: str, target: LanguageModel) -> LoadedHead[MedusaHeads]:
    """Read Medusa heads.

    The number of heads is counted in the tensors: published configs understate it.

    Raises:
        SpecbenchError: naming what is missing, too much, or of another shape.
    """
    checkpoint, notes = _open(name, "medusa")
    hidden_size, vocab_size = target.state_size, target.vocab_size
    num_heads, num_layers = _count_medusa(checkpoint.tensors)
    for key, counted, lacking in (
        ("medusa_num_heads", num_heads, f"{num_heads}.0.linear.bias"),
        ("medusa_num_layers", num_layers, f"0.{num_layers}.linear.bias"),
    ):
        if (checkpoint.integer(key) or 0) > counted:
            raise SpecbenchError(
                f"{name!r} lacks the tensor {lacking!r} [{hidden_size}]: its config.json says"
                f" {key} is {checkpoint.integer(key)}, and it holds {counted}"
            )
    shared = str(checkpoint.config.get("version")) == "2"
    heads = MedusaHeads(hidden_size, num_heads, num_layers, None if shared else vocab_size)
    fill(heads, checkpoint, checkpoint.tensors, target)
    embedding = target.model.get_input_embeddings()
    layers = (target.config.num_hidden_layers,)
    return LoadedHead(heads, checkpoint, None, embedding, None, layers, notes)


@functools.cache
def count_medusa_heads(name: str) -> int | None:
    """How many heads a folder on this machine holds; None if it can't be said without fetching."""
    names = tensor_names(name)
    return None if names is None else _count_medusa(names)[0] or None


def load_eagle(name: str, target: LanguageModel) -> LoadedHead[EagleHead]:
    """Read an EAGLE head; EAGLE-2 has the same weights.

    Raises:
        SpecbenchError: naming what is missing, too much, or of another shape.
    """
    checkpoint, notes = _open(name, "eagle")
    config = _layer_config(checkpoint, target)
    config.bias = checkpoint.config.get("bias", True)
    require_equal(checkpoint, target, "hidden_size", config.hidden_size, target.state_size)
    head = _built(checkpoint, lambda: EagleHead(config))
    embedding, tensors = embedding_of(checkpoint, target, config.hidden_size)
    fill(head, checkpoint, tensors, target)
    layers = (target.config.num_hidden_layers,)
    return LoadedHead(head, checkpoint, config, embedding, None, layers, notes)


def load_eagle3(name: str, target: LanguageModel) -> LoadedHead[Eagle3Head]:
    """Read an EAGLE-3 head, in its own format or in speculators'.

    Raises:
        SpecbenchError: naming what is missing, too much, or of another shape.
    """
    checkpoint, notes = _open(name, "eagle3")
    config = _layer_config(checkpoint, target)
    config.target_hidden_size = target.config.hidden_size
    config.norm_before_residual = _flag(checkpoint, "norm_before_residual")
    layers = _feature_layers(checkpoint, target)
    embedding, tensors = embedding_of(checkpoint, target, config.hidden_size)
    offsets, mapped = tensors.pop("d2t", None), tensors.pop("t2d", None)
    own = tensors.get("lm_head.weight")
    size = checkpoint.integer("draft_vocab_size") or (
        target.vocab_size if own is None else len(own)
    )
    if size < 1:
        raise SpecbenchError(f"{name!r} has a draft vocabulary without a token")
    head = _built(checkpoint, lambda: Eagle3Head(config, size))
    fill(head, checkpoint, tensors, target)
    ids = _draft_ids(checkpoint, target, size, offsets, mapped)
    return LoadedHead(head, checkpoint, config, embedding, ids, layers, notes)


def _open(name: str, wanted: str) -> tuple[Checkpoint, tuple[str, ...]]:
    """Read a checkpoint and make sure that it holds the wanted kind of head."""
    checkpoint = open_checkpoint(name)
    notes: list[str] = []
    if is_speculators(checkpoint.config):
        checkpoint, notes = translate(checkpoint)
    kind = _kind(checkpoint.tensors)
    if kind is None:
        first = min(checkpoint.tensors, default="no tensor")
        raise SpecbenchError(
            f"{name!r} holds neither Medusa heads nor an EAGLE head: its first tensor is {first!r}"
        )
    if kind != wanted:
        raise SpecbenchError(f"{name!r} holds a head of kind {kind}", f"Write {kind}:{name}")
    return checkpoint, tuple(notes)


def _kind(names: Iterable[str]) -> str | None:
    """Which head has tensors of these names."""
    names = list(names)
    if any(name.startswith("midlayer.") for name in names):
        return "eagle3"
    if any(name.startswith("layers.0.") for name in names):
        return "eagle"
    return "medusa" if any(map(_MEDUSA_NAME.fullmatch, names)) else None


def _count_medusa(names: Iterable[str]) -> tuple[int, int]:
    """Heads, and residual blocks per head, that the tensors' names speak of."""
    found = [match for match in map(_MEDUSA_NAME.fullmatch, names) if match]
    blocks = [int(match[2]) for match in found if match[3] != "weight"]
    return max((int(match[1]) + 1 for match in found), default=0), max(blocks, default=-1) + 1


def _layer_config(checkpoint: Checkpoint, target: LanguageModel) -> LlamaConfig:
    """The decoder layer's config, its vocabulary compared with the target's."""
    config = checkpoint.config
    for key in _NEEDED_KEYS:
        if checkpoint.integer(key) is None:
            raise SpecbenchError(f"the config.json of {checkpoint.name!r} has no {key}")
    require_equal(checkpoint, target, "vocab_size", config["vocab_size"], target.vocab_size)
    chosen = {key: config[key] for key in _LAYER_KEYS if config.get(key) is not None}
    made = _built(checkpoint, lambda: LlamaConfig(**chosen, num_hidden_layers=1))
    made.qkv_bias = any(name.endswith("q_proj.bias") for name in checkpoint.tensors)
    return made


def _built(checkpoint: Checkpoint, make: Callable[[], _Made]) -> _Made:
    """What the config describes.

    Raises:
        SpecbenchError: nothing that can be made.
    """
    try:
        return make()
    except Exception as error:  # transformers and torch raise whatever they stumble over
        reason = str(error).strip().splitlines()[-1:] or [type(error).__name__]
        raise SpecbenchError(
            f"the config.json of {checkpoint.name!r} does not describe a decoder layer: {reason[0]}"
        ) from error


def _flag(checkpoint: Checkpoint, key: str) -> bool:
    value = checkpoint.config.get(key) or False
    if not isinstance(value, bool):
        raise SpecbenchError(f"the config.json of {checkpoint.name!r} says {key} is {value!r}")
    return value


def _feature_layers(checkpoint: Checkpoint, target: LanguageModel) -> tuple[int, ...]:
    """The layers whose entering states an EAGLE-3 head reads."""
    total = target.config.num_hidden_layers
    nested = checkpoint.config.get("eagle_config")
    for config in (checkpoint.config, nested if isinstance(nested, Mapping) else {}):
        layers: Any = config.get("eagle_aux_hidden_state_layer_ids")
        if layers is not None:
            break
    if layers is None:
        layers = usual_layers(total)
    listed = list(layers) if isinstance(layers, list | tuple) else [layers]
    if len(listed) != NUM_FEATURES:
        raise SpecbenchError(
            f"the config.json of {checkpoint.name!r} names the layers {listed}, and an EAGLE-3"
            f" head reads the states of {NUM_FEATURES}"
        )
    if not all(isinstance(layer, int) and 0 <= layer <= total for layer in listed):
        raise SpecbenchError(
            f"{checkpoint.name!r} reads the states entering layers {listed}, and target"
            f" {target.name} has {total} layers",
            made_for(checkpoint),
        )
    return tuple(listed)


def _draft_ids(
    checkpoint: Checkpoint,
    target: LanguageModel,
    size: int,
    offsets: Tensor | None,
    mapped: Tensor | None,
) -> Tensor | None:
    """The target's id of each draft id, from the offsets ``d2t``; checked against ``t2d``."""
    if offsets is None:
        if size != target.vocab_size:
            raise SpecbenchError(
                f"{checkpoint.name!r} lacks the tensor 'd2t' [{size}]: its draft vocabulary of"
                f" {size} is not the {target.vocab_size} of target {target.name}"
            )
        return None
    if tuple(offsets.shape) != (size,):
        raise SpecbenchError(
            f"tensor 'd2t' of {checkpoint.name!r} is {list(offsets.shape)}; its 'lm_head.weight'"
            f" makes it [{size}]"
        )
    ids = torch.arange(size) + offsets.long()
    fits = int(ids.min()) >= 0 and int(ids.max()) < target.vocab_size
    if not fits or len(ids.unique()) != size:
        raise SpecbenchError(
            f"tensor 'd2t' of {checkpoint.name!r} does not lead to {size} different ids below"
            f" {target.vocab_size}",
            made_for(checkpoint),
        )
    if mapped is not None:
        _check_mapped(checkpoint, target, ids, mapped)
    return ids.to(target.device)


def _check_mapped(
    checkpoint: Checkpoint, target: LanguageModel, ids: Tensor, mapped: Tensor
) -> None:
    if tuple(mapped.shape) != (target.vocab_size,):
        raise SpecbenchError(
            f"tensor 't2d' of {checkpoint.name!r} is {list(mapped.shape)}; target {target.name}"
            f" makes it [{target.vocab_size}]",
            made_for(checkpoint),
        )
    if not torch.equal(mapped.bool().nonzero().squeeze(1), ids.sort().values):
        raise SpecbenchError(
            f"tensors 'd2t' and 't2d' of {checkpoint.name!r} disagree about the draft vocabulary"
        )
