"""Reads a GGUF file into a torch model and a tokenizer that equals the original model's.

transformers dequantises the weights (``gguf_file=``). What it would leave different from the
original model is put right from the file's own header: the tokenizer (see ``gguf_tokenizer``) and
the ids that end an answer.

>>> loaded = load(Path("SmolLM2-135M-Instruct.Q4_1.gguf"))    # doctest: +SKIP
>>> loaded.tokenizer.encode("\\n\\n1")                          # doctest: +SKIP
[198, 198, 33]
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.weights import gguf_tokenizer
from specbench.weights.gguf_header import GgufHeader, read_header
from specbench.weights.progress import SILENT, Progress
from specbench.weights.quiet import quick_gguf, quiet_transformers

_PLAIN_TYPES = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class GgufModel:
    """A model and its tokenizer out of a GGUF file.

    Attributes:
        notices: what could not be made sure.
        quantization: how the file stores weights, and what they were dequantised to; None: plainly.
    """

    model: Any
    tokenizer: Any
    notices: tuple[str, ...]
    quantization: dict[str, Any] | None = None


def load(
    path: Path, *, dtype: Any = None, progress: Progress = SILENT, label: str = "", **options: Any
) -> GgufModel:
    """Dequantise a GGUF file into memory.

    Args:
        path: the file.
        dtype: torch dtype to dequantise to; float32 when None.
        progress: where the bar goes.
        label: the bar's label.
        options: further options of ``from_pretrained``.

    Raises:
        SpecbenchError: not a GGUF file, damaged, or an architecture that transformers can't read.
    """
    header = read_header(path)
    with (
        progress.stage(label or f"dequantising {path.name}", path.stat().st_size) as update,
        quiet_transformers(),
        quick_gguf(update),
    ):
        try:
            tokenizer, notices = gguf_tokenizer.build(path, header)
            model = _model(path, header, dtype, options)
            types = _quantised_types(path)
        except (
            ValueError,
            KeyError,
            IndexError,
            NotImplementedError,
            RuntimeError,
            OSError,
        ) as error:
            raise SpecbenchError(
                f"transformers can't read the GGUF file {str(path)!r} (architecture"
                f" {header.architecture!r}): {error}",
                "If its download is complete, pass a folder in Hugging Face format instead",
            ) from error
    if not types:
        return GgufModel(model, tokenizer, notices)
    dequantised_to = str(model.dtype).removeprefix("torch.")
    told = {"method": "gguf", "stored_as": types, "source": "checkpoint"}
    return GgufModel(model, tokenizer, notices, {**told, "dequantised_to": dequantised_to})


def _quantised_types(path: Path) -> str:
    """The types of a file's quantised tensors, that of most weights first; empty: it has none."""
    import gguf

    counts: Counter[str] = Counter()
    for tensor in gguf.GGUFReader(str(path)).tensors:
        counts[tensor.tensor_type.name] += int(tensor.n_elements)
    return ", ".join(name for name, _ in counts.most_common() if name not in _PLAIN_TYPES)


def convert(path: Path, folder: Path, progress: Progress = SILENT) -> tuple[str, ...]:
    """Write a GGUF file's model and tokenizer as a Hugging Face folder (float32 safetensors).

    float32, because a dequantised weight (scale x integer + offset) has more significant bits than
    bfloat16 or float16 hold: this way every machine has exactly the numbers that the file encodes.

    Returns:
        Notices on what could not be made sure.

    Raises:
        SpecbenchError: as :func:`load`.
        OSError: the folder can't be written.
    """
    from safetensors import SafetensorError

    loaded = load(path, progress=progress, label="converting to safetensors (once)")
    try:
        with quiet_transformers():
            loaded.model.save_pretrained(folder)
            loaded.tokenizer.save_pretrained(folder)
    except SafetensorError as error:  # its way to say that a file can't be written
        raise OSError(str(error)) from error
    return loaded.notices


def _model(path: Path, header: GgufHeader, dtype: Any, options: dict[str, Any]) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        str(path.parent), gguf_file=path.name, dtype=dtype or torch.float32, **options
    )
    # What is left is a plain dequantised model; the remains of its quantisation block saving it.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    for role, number in header.special_ids.items():
        if role != "unk":
            setattr(model.config, f"{role}_token_id", number)
            setattr(model.generation_config, f"{role}_token_id", number)
    model.generation_config._from_model_config = False  # else saving drops what was set here
    if len(header.stop_ids) > 1:
        model.generation_config.eos_token_id = list(header.stop_ids)
    return model
