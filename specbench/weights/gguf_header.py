"""Reads the key-value header of a GGUF file: fast, without numpy or torch.

The reader of the ``gguf`` package builds several array views per string, which takes seconds for a
vocabulary; here it takes a tenth of one. Format: github.com/ggml-org/ggml, docs/gguf.md.

>>> read_header(Path("SmolLM2-135M-Instruct.Q4_1.gguf")).pre_tokenizer    # doctest: +SKIP
'smollm'
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from specbench.errors import SpecbenchError

_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d",
}  # fmt: skip
_LONGEST_STRING_BYTES = 1 << 24
_SPECIAL_KEYS = {
    "bos": "bos",
    "eos": "eos",
    "eot": "eot",
    "eom": "eom",
    "unk": "unknown",
    "pad": "padding",
}


@dataclass(frozen=True)
class GgufHeader:
    """What the header says, as far as it matters here.

    Attributes:
        architecture: llama.cpp's name, for example ``llama``.
        name: the model's own name, else the file's.
        tokenizer_model: ``gpt2`` (byte-level BPE), ``llama`` (sentencepiece), ...
        pre_tokenizer: llama.cpp's name of the splitting rule, ``""`` where the file names none.
        context_length: tokens, None where the file names none.
        stop_ids: end-of-sequence, -turn and -message ids, in this order, each once.
        adds_bos: whether encoding puts a BOS in front; None where the file does not say.
        special_ids: ids by role: ``bos``, ``eos``, ``unk``, ``pad``, as far as they are there.
        tokens: the vocabulary, in the order of the ids.
        token_types: 1 normal, 3 control, 4 user-defined, ...; one per token.
        merges: pairs of a byte-pair encoding, best first, each ``"left right"``.
        chat_template: Jinja text, None where there is none.
    """

    architecture: str
    name: str
    tokenizer_model: str
    pre_tokenizer: str
    context_length: int | None
    stop_ids: tuple[int, ...]
    adds_bos: bool | None
    special_ids: dict[str, int]
    tokens: tuple[str, ...]
    token_types: tuple[int, ...]
    merges: tuple[str, ...]
    chat_template: str | None


def read_header(path: Path) -> GgufHeader:
    """The header of a GGUF file.

    Raises:
        SpecbenchError: can't be read, is not GGUF, or is cut short; the message names the file.
    """
    try:
        with path.open("rb") as stream:
            if stream.read(len(_MAGIC)) != _MAGIC:
                raise SpecbenchError(
                    f"{str(path)!r} is no GGUF file: it does not start with 'GGUF'"
                )
            fields = _fields(stream)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise SpecbenchError(f"the GGUF file {str(path)!r} can't be read: {reason}") from error
    except (struct.error, ValueError, OverflowError, MemoryError) as error:
        raise SpecbenchError(
            f"the header of the GGUF file {str(path)!r} is cut short or damaged: {error}",
            "Is its download complete?",
        ) from error
    architecture = fields.get("general.architecture")
    if not isinstance(architecture, str):
        raise SpecbenchError(f"the GGUF file {str(path)!r} names no general.architecture")
    ids = {
        role: fields.get(f"tokenizer.ggml.{key}_token_id") for role, key in _SPECIAL_KEYS.items()
    }
    stops = (ids[role] for role in ("eos", "eot", "eom"))
    return GgufHeader(
        architecture=architecture,
        name=str(fields.get("general.name") or path.stem),
        tokenizer_model=str(fields.get("tokenizer.ggml.model", "")),
        pre_tokenizer=str(fields.get("tokenizer.ggml.pre", "")),
        context_length=fields.get(f"{architecture}.context_length"),
        stop_ids=tuple(dict.fromkeys(stop for stop in stops if isinstance(stop, int))),
        adds_bos=fields.get("tokenizer.ggml.add_bos_token"),
        special_ids={
            role: number
            for role in ("bos", "eos", "unk", "pad")
            if (number := ids[role]) is not None
        },
        tokens=tuple(fields.get("tokenizer.ggml.tokens", ())),
        token_types=tuple(fields.get("tokenizer.ggml.token_type", ())),
        merges=tuple(fields.get("tokenizer.ggml.merges", ())),
        chat_template=fields.get("tokenizer.chat_template"),
    )


def _fields(stream: BinaryIO) -> dict[str, Any]:
    """All fields: numbers, truth values, strings, and lists of these."""
    version = _scalar(stream, "I")
    if version not in (2, 3):
        raise ValueError(f"GGUF version {version} is not 2 or 3")
    _tensor_count, field_count = _scalar(stream, "Q"), _scalar(stream, "Q")
    fields: dict[str, Any] = {}
    for _ in range(field_count):
        key = _string(stream)
        fields[key] = _value(stream, _scalar(stream, "I"))
    return fields


def _value(stream: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(stream)
    if kind == _ARRAY:
        return _array(stream)
    if kind not in _SCALARS:
        raise ValueError(f"value type {kind} is unknown")
    return _scalar(stream, _SCALARS[kind])


def _array(stream: BinaryIO) -> list[Any]:
    kind, count = _scalar(stream, "I"), _scalar(stream, "Q")
    if kind == _STRING:
        return [_string(stream) for _ in range(count)]
    if kind not in _SCALARS:
        return [_value(stream, kind) for _ in range(count)]
    code = _SCALARS[kind]
    content = stream.read(struct.calcsize(code) * count)
    return list(struct.unpack(f"<{count}{code}", content))


def _scalar(stream: BinaryIO, code: str) -> Any:
    return struct.unpack(f"<{code}", stream.read(struct.calcsize(code)))[0]


def _string(stream: BinaryIO) -> str:
    length = _scalar(stream, "Q")
    if length > _LONGEST_STRING_BYTES:
        raise ValueError(f"a string of {length} bytes")
    text = stream.read(length)
    if len(text) != length:
        raise ValueError("a string ends early")
    return str(text, "utf-8")
