"""One forward with per-row lengths against the library's own forward."""

from __future__ import annotations

import pytest
import torch

from specbench.models.language_model import LanguageModel
from tests.tiny import language_model, random_model

ROWS = [[5, 6, 7, 8, 9, 10, 11], [12, 13, 14]]
NEW = torch.tensor([[1, 2, 3], [4, 5, 6]])


@torch.inference_mode()
def read_ragged(model: LanguageModel, **options):
    """Two rows of different lengths in one cache, then three new tokens each."""
    cache = model.new_cache(2, 12)
    for row, tokens in enumerate(ROWS):
        alone = model.new_cache(1, len(tokens))
        model.prefill(tokens, alone)
        cache.restore(row, alone.snapshot(0, len(tokens)))
    return model.forward(NEW, cache, [len(tokens) for tokens in ROWS], **options)


@torch.inference_mode()
def library(model: LanguageModel, **options):
    return [
        model.model(torch.tensor([[*tokens, *new]]), use_cache=False, **options)
        for tokens, new in zip(ROWS, NEW.tolist(), strict=True)
    ]


@pytest.mark.parametrize("kind", ["llama", "gpt2", "opt", "phi", "mistral"])
def test_ragged_rows_get_the_librarys_logits(kind):
    model = language_model(kind)
    ours = read_ragged(model).logits
    for row, expected in enumerate(library(model)):
        assert torch.allclose(ours[row], expected.logits[0, -3:], atol=1e-5)


def test_the_last_token_only():
    model = language_model("llama")
    everything, last = read_ragged(model), read_ragged(model, last_only=True)
    assert last.logits.shape == (2, 1, 61)
    assert torch.allclose(last.logits[:, 0], everything.logits[:, -1], atol=1e-6)


def test_hidden_states_are_those_that_enter_the_named_layers():
    model = language_model("llama")
    ours = read_ragged(model, hidden_layers=(0, 1, 2)).hidden
    assert sorted(ours) == [0, 1, 2]
    for row, expected in enumerate(library(model, output_hidden_states=True)):
        for layer in ours:
            theirs = expected.hidden_states[layer][0, -3:]
            assert torch.allclose(ours[layer][row], theirs, atol=1e-5)
    assert read_ragged(model).hidden == {}


def test_a_forward_beyond_the_cache_is_an_error():
    model = language_model("llama")
    cache = model.new_cache(2, 6)
    with pytest.raises(ValueError, match="slot 6 is beyond the cache's 6 slots"):
        model.forward(NEW, cache, [0, 4])


def test_stop_tokens_come_from_the_generation_config_first():
    model = language_model("llama")
    wrapped = LanguageModel(random_model("llama"))
    assert model.stop_tokens == frozenset()
    wrapped.config.eos_token_id = 7
    assert wrapped.stop_tokens == {7}
    wrapped.model.generation_config.eos_token_id = [3, 0]
    assert wrapped.stop_tokens == {0, 3}
    wrapped.model.generation_config.eos_token_id = 0
    assert wrapped.stop_tokens == {0}


def test_weight_bytes_leave_out_what_a_forward_only_looks_up():
    embedding = 61 * 32 * 4
    untied = LanguageModel(random_model("llama"))
    tied = LanguageModel(random_model("llama", tie_word_embeddings=True))
    count = sum(p.numel() for p in untied.model.parameters()) * 4
    assert untied.weight_bytes == count - embedding
    assert tied.weight_bytes == untied.weight_bytes


def test_facts_about_the_model():
    model = language_model("llama")
    assert (model.vocab_size, model.dtype, model.device.type) == (61, torch.float32, "cpu")
