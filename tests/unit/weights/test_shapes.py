"""Shapes: published figures, weights that are made only if they fit, and every wrong name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.weights import placement
from specbench.weights import random_model as making
from specbench.weights.borrowed import borrowed_tokenizer
from specbench.weights.finding import resolve
from specbench.weights.loading import load_causal_lm, shape_bytes
from specbench.weights.random_model import random_model
from specbench.weights.room import count_parameters
from specbench.weights.shapes import all_shapes, find_shape, is_shape
from tests.unit.weights.tiny import write_folder

PUBLISHED = {
    "gemma-2-9b": 9.24e9,
    "llama-2-7b": 6.74e9,
    "llama-3.1-70b": 70.6e9,
    "llama-3.1-8b": 8.03e9,
    "llama-3.2-1b": 1.24e9,
    "llama-3.2-3b": 3.21e9,
    "mistral-7b": 7.25e9,
    "qwen3-0.6b": 0.596e9,
    "qwen3-30b-a3b": 30.5e9,
    "qwen3-8b": 8.19e9,
    "smollm2-1.7b": 1.71e9,
    "smollm2-135m": 0.135e9,
    "t5-small": 77e6,
    "t5-xxl": 11.1e9,
}
"""Parameters as their makers and model cards state them."""

TINY_MOE = {
    "model_type": "qwen3_moe",
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 48,
    "moe_intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "max_position_embeddings": 128,
}


def tiny_config(**changes: object) -> object:
    from transformers import LlamaConfig

    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 61}
    return LlamaConfig(**{**sizes, **heads, "max_position_embeddings": 128, **changes})


def made(config: object, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    return random_model(config, dtype, torch.device("cpu"), "sdpa", "shape:tiny").eval()


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def bare(pristine: Path, tmp_path: Path) -> Path:
    """A folder with a config.json and nothing else."""
    folder = tmp_path / "bare"
    folder.mkdir()
    shutil.copy(pristine / "config.json", folder)
    return folder


def test_every_shape_has_a_published_figure_and_a_source() -> None:
    found = {shape.name: shape for shape in all_shapes()}
    assert found.keys() == PUBLISHED.keys()
    for name, shape in found.items():
        assert shape.parameters == pytest.approx(PUBLISHED[name], rel=0.005), name
        assert shape.bfloat16_bytes == 2 * shape.parameters
        assert shape.source.startswith("config.json of "), name
        assert shape.source[-4:].isdecimal(), name


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_stated_parameters_are_those_of_the_architecture(name: str) -> None:
    shape = find_shape(name)
    config = shape.transformers_config()
    untied = 0
    if config.tie_word_embeddings and not shape.config["tie_word_embeddings"]:
        untied = config.vocab_size * config.hidden_size  # transformers ties every T5, 1.1 does not
    assert count_parameters(config) + untied == shape.parameters
    assert (untied > 0) == name.startswith("t5")


def test_figures_that_transformers_has_as_defaults_are_the_same() -> None:
    from transformers import LlamaConfig, MistralConfig, Qwen3MoeConfig

    for name, default, keys in (
        ("llama-2-7b", LlamaConfig(), ("num_hidden_layers", "num_attention_heads", "vocab_size")),
        ("mistral-7b", MistralConfig(), ("num_hidden_layers", "num_key_value_heads")),
        ("qwen3-30b-a3b", Qwen3MoeConfig(), ("moe_intermediate_size", "num_key_value_heads")),
        ("qwen3-30b-a3b", Qwen3MoeConfig(), ("num_experts", "num_experts_per_tok", "vocab_size")),
    ):
        config = find_shape(name).transformers_config()
        for key in ("hidden_size", "intermediate_size", *keys):
            assert getattr(config, key) == getattr(default, key), (name, key)


def test_only_the_prefix_makes_a_shape() -> None:
    assert all(map(is_shape, ("shape:llama-3.1-8b", "shape:./x")))
    assert not any(map(is_shape, ("shape", "a/b", None)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_random_weights_give_finite_and_lively_logits(dtype: torch.dtype) -> None:
    model = made(tiny_config(num_hidden_layers=24), dtype)
    assert {weight.dtype for weight in model.parameters()} == {dtype}
    logits = model(torch.arange(40)[None]).logits.float()
    assert torch.isfinite(logits).all()
    assert logits.std() > 1e-3
    assert len(logits.argmax(-1).unique()) > 3


def test_experts_are_drawn_too() -> None:
    from transformers import Qwen3MoeConfig

    values = {name: value for name, value in TINY_MOE.items() if name != "model_type"}
    model = made(Qwen3MoeConfig(**values))
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            assert 0.01 < weight.std() < 0.03, name
    assert torch.isfinite(model(torch.arange(20)[None]).logits).all()


def test_the_rotary_frequencies_are_the_configs_own_and_stay_float32() -> None:
    from transformers import LlamaForCausalLM

    config = tiny_config()
    expected = LlamaForCausalLM(config).model.rotary_emb.inv_freq
    found = made(config, torch.bfloat16).model.rotary_emb.inv_freq
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


def test_the_same_shape_has_the_same_weights_and_nobody_elses_numbers_change() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = made(tiny_config()).state_dict()
    assert torch.equal(torch.rand(3), expected)
    second = made(tiny_config()).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_weights_that_do_not_fit_are_refused_with_both_figures_before_any_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("weights were made")

    monkeypatch.setattr(placement, "available_bytes", lambda device: 139_800_000_000)
    monkeypatch.setattr(making, "seeded", never)
    with pytest.raises(SpecbenchError) as caught:
        load_causal_lm("shape:llama-3.1-70b", device="cpu")
    assert str(caught.value) == (
        "shape:llama-3.1-70b in bfloat16 takes 141 GB, and cpu has 140 GB free. Take a smaller "
        "model, a narrower --dtype, or a device with more memory"
    )


def test_what_just_fits_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = 4 * count_parameters(tiny_config())
    monkeypatch.setattr(placement, "available_bytes", lambda device: needed)
    made(tiny_config())
    monkeypatch.setattr(placement, "available_bytes", lambda device: needed - 1)
    with pytest.raises(SpecbenchError):
        made(tiny_config())


def test_a_published_shape_loads_without_a_file_or_a_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "none"))
    loaded = load_causal_lm("shape:smollm2-135m", device="cpu", dtype="bfloat16")
    assert loaded.provenance == {
        "name": "shape:smollm2-135m",
        "served_from": ("random weights; config.json of HuggingFaceTB/SmolLM2-135M, October 2024"),
        "sha256": None,
        "files": {},
        "revision": None,
        "tokenizer": "SmolLM2's, ids only",
        "dtype": "bfloat16",
        "attention": "sdpa",
        "parameters": 134_515_008,
        "weight_bytes": 269_030_016,
    }
    assert loaded.vocabulary is None
    assert not (tmp_path / "none").exists()
    assert not any(weight.requires_grad for weight in loaded.model.parameters())


def test_a_folder_with_a_config_alone_is_a_shape(bare: Path) -> None:
    loaded = load_causal_lm(f"shape:{bare}", device="cpu")
    assert loaded.provenance["served_from"] == f"random weights; config.json of {bare}"
    assert loaded.provenance["tokenizer"] == "SmolLM2's, ids only"
    ids = loaded.tokenizer("Some text, and more")["input_ids"]
    assert max(ids) < loaded.model.config.vocab_size
    loaded.model(torch.tensor([ids]))


def test_a_folder_with_a_tokenizer_keeps_it_and_needs_no_weights(
    pristine: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(pristine, tmp_path / "tiny"))
    (folder / "model.safetensors").unlink()
    loaded = load_causal_lm(f"shape:{folder}", device="cpu")
    assert loaded.provenance["tokenizer"] == "its own"
    assert loaded.tokenizer.decode(loaded.tokenizer("abc")["input_ids"]) == "abc"


def test_bytes_are_known_without_weights(bare: Path) -> None:
    assert shape_bytes("shape:llama-3.1-8b") == 2 * 8_030_261_248
    assert shape_bytes("shape:llama-3.1-8b", "float32") == 4 * 8_030_261_248
    loaded = load_causal_lm(f"shape:{bare}", device="cpu")
    assert shape_bytes(f"shape:{bare}") == loaded.weight_bytes


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("shape:llama-3.1-8", "unknown shape 'llama-3.1-8'. Did you mean 'llama-3.1-8b'?"),
        ("shape:", "unknown shape ''"),
        ("shape:no/such/folder", "unknown shape 'no/such/folder'"),
    ],
)
def test_what_is_no_shape_to_decode_with_is_one_line(name: str, says: str) -> None:
    with pytest.raises(SpecbenchError) as caught:
        load_causal_lm(name, device="cpu")
    assert says in str(caught.value)


def test_a_folder_without_a_config_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match=r"has no config\.json"):
        resolve(f"shape:{tmp_path}")


def test_a_config_that_is_no_language_models_is_refused(bare: Path) -> None:
    (bare / "config.json").write_text(json.dumps({"model_type": "vit"}), encoding="utf-8")
    with pytest.raises(SpecbenchError, match="no causal language model"):
        load_causal_lm(f"shape:{bare}", device="cpu")


def test_dimensions_that_make_no_model_are_named(bare: Path) -> None:
    config = json.loads((bare / "config.json").read_text(encoding="utf-8"))
    (bare / "config.json").write_text(json.dumps({**config, "vocab_size": -1}), encoding="utf-8")
    with pytest.raises(SpecbenchError, match=r"no model can be made of the config\.json of"):
        load_causal_lm(f"shape:{bare}", device="cpu")


class TestBorrowedTokenizer:
    """SmolLM2's ids in vocabularies of other sizes."""

    text = "A naïve résumé, 12 ≠ 21: <|im_end|> and zebras"

    def test_a_larger_vocabulary_has_the_ids_as_they_are(self) -> None:
        large, larger = borrowed_tokenizer(49_152), borrowed_tokenizer(128_256)
        ids = large(self.text)["input_ids"]
        assert ids == larger(self.text)["input_ids"]
        assert large.decode(ids) == self.text

    def test_a_smaller_one_has_as_many_tokens_all_below_its_size(self) -> None:
        ids = borrowed_tokenizer(49_152)(self.text)["input_ids"]
        small = borrowed_tokenizer(1000)(self.text)["input_ids"]
        assert small == [token % 1000 for token in ids]

    def test_generated_ids_beyond_its_own_are_read_as_text(self) -> None:
        large = borrowed_tokenizer(128_256)
        words = large.decode([100_000, 120_000, 128_255], skip_special_tokens=True)
        assert words.strip()

    def test_a_chat_has_its_template(self) -> None:
        tokenizer = borrowed_tokenizer(128_256)
        messages = [{"role": "user", "content": "Hello"}]
        options = {"add_generation_prompt": True, "tokenize": True, "return_dict": False}
        ids = tokenizer.apply_chat_template(messages, **options)
        assert "<|im_start|>assistant" in tokenizer.decode(ids)
