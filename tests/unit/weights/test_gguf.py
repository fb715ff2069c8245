"""GGUF: the header, the repaired tokenizer, and weights that come through unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.weights import gguf
from specbench.weights.gguf_header import read_header
from tests.unit.weights.tiny import CONTEXT, write_gguf


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path)
    return path


@pytest.fixture(scope="module")
def converted(tiny_gguf: Path) -> Path:
    folder = tiny_gguf.parent / "converted"
    assert gguf.convert(tiny_gguf, folder) == ()
    return folder


def test_header_reads_what_matters(tiny_gguf: Path) -> None:
    header = read_header(tiny_gguf)
    assert (header.architecture, header.name) == ("llama", "tiny")
    assert (header.tokenizer_model, header.pre_tokenizer) == ("gpt2", "smollm")
    assert header.context_length == CONTEXT
    assert (header.stop_ids, header.adds_bos) == ((2,), False)
    assert header.special_ids == {"bos": 1, "eos": 2, "unk": 0, "pad": 2}
    assert (header.tokens[2], header.token_types[2]) == ("<|im_end|>", 3)
    assert header.merges == ("Ċ Ċ", "1 2")


@pytest.mark.parametrize("kept_bytes", [3, 12, 100, 900])
def test_a_cut_file_is_named(tiny_gguf: Path, tmp_path: Path, kept_bytes: int) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(tiny_gguf.read_bytes()[:kept_bytes])
    with pytest.raises(SpecbenchError) as caught:
        read_header(cut)
    assert str(cut) in caught.value.message


def test_a_file_cut_inside_its_tensors_is_named(tiny_gguf: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    content = tiny_gguf.read_bytes()
    cut.write_bytes(content[: len(content) - 5000])
    with pytest.raises(SpecbenchError) as caught:
        gguf.load(cut)
    assert str(cut) in caught.value.message
    assert "download is complete" in caught.value.hint


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    write_gguf(tmp_path / "llama.gguf")
    content = (tmp_path / "llama.gguf").read_bytes()
    path.write_bytes(content.replace(b"llama", b"lemma"))
    with pytest.raises(SpecbenchError) as caught:
        gguf.load(path)
    assert "'lemma'" in caught.value.message


def test_converted_weights_are_exactly_the_dequantised_ones(
    tiny_gguf: Path, converted: Path
) -> None:
    import gguf as reference
    from safetensors.torch import load_file

    tensors = {tensor.name: tensor for tensor in reference.GGUFReader(tiny_gguf).tensors}
    raw = tensors["blk.1.ffn_down.weight"]
    expected = torch.from_numpy(np.array(reference.dequantize(raw.data, raw.tensor_type)))
    weights = load_file(converted / "model.safetensors")
    assert torch.equal(weights["model.layers.1.mlp.down_proj.weight"], expected)
    assert not torch.equal(expected, expected.bfloat16().float()), "bfloat16 would have sufficed"


def test_converted_folder_is_a_plain_model(converted: Path) -> None:
    config = json.loads((converted / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["dtype"] == "float32"
    assert config["rope_parameters"]["rope_theta"] == 100_000.0
    assert config["tie_word_embeddings"] is True
    assert (config["num_attention_heads"], config["num_key_value_heads"]) == (4, 2)
    generation = json.loads((converted / "generation_config.json").read_text())
    assert generation["eos_token_id"] == 2


def test_digits_are_split_before_everything_else(tiny_gguf: Path) -> None:
    # The vocabulary holds "12", and two line breaks as one token: with GPT-2's rule alone, "12"
    # would be merged, and a line break before a digit would be split off.
    tokenizer = gguf.load(tiny_gguf).tokenizer
    assert tokenizer.tokenize("12") == ["1", "2"]
    assert tokenizer.tokenize("\n\n1") == ["ĊĊ", "1"]


def test_gpt2_rule_merges_digits(tmp_path: Path) -> None:
    write_gguf(tmp_path / "gpt2.gguf", pre="gpt-2")
    tokenizer = gguf.load(tmp_path / "gpt2.gguf").tokenizer
    assert tokenizer.tokenize("12") == ["12"]
    assert tokenizer.tokenize("\n\n1") == ["Ċ", "Ċ", "1"]


def test_an_unknown_pre_tokenizer_is_said(tmp_path: Path) -> None:
    write_gguf(tmp_path / "new.gguf", pre="brand-new")
    notices = gguf.load(tmp_path / "new.gguf").notices
    assert len(notices) == 1
    assert "'brand-new'" in notices[0]


def test_special_tokens_are_the_headers(converted: Path) -> None:
    from transformers import AutoTokenizer

    saved = AutoTokenizer.from_pretrained(converted)
    assert (saved.bos_token_id, saved.eos_token_id, saved.pad_token_id) == (1, 2, 2)
    assert saved.unk_token_id == 0
    assert saved.model_max_length == CONTEXT
    assert saved.encode("a<|im_end|>b")[1] == 2
    assert saved.decode([2, 200], skip_special_tokens=True) == saved.decode([200])


@pytest.mark.parametrize("add_bos", [True, False])
def test_bos_is_added_as_the_header_says(tmp_path: Path, add_bos: bool) -> None:
    write_gguf(tmp_path / "bos.gguf", add_bos=add_bos)
    tokenizer = gguf.load(tmp_path / "bos.gguf").tokenizer
    assert (tokenizer.encode("a")[0] == 1) is add_bos
    assert tokenizer.decode(tokenizer.encode("a"), skip_special_tokens=True) == "a"


def test_every_stop_id_is_kept(tmp_path: Path) -> None:
    write_gguf(tmp_path / "eot.gguf", eot=True)
    gguf.convert(tmp_path / "eot.gguf", tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "generation_config.json").read_text())
    assert saved["eos_token_id"] == [2, 0]


TEXTS = [
    "Plain words, don't stop; it's fine.",
    "naïve café — 東京 🙂 Ω≈ç√",
    "def f(x):\n    return x**2 + 10  # 3.14\n\n\n",
    " leading, trailing  and   runs \t\n of space ",
    "2024-05-17: 1,234,567.89 + 42",
]


@pytest.mark.parametrize("text", TEXTS)
def test_round_trip_survives_saving(tiny_gguf: Path, converted: Path, text: str) -> None:
    from transformers import AutoTokenizer

    saved = AutoTokenizer.from_pretrained(converted)
    ids = saved.encode(text)
    assert saved.decode(ids) == text
    assert ids == gguf.load(tiny_gguf).tokenizer.encode(text)


def test_chat_template_survives_saving(converted: Path) -> None:
    from transformers import AutoTokenizer

    saved = AutoTokenizer.from_pretrained(converted)
    ids = saved.apply_chat_template(
        [{"role": "user", "content": "hi"}], add_generation_prompt=True, return_dict=False
    )
    assert [ids[0], ids.count(1), ids.count(2)] == [1, 2, 1]
