"""A tiny random Llama whose greedy output is neither constant nor random: lookup and early exits
accept some of it and not all, which is what tests of speculation need."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.weights.tiny import CHAT_TEMPLATE, HEADS, HIDDEN, write_folder

CONTEXT = 512
_SPREAD = 0.2  # smaller and a token repeats itself for ever, larger and nothing ever repeats

PROMPTS = (
    "one two one two one",
    "abc abc abc abc",
    "the cat sat on the mat",
    "a much longer prompt, so that rows of one batch differ in length by some dozens of tokens",
    "x",
    "10 9 8 7 6 5",
)


def write_target(
    folder: Path,
    *,
    dtype: str = "float32",
    chat: bool = False,
    seed: int = 1,
    head_size: int = HIDDEN // HEADS,
) -> Path:
    """Write a model folder: 2 layers, 259 tokens (one per byte), ``<|im_end|>`` stops."""
    import torch
    from safetensors.torch import load_file, save_file

    write_folder(folder, dtype, head_size, max_position_embeddings=CONTEXT)
    file = folder / "model.safetensors"
    random = torch.Generator().manual_seed(seed)
    weights = {
        name: (torch.randn(tensor.shape, generator=random) * _SPREAD).to(tensor.dtype)
        if tensor.ndim == 2
        else tensor
        for name, tensor in load_file(file).items()
    }
    save_file(weights, file, metadata={"format": "pt"})
    if chat:
        (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    return folder


def stop_at(folder: Path, tokens: list[int]) -> None:
    """Let outputs of a model folder end at these tokens too."""
    file = folder / "generation_config.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    settings["eos_token_id"] = [2, *map(int, tokens)]
    file.write_text(json.dumps(settings), encoding="utf-8")


def write_prompts(file: Path, prompts: tuple[str, ...] = PROMPTS, chats: int = 0) -> Path:
    """Write a prompt file: single turns named p0, p1, ..., then chats of two turns c0, c1, ..."""
    rows: list[dict[str, object]] = [
        {"id": f"p{number}", "prompt": prompt} for number, prompt in enumerate(prompts)
    ]
    rows += [
        {"id": f"c{number}", "turns": [f"What is {number}?", "And twice that?"]}
        for number in range(chats)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file
